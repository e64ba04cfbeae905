//! Deletes runs that have exceeded their retention.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::error::StepError;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use tokio_util::sync::CancellationToken;

use crate::state::Server;

/// Interval of the deletion.
const PAUSE: Duration = Duration::from_secs(3600);

/// Deletes expired runs now and every hour, until the server stops.
pub(crate) async fn keep_sweeping(server: Arc<Server>, told: CancellationToken) {
    loop {
        match sweep(&server).await {
            Ok(0) => {}
            Ok(count) => tracing::warn!("deleted {count} old runs ([retention])"),
            Err(error) => tracing::warn!("cannot delete old runs: {error}"),
        }
        if told.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return;
        }
    }
}

async fn sweep(server: &Server) -> Result<u64, StepError> {
    let mut count = 0;
    for old in server.app.config.retention.old(SystemClock.now_ms()) {
        count += server.app.store.prune(old).await?;
    }
    Ok(count)
}
