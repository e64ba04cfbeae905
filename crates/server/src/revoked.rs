//! Ends calls and event streams whose API key was revoked, has expired or was rotated: they may outlive their permission.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use flowloom_core::code::Code;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::outage_log::OutageLog;
use flowloom_store::Store;
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::blocking::run_blocking;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};

/// Interval of checking for keys that are no longer valid, possibly because of another process.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The calls in progress and the open streams, by the hash of the secret that authenticated them. Each holds the token that
/// ends it.
pub(crate) struct KeyCalls {
    open: Mutex<OpenCalls>,
    /// Maximum number of calls and streams of one user, so that others find a connection.
    max_of_user: usize,
}

#[derive(Default)]
struct OpenCalls {
    by_secret: HashMap<Arc<str>, Arc<CancellationToken>>,
    /// Each call holds the count of its user, or of its key if that has no user.
    by_user: HashMap<String, Arc<()>>,
}

impl KeyCalls {
    /// The calls of a server with so many connections, half of which one user may use.
    pub(crate) fn new(connections: usize) -> KeyCalls {
        KeyCalls { open: Mutex::default(), max_of_user: (connections / 2).max(1) }
    }

    fn lock_open(&self) -> MutexGuard<'_, OpenCalls> {
        self.open.lock()
    }

    /// Counts a call until it is answered. Fails with `TooManyCalls` if too many calls of the user are open, with whichever
    /// keys.
    pub(crate) fn enter_call(&self, caller: Option<&Caller>) -> ApiResult<KeyCall> {
        let Some((caller, key)) = caller.and_then(|caller| Some((caller, caller.key.as_ref()?))) else {
            return Ok(KeyCall { open: None });
        };
        let counted_as = match &caller.user {
            Some(user) => format!("user {user}"),
            None => format!("key {}", key.id()),
        };
        let mut open = self.lock_open();
        let OpenCalls { by_secret, by_user } = &mut *open;
        let of_user = by_user.entry(counted_as).or_default();
        // The map itself holds one.
        if Arc::strong_count(of_user) > self.max_of_user {
            let whose = if caller.user.is_some() { "user" } else { "key" };
            let message =
                format!("{} calls and streams of this {whose} are open, which is the limit", self.max_of_user);
            return Err(Problem::new(Code::TooManyCalls, message));
        }
        let ended = by_secret.entry(key.secret_hash.clone()).or_default().clone();
        Ok(KeyCall { open: Some(OpenCall { ended, _of_user: of_user.clone() }) })
    }

    /// The secrets with open calls. The others are forgotten.
    fn list_open(&self) -> Vec<Arc<str>> {
        let mut open = self.lock_open();
        open.by_user.retain(|_, calls| Arc::strong_count(calls) > 1);
        open.by_secret.retain(|_, ended| Arc::strong_count(ended) > 1);
        open.by_secret.keys().cloned().collect()
    }

    /// Ends the calls and streams of a secret.
    fn end_calls(&self, secret_hash: &str) {
        if let Some(ended) = self.lock_open().by_secret.remove(secret_hash) {
            ended.cancel();
        }
    }
}

/// A call that ends when its secret is no longer valid.
pub(crate) struct KeyCall {
    open: Option<OpenCall>,
}

/// Counts for its user until it is dropped.
struct OpenCall {
    ended: Arc<CancellationToken>,
    _of_user: Arc<()>,
}

impl OpenCall {
    /// Waits until the secret is no longer valid. The call counts as long as this is kept.
    async fn wait_for_end(self) {
        self.ended.cancelled().await;
    }
}

impl KeyCall {
    /// The answer of a handler. An answer that is a stream of events ends with the secret, too.
    pub(crate) async fn answer_with(self, handled: impl Future<Output = Response>) -> Response {
        let Some(open) = self.open else { return handled.await };
        let answer = tokio::select! {
            answer = handled => answer,
            () = open.ended.cancelled() => {
                let message = "the API key was revoked, rotated or has expired while the call was waiting";
                return Problem::new(Code::KeyUnknown, message).into_response();
            }
        };
        if !is_event_stream(&answer) {
            return answer;
        }
        answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(open.wait_for_end()))))
    }
}

/// Whether an answer streams events.
pub(crate) fn is_event_stream(answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Checks the keys while calls are open, until the server stops.
pub(crate) async fn run_revocation_task(calls: Arc<KeyCalls>, store: Arc<Store>, shutdown: CancellationToken) {
    let outages = OutageLog::new("the list of API keys");
    while shutdown.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_some() {
        // Listed before the keys are read: the key of a later call may be newer than the keys that were read.
        let open = calls.list_open();
        if open.is_empty() {
            continue;
        }
        match check_keys(&calls, &open, &store).await {
            Ok(()) => outages.note_success(),
            Err(error) => {
                outages.note_failure(error.code(), &error.detail());
            }
        }
    }
}

/// Ends the calls of those `open` secrets that are no longer valid.
async fn check_keys(calls: &KeyCalls, open: &[Arc<str>], store: &Arc<Store>) -> ApiResult<()> {
    let shared = store.clone();
    let keys = run_blocking(move || shared.list_keys()).await??;
    let now = SystemClock.now_ms();
    let is_valid = |hash: &str| keys.iter().any(|key| key.accepts(hash, now));
    open.iter().filter(|hash| !is_valid(hash)).for_each(|hash| calls.end_calls(hash));
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn a_stream_counts_for_its_user_until_it_ends() {
        let of_user = Arc::new(());
        let open = OpenCall { ended: Arc::default(), _of_user: of_user.clone() };
        let handled = async {
            let body = Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>());
            ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
        };
        let answer = KeyCall { open: Some(open) }.answer_with(handled).await;
        assert_eq!(Arc::strong_count(&of_user), 2);
        drop(answer);
        assert_eq!(Arc::strong_count(&of_user), 1);
    }
}
