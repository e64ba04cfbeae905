//! Runs of the store that have ended.

use flowloom_runtime::RunOutcome;

use crate::error::AppError;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// Reads a stored run as if it had just been driven. Fails if an engine cannot be built from the settings in the bundle
/// of the run.
pub async fn read_outcome(runs: &StoredRuns, opened: &LoadedRun) -> Result<RunOutcome, AppError> {
    let state = opened.state();
    let env = runs.find_env(opened, opened.records.clone()).await?;
    Ok(RunOutcome { id: opened.id, state, records: opened.records.clone(), broken: None, env })
}
