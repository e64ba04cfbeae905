//! Ends calls and event streams whose API key was revoked, has expired or was rotated: they may outlive their permission.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use flowloom_core::code::Code;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::Store;
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::blocking::run_blocking;
use crate::problem::{ApiResult, Problem};

/// Interval of checking for keys that are no longer valid, possibly because of another process.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The calls in progress and the open streams, by the hash of the secret that authenticated them. Each holds the token that
/// ends it.
pub(crate) struct KeyCalls {
    open: Mutex<HashMap<Arc<str>, Arc<CancellationToken>>>,
    /// Maximum number of calls and streams of one secret, so that others find a connection.
    max_of_secret: usize,
}

impl KeyCalls {
    /// The calls of a server with so many connections, half of which one secret may use.
    pub(crate) fn new(connections: usize) -> KeyCalls {
        KeyCalls { open: Mutex::default(), max_of_secret: (connections / 2).max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<CancellationToken>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call until it is answered. Fails with `TooManyCalls` if too many calls of the secret are open.
    pub(crate) fn enter_call(&self, secret_hash: Option<Arc<str>>) -> ApiResult<KeyCall> {
        let Some(hash) = secret_hash else { return Ok(KeyCall { ended: None }) };
        let mut open = self.lock();
        let token = open.entry(hash).or_default();
        // The map itself holds one.
        match Arc::strong_count(token) > self.max_of_secret {
            false => Ok(KeyCall { ended: Some(token.clone()) }),
            true => {
                let message =
                    format!("{} calls and streams of this key are open, which is the limit", self.max_of_secret);
                Err(Problem::new(Code::TooManyCalls, message))
            }
        }
    }

    /// The secrets with open calls. The others are forgotten.
    fn list_open(&self) -> Vec<Arc<str>> {
        let mut open = self.lock();
        open.retain(|_, ended| Arc::strong_count(ended) > 1);
        open.keys().cloned().collect()
    }

    /// Ends the calls and streams of a secret.
    fn end_calls(&self, secret_hash: &str) {
        if let Some(ended) = self.lock().remove(secret_hash) {
            ended.cancel();
        }
    }
}

/// A call that ends when its secret is no longer valid.
pub(crate) struct KeyCall {
    ended: Option<Arc<CancellationToken>>,
}

impl KeyCall {
    /// The answer of a handler. An answer that is a stream of events ends with the secret, too.
    pub(crate) async fn answer_with(self, handled: impl Future<Output = Response>) -> Response {
        let Some(ended) = self.ended else { return handled.await };
        let answer = tokio::select! {
            answer = handled => answer,
            () = ended.cancelled() => {
                let message = "the API key was revoked, rotated or has expired while the call was waiting";
                return Problem::new(Code::KeyUnknown, message).into_response();
            }
        };
        if !is_event_stream(&answer) {
            return answer;
        }
        let end = async move { ended.cancelled().await };
        answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(end))))
    }
}

/// Whether an answer streams events.
pub(crate) fn is_event_stream(answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Checks the keys while calls are open, until the server stops.
pub(crate) async fn run_revocation_task(calls: Arc<KeyCalls>, store: Arc<Store>, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_some() {
        // Listed before the keys are read: the key of a later call may be newer than what is read.
        let open = calls.list_open();
        if open.is_empty() {
            continue;
        }
        if let Err(error) = check_keys(&calls, &open, &store).await {
            tracing::warn!("cannot check the keys of open calls: {}", error.detail());
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
