//! What is asked of runs that were started: to take an answer, to end, to go on.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use flowloom_runtime::journal::Wish;

use super::service::Runs;
use super::supervisor::{Begun, Ending};
use crate::engines::Opened;

impl Runs {
    /// Sends a signal to a run, wherever it is driven, and resumes it.
    pub async fn post(&self, opened: Opened, wish: Wish) -> Result<Begun, StepError> {
        let run = opened.id;
        let begun = self.live.again(run);
        let left = match self.live.control(run) {
            Some(control) => control.wish(wish).err(),
            None => Some(wish),
        };
        let Some(wish) = left else { return Ok(begun) };
        // The run may be about to end in this process.
        self.live.wait(run).await;
        match self.app.engine_of(&opened)?.post(run, wish.clone()).await {
            Ok(()) => self.go_on(opened).await,
            // Another worker drives the run and will poll the signal.
            Err(error) if error.code == Code::RunOwned => {
                self.app.store.leave_wish(run, wish).await?;
                Ok(begun)
            }
            Err(error) => Err(error),
        }
    }

    /// Drives a run from the end of its journal, unless a worker drives it already.
    pub async fn go_on(&self, opened: Opened) -> Result<Begun, StepError> {
        let id = opened.id;
        match self.drive(opened).await {
            // Another worker drives it.
            Err(error) if error.code == Code::RunOwned => Ok(Begun { id, ending: None, heard: None }),
            ending => Ok(Begun { id, ending: ending?, heard: None }),
        }
    }

    /// Reads a run and drives it. Fails with `RunOwned` if another worker drives it.
    pub async fn resume(&self, id: RunId) -> Result<(), StepError> {
        self.drive(self.app.open_id(id).await?).await.map(|_| ())
    }

    async fn drive(&self, opened: Opened) -> Result<Option<Ending>, StepError> {
        let ending = self.live.ending(opened.id);
        if ending.is_some() || opened.state().status.is_final() {
            return Ok(ending);
        }
        let plan = opened.plan.clone();
        let engine = self.app.engine_of(&opened)?;
        let compiled = plan.clone();
        match engine.resume(opened.id, async |_| Ok::<_, StepError>(compiled)).await {
            // The run has ended since its journal was read.
            Err(error) if error.code == Code::NothingToDo => Ok(None),
            run => Ok(Some(self.live.drive(run?, plan).await)),
        }
    }
}
