//! The outcome of driving a run.

use std::sync::Arc;

use flowloom_core::error::StepFailure;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::plan::Env;
use flowloom_core::state::RunState;

use crate::error::RunError;

/// The state of a run that is no longer driven.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The id of the run.
    pub id: RunId,
    /// The state of the run.
    pub state: RunState,
    /// The stored records.
    pub records: Vec<Arc<Record>>,
    /// The final variables, conversations and transcript.
    pub env: Env,
    /// Why the run is no longer driven, if it neither ended nor waits.
    pub broken: Option<RunError>,
}

impl RunOutcome {
    /// The error that stopped driving the run, or else the one that the run recorded.
    pub fn find_error(&self) -> Option<StepFailure> {
        self.broken.clone().map(StepFailure::from).or_else(|| self.state.error.clone())
    }
}
