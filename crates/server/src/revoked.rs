//! Ends event streams whose API key was revoked, since a stream may outlive its permission.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use flowloom_store::Store;
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::blocking::run_blocking;
use crate::problem::ApiResult;

/// Interval of checking for keys that were revoked, possibly by another process.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The keys of open streams. Each stream holds the token that ends it.
#[derive(Default)]
pub(crate) struct KeyStreams(Mutex<HashMap<Arc<str>, Arc<CancellationToken>>>);

impl KeyStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<CancellationToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the response with the key, if it is a stream of events.
    pub(crate) fn bind_to_key(&self, key: Option<Arc<str>>, answer: Response) -> Response {
        let kind = answer.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let Some(key) = key.filter(|_| is_stream) else { return answer };
        let revoked = self.lock().entry(key).or_default().clone();
        let end = async move { revoked.cancelled().await };
        answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(end))))
    }

    /// Ends the streams of revoked keys, and forgets keys without open streams.
    fn end_revoked(&self, is_revoked: impl Fn(&str) -> bool) {
        self.lock().retain(|key, ended| {
            let over = is_revoked(key);
            if over {
                ended.cancel();
            }
            !over && Arc::strong_count(ended) > 1
        });
    }
}

/// Checks for revoked keys while streams are open, until the server stops.
pub(crate) async fn run_revocation_task(streams: Arc<KeyStreams>, store: Arc<Store>, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_some() {
        if streams.lock().is_empty() {
            continue;
        }
        if let Err(error) = check_keys(&streams, &store).await {
            tracing::warn!("cannot check for revoked keys: {}", error.detail());
        }
    }
}

async fn check_keys(streams: &KeyStreams, store: &Arc<Store>) -> ApiResult<()> {
    let shared = store.clone();
    let keys = run_blocking(move || shared.list_keys()).await??;
    let good: Vec<&str> = keys.iter().filter(|key| key.revoked_at.is_none()).map(|key| key.id.as_str()).collect();
    streams.end_revoked(|key| !good.contains(&key));
    Ok(())
}
