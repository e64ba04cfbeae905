//! Runs of the store that have ended.

use flowloom_core::error::StepError;
use flowloom_runtime::Outcome as RunOutcome;

use crate::engines::{App, Opened};

/// Reads a stored run as if it had just been driven.
pub async fn recorded(app: &App, opened: &Opened) -> Result<RunOutcome, StepError> {
    let state = opened.state();
    let env = app.engine_of(opened)?.left(opened.records.clone(), opened.plan.clone()).await;
    Ok(RunOutcome { id: opened.id, state, records: opened.records.clone(), broken: None, env })
}
