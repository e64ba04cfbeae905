//! Waiting for runs, wherever they are driven.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_store::RunRow;

use super::service::Runs;
use super::supervisor::{Ended, Ending};

/// Interval of polling a run that another worker drives.
const LOOK: Duration = Duration::from_millis(100);

impl Runs {
    /// Whether a worker drives a run or will: a run with status `running` is reclaimed if its worker is dead.
    pub fn goes_on(&self, id: RunId) -> bool {
        matches!(self.app.store.run(id), Ok(Some(run)) if goes_on(&run))
    }

    /// Waits until no worker drives a run.
    pub async fn wait(&self, id: RunId) {
        self.live.wait(id).await;
        while self.goes_on(id) {
            tokio::time::sleep(LOOK).await;
            self.live.wait(id).await;
        }
    }

    /// Waits until the start of a new run is stored, so that only stored runs are acknowledged. Fails if storing failed.
    pub async fn stored(&self, id: RunId, ending: Option<Ending>) -> Result<(), StepError> {
        self.live.begun(id).await;
        let Some(ending) = ending else { return Ok(()) };
        if self.app.store.run(id)?.is_none()
            && let Some(ended) = ending.wait().await
        {
            ended.outcome.broken.clone().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Waits until no worker drives a run. Returns its outcome if this process drove it.
    pub async fn over(&self, id: RunId, ending: Option<Ending>) -> Option<Arc<Ended>> {
        if let Some(ending) = ending {
            let ended = ending.wait().await;
            let is_lost = |ended: &Arc<Ended>| {
                ended.outcome.broken.as_ref().is_some_and(|error| error.code == Code::OwnershipLost)
            };
            // A run that another worker reclaimed continues there.
            if !ended.as_ref().is_some_and(is_lost) {
                return ended;
            }
        }
        self.wait(id).await;
        None
    }

    /// Waits at most `time` until no worker drives a run; the run continues afterwards.
    pub async fn waited(&self, id: RunId, ending: Option<Ending>, time: Duration) -> Option<Arc<Ended>> {
        tokio::time::timeout(time, self.over(id, ending)).await.ok().flatten()
    }
}

/// Whether a worker drives a run or will.
pub fn goes_on(run: &RunRow) -> bool {
    run.finished_at.is_none() && (run.is_driven || run.status == Status::Running.name())
}
