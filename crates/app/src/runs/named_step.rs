//! The step of a run that a person names, to repeat it.

use std::collections::HashSet;

use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::state::RunState;
use flowloom_runtime::RunError;
use flowloom_runtime::reopen::find_performed_step;

use super::fork_error::{ForkError, NotOwnStep};
use super::recorded_calls::ChildRunFinder;
use super::retry::parse_step_path;
use crate::definitions::edit::find_path;
use crate::definitions::outline::outline_plan;
use crate::error::AppError;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// Separates the path of a step from those of the steps of its child run.
const CHILD_RUN_SEGMENT: &str = "/run~1/";

/// The step of a run that a fork of it begins at.
pub(super) fn find_named_step(runs: &StoredRuns, from: &LoadedRun, text: &str) -> Result<Path, AppError> {
    let state = from.state();
    let all = list_paths(&state);
    let paths: Vec<&Path> = all.iter().collect();
    let wanted = parse_step_path(text).unwrap_or_else(Path::root);
    let path = find_path(&paths, wanted.as_str()).cloned().unwrap_or_else(|| wanted.clone());
    let error = match find_performed_step(&state, &path) {
        Err(error @ RunError::NoSuchStep { .. }) => error,
        found => return Ok(found?),
    };
    check_own_step(runs, from, &wanted, ["fork", "at"])?;
    match list_repetitions(&paths, &wanted).as_slice() {
        [] if !state.status.is_final() && is_in_plan(&from.plan, &path) => {
            Err(ForkError::NotRunYet(path.to_string()).into())
        }
        [] => Err(error.into()),
        [only] => Ok(find_performed_step(&state, only)?),
        several => Err(ForkError::AmbiguousStep { name: wanted.to_string(), paths: several.to_vec() }.into()),
    }
}

/// The paths of the steps of a run in their order, and of what contains them: loops, conditions, and their iterations.
fn list_paths(state: &RunState) -> Vec<Path> {
    let (mut paths, mut seen) = (Vec::new(), HashSet::new());
    for step in state.steps() {
        let above = step.path.ancestors().filter(|above| *above != "/").filter_map(Path::parse);
        paths.extend(above.chain([step.path.clone()]).filter(|path| seen.insert(path.clone())));
    }
    paths
}

/// Fails with [`NotOwnStep`] if a path is that of a step of a child run. `advice` has the command that can be given for that
/// run, and the option of it that takes the path.
pub(super) fn check_own_step(
    runs: &StoredRuns,
    opened: &LoadedRun,
    path: &Path,
    advice: [&'static str; 2],
) -> Result<(), AppError> {
    if !path.as_str().contains(CHILD_RUN_SEGMENT) {
        return Ok(());
    }
    let mut finder = ChildRunFinder::new(&runs.store);
    finder.add_caller(opened.id, &opened.records);
    let (mut state, mut run, mut step) = (opened.state(), opened.id, path.clone());
    while let Some((call, attempt, inner)) = split_child_path(&state, &step) {
        let Some(child) = finder.find_child(run, &call, attempt)? else { break };
        let records = runs.store.read_events(child, 0, u32::MAX)?;
        state = RunState::from_records(records.iter().map(|record| &**record)).map_err(RunError::from)?;
        (run, step) = (child, inner);
    }
    let [command, option] = advice;
    match run != opened.id && find_performed_step(&state, &step).is_ok() {
        true => Err(NotOwnStep { path: path.clone(), run, step, command, option }.into()),
        false => Ok(()),
    }
}

/// The step that started a child run, its attempt, and the step of the child run, if a path leads into one.
fn split_child_path(state: &RunState, path: &Path) -> Option<(Path, u32, Path)> {
    let (call, inner) = path.as_str().split_once(CHILD_RUN_SEGMENT)?;
    let inner = Path::parse(&format!("/{inner}"))?;
    if let Some(step) = Path::parse(call).and_then(|call| state.find_step(&call)) {
        return Some((step.path.clone(), step.attempts, inner));
    }
    let (call, attempt) = call.rsplit_once('#')?;
    Some((Path::parse(call)?, attempt.parse().ok()?, inner))
}

/// The steps of a run that are repetitions of a step of the plan: their paths end with `wanted`, apart from iterations and
/// visits.
fn list_repetitions(paths: &[&Path], wanted: &Path) -> Vec<Path> {
    let is_meant = |path: &&&Path| {
        let plain = path.drop_repetitions();
        path.as_str().ends_with(wanted.as_str()) || plain.ends_with(wanted.as_str())
    };
    let meant: Vec<&Path> = paths.iter().filter(is_meant).copied().collect();
    let known: HashSet<&str> = meant.iter().map(|path| path.as_str()).collect();
    // A loop is named for its iterations.
    let outermost = meant.into_iter().filter(|path| !path.ancestors().any(|above| known.contains(above)));
    outermost.cloned().collect()
}

/// Whether a plan has a step at this path, or at one that ends with it.
fn is_in_plan(plan: &Plan, path: &Path) -> bool {
    let outline = outline_plan(plan);
    let paths: Vec<&Path> = outline.nodes.iter().map(|node| &node.path).collect();
    find_path(&paths, &path.drop_repetitions()).is_some()
}
