//! Deletes runs that have exceeded their retention, and what refused calls have left.

use std::sync::Arc;
use std::time::Duration;

use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::config::retention::Retention;

/// Interval of the deletion.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

/// How long the `Idempotency-Key` of a call is kept whose run was refused; far longer than clocks of servers differ, because
/// another server may be starting the run.
const UNUSED_KEY_AGE_MS: u64 = 7 * 24 * 3600 * 1000;

/// Deletes expired runs now and every hour, until the server stops.
pub async fn run_retention_task(store: Arc<Store>, retention: Retention, shutdown: CancellationToken) {
    loop {
        match delete_expired_runs(&store, &retention).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "deleted old runs ([retention])"),
            Err(error) => tracing::warn!("cannot delete old runs: {error}"),
        }
        let unused_before = SystemClock.now_ms().saturating_sub(UNUSED_KEY_AGE_MS);
        if let Err(error) = store.delete_unused_reservations(unused_before).await {
            tracing::warn!("cannot delete the idempotency keys of refused calls: {error}");
        }
        if shutdown.run_until_cancelled(tokio::time::sleep(PRUNE_INTERVAL)).await.is_none() {
            return;
        }
    }
}

async fn delete_expired_runs(store: &Store, retention: &Retention) -> Result<u64, StoreError> {
    let mut count = 0;
    for old in retention.expired_runs(SystemClock.now_ms()) {
        count += store.prune_runs(old).await?;
    }
    Ok(count)
}
