//! Takes away what the configuration does not keep any longer.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::error::StepError;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use tokio_util::sync::CancellationToken;

use crate::state::Server;

/// Between two sweeps.
const PAUSE: Duration = Duration::from_secs(3600);

/// Sweeps now and every hour, until the server is told to stop.
pub(crate) async fn keep_sweeping(server: Arc<Server>, told: CancellationToken) {
    loop {
        match sweep(&server).await {
            Ok(0) => {}
            Ok(count) => tracing::warn!("{count} old runs were taken away ([retention])"),
            Err(error) => tracing::warn!("old runs could not be taken away: {error}"),
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
