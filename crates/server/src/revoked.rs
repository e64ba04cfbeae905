//! Ends event streams whose API key was revoked, has expired or was rotated, since a stream may outlive its permission.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::Store;
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::blocking::run_blocking;
use crate::problem::ApiResult;

/// Interval of checking for keys that are no longer valid, possibly because of another process.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The open streams, by the hash of the secret that opened them. Each stream holds the token that ends it.
#[derive(Default)]
pub(crate) struct KeyStreams(Mutex<HashMap<Arc<str>, Arc<CancellationToken>>>);

impl KeyStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<CancellationToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the response with the secret, if it is a stream of events.
    pub(crate) fn bind_to_secret(&self, secret_hash: Option<Arc<str>>, answer: Response) -> Response {
        let kind = answer.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let Some(hash) = secret_hash.filter(|_| is_stream) else { return answer };
        let revoked = self.lock().entry(hash).or_default().clone();
        let end = async move { revoked.cancelled().await };
        answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(end))))
    }

    /// Ends the streams of secrets that are no longer valid, and forgets secrets without open streams.
    fn end_invalid(&self, is_valid: impl Fn(&str) -> bool) {
        self.lock().retain(|hash, ended| {
            let over = !is_valid(hash);
            if over {
                ended.cancel();
            }
            !over && Arc::strong_count(ended) > 1
        });
    }
}

/// Checks the keys while streams are open, until the server stops.
pub(crate) async fn run_revocation_task(streams: Arc<KeyStreams>, store: Arc<Store>, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_some() {
        if streams.lock().is_empty() {
            continue;
        }
        if let Err(error) = check_keys(&streams, &store).await {
            tracing::warn!("cannot check the keys of open streams: {}", error.detail());
        }
    }
}

async fn check_keys(streams: &KeyStreams, store: &Arc<Store>) -> ApiResult<()> {
    let shared = store.clone();
    let keys = run_blocking(move || shared.list_keys()).await??;
    let now = SystemClock.now_ms();
    streams.end_invalid(|hash| keys.iter().any(|key| key.accepts(hash, now)));
    Ok(())
}
