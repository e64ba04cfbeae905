//! Waiting for runs, wherever they are driven.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_runtime::RunError;
use flowloom_store::RunRow;

use super::service::RunService;
use super::supervisor::{FinishedRun, RunCompletion};
use crate::error::AppError;

/// Interval of polling a run that another worker drives.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl RunService {
    /// Whether a worker drives a run or will: a run with status `running` is reclaimed if its worker is dead.
    pub fn is_active(&self, id: RunId) -> bool {
        matches!(self.app.store.get_run(id), Ok(Some(run)) if is_active_row(&run))
    }

    /// Waits until no worker drives a run.
    pub async fn wait_until_idle(&self, id: RunId) {
        self.live.wait_for_run(id).await;
        while self.is_active(id) {
            tokio::time::sleep(POLL_INTERVAL).await;
            self.live.wait_for_run(id).await;
        }
    }

    /// Waits until the start of a new run is stored, so that only stored runs are acknowledged. Fails if storing failed.
    pub async fn wait_until_stored(&self, id: RunId, ending: Option<RunCompletion>) -> Result<(), AppError> {
        self.live.wait_until_stored(id).await;
        let Some(ending) = ending else { return Ok(()) };
        if self.app.store.get_run(id)?.is_none()
            && let Some(ended) = ending.wait().await
        {
            ended.outcome.broken.clone().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Waits until no worker drives a run. Returns its outcome if this process drove it.
    pub async fn wait_until_ended(&self, id: RunId, ending: Option<RunCompletion>) -> Option<Arc<FinishedRun>> {
        if let Some(ending) = ending {
            let ended = ending.wait().await;
            let is_lost =
                |ended: &Arc<FinishedRun>| ended.outcome.broken.as_ref().is_some_and(RunError::is_ownership_lost);
            // A run that another worker reclaimed continues there.
            if !ended.as_ref().is_some_and(is_lost) {
                return ended;
            }
        }
        self.wait_until_idle(id).await;
        None
    }

    /// Waits at most `time` until no worker drives a run; the run continues afterwards.
    pub async fn wait_with_timeout(
        &self,
        id: RunId,
        ending: Option<RunCompletion>,
        time: Duration,
    ) -> Option<Arc<FinishedRun>> {
        tokio::time::timeout(time, self.wait_until_ended(id, ending)).await.ok().flatten()
    }
}

/// Whether a worker drives a run or will.
pub fn is_active_row(run: &RunRow) -> bool {
    run.finished_at.is_none() && (run.is_driven || run.status == Status::Running.name())
}
