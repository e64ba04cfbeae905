//! Retrying a run that has ended.

use flowloom_core::path::Path;
use flowloom_runtime::RunError;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::CommandAction;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::reopen::select_steps;
use flowloom_store::RunFilter;

use super::named_step::check_own_step;
use crate::error::AppError;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// Builds the command that retries a run: from the step at `from`, or only what failed. Fails if the run cannot be retried
/// in this way; the worker that applies the command checks it again.
pub fn build_retry(runs: &StoredRuns, opened: &LoadedRun, from: Option<&str>) -> Result<CommandAction, AppError> {
    runs.check_project(opened)?;
    let from = from.and_then(parse_step_path);
    let driving = runs.store.find_driving_run(opened.id)?;
    if driving != opened.id && opened.state().status.is_final() {
        return Err(RunError::ParentNotEnded(driving).into());
    }
    if let Some(from) = &from {
        check_own_step(runs, opened, from, ["retry", "from"])?;
    }
    select_steps(&opened.state(), &opened.records, &opened.plan, from.as_ref())?;
    check_last_turn(runs, opened)?;
    let user = opened.state().created.map(|created| created.user.clone()).unwrap_or_default();
    runs.store.check_database_quota(&user, 0, SystemClock.now_ms())?;
    Ok(CommandAction::Retry { from })
}

/// The path of a step as a person writes it, possibly without the leading slash.
pub fn parse_step_path(text: &str) -> Option<Path> {
    Path::parse(text).or_else(|| Path::parse(&format!("/{text}")))
}

/// Fails if the run is a turn of a conversation that has later turns: its end would overwrite them.
fn check_last_turn(runs: &StoredRuns, opened: &LoadedRun) -> Result<(), AppError> {
    let Some(row) = runs.store.get_run(opened.id)?.filter(|row| row.thread_key.is_some()) else { return Ok(()) };
    let turns = RunFilter { user: Some(row.user), thread_key: row.thread_key, limit: 1, ..RunFilter::default() };
    match runs.store.list_runs_matching(&turns)?.first() {
        Some(last) if last.id != opened.id => Err(RunError::LaterTurn(last.id).into()),
        _ => Ok(()),
    }
}
