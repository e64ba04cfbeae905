//! Signals to runs that were started: answers, cancellations, decisions; and resuming them.

use flowloom_core::id::RunId;
use flowloom_runtime::RunError;
use flowloom_runtime::journal::Signal;

use super::service::RunService;
use super::supervisor::{ActiveRun, RunCompletion};
use crate::engines::{App, LoadedRun};
use crate::error::AppError;

/// Where a signal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalDelivery {
    /// In the journal of the run, which nobody drives; the next resume applies it.
    Recorded,
    /// With the worker that drives the run, in another process.
    SentToWorker,
}

impl App {
    /// Delivers a signal to a run that this process does not drive.
    pub async fn deliver_signal(&self, opened: &LoadedRun, signal: Signal) -> Result<SignalDelivery, AppError> {
        match self.engine_for_run(opened)?.post_signal(opened.id, signal.clone()).await {
            Ok(()) => Ok(SignalDelivery::Recorded),
            Err(error) if error.is_owned() => {
                self.store.send_signal(opened.id, signal).await?;
                Ok(SignalDelivery::SentToWorker)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl RunService {
    /// Sends a signal to a run, wherever it is driven, and resumes it.
    pub async fn post_signal(&self, opened: LoadedRun, signal: Signal) -> Result<ActiveRun, AppError> {
        let run = opened.id;
        let active = self.live.find_started(run);
        let left = match self.live.find_control(run) {
            Some(control) => control.send_signal(signal).err(),
            None => Some(signal),
        };
        let Some(signal) = left else { return Ok(active) };
        // The run may be about to end in this process.
        self.live.wait_for_run(run).await;
        match self.app.deliver_signal(&opened, signal).await? {
            SignalDelivery::Recorded => self.continue_run(opened).await,
            SignalDelivery::SentToWorker => Ok(active),
        }
    }

    /// Drives a run from the end of its journal, unless a worker drives it already.
    pub async fn continue_run(&self, opened: LoadedRun) -> Result<ActiveRun, AppError> {
        let id = opened.id;
        match self.drive_run(opened).await {
            // Another worker drives it.
            Err(error) if error.is_run_owned() => Ok(ActiveRun { id, completion: None, subscription: None }),
            ending => Ok(ActiveRun { id, completion: ending?, subscription: None }),
        }
    }

    /// Reads a run and drives it. Fails with `RunOwned` if another worker drives it.
    pub async fn resume_run(&self, id: RunId) -> Result<(), AppError> {
        self.drive_run(self.app.open_run_by_id(id).await?).await.map(|_| ())
    }

    async fn drive_run(&self, opened: LoadedRun) -> Result<Option<RunCompletion>, AppError> {
        let ending = self.live.find_completion(opened.id);
        if ending.is_some() || opened.state().status.is_final() {
            return Ok(ending);
        }
        let plan = opened.plan.clone();
        let engine = self.app.engine_for_run(&opened)?;
        match engine.resume_run(opened.id, plan.clone()).await {
            // The run has ended since its journal was read.
            Err(RunError::Ended(_)) => Ok(None),
            run => Ok(Some(self.live.drive_run(run?, plan).await)),
        }
    }
}
