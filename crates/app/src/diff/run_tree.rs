//! The steps of a run together with those of its child runs, which are below the steps that started them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flowloom_core::id::RunId;
use flowloom_core::path::Path;

use super::called::{ComparedDefinition, WorkflowChange};
use super::definitions::compare_definitions;
use crate::error::AppError;
use crate::runs::details::{StepDetails, read_details};
use crate::runs::recorded_calls::ChildRunFinder;
use crate::runs::stored::{LoadedRun, StoredRuns};
use crate::tools::workflows::RUN_STORED_FUNCTION;

/// A run with its child runs.
#[derive(Default)]
pub(super) struct RunTree {
    /// The steps; those of child runs have paths such as `/call/run~1/answer`, behind the step that started the run.
    pub(super) steps: Vec<StepDetails>,
    /// The child runs of definitions in the database, by the path of the step.
    stored: Vec<(Path, LoadedRun)>,
}

/// A step that started a child run.
struct CallingStep {
    path: Path,
    function: Arc<str>,
    child: RunId,
}

/// Reads two runs with their child runs. A child run that both have, because one run was forked from the other, is left out.
pub(super) async fn read_trees(
    runs: &StoredRuns,
    a: &LoadedRun,
    b: &LoadedRun,
) -> Result<(RunTree, RunTree), AppError> {
    let (steps_a, steps_b) = (read_details(runs, a, None).await?, read_details(runs, b, None).await?);
    let (calls_a, calls_b) = (list_calls(runs, a, &steps_a)?, list_calls(runs, b, &steps_b)?);
    let in_a: HashSet<RunId> = calls_a.iter().map(|call| call.child).collect();
    let shared: HashSet<RunId> = calls_b.iter().map(|call| call.child).filter(|child| in_a.contains(child)).collect();
    let (mut tree_a, mut tree_b) = (RunTree::default(), RunTree::default());
    for (tree, steps, calls) in [(&mut tree_a, steps_a, calls_a), (&mut tree_b, steps_b, calls_b)] {
        let own = calls.into_iter().filter(|call| !shared.contains(&call.child)).collect();
        tree.add_steps(runs, &Path::root(), steps, own).await?;
    }
    Ok((tree_a, tree_b))
}

impl RunTree {
    /// Adds the steps of a run, whose paths begin with `above`, and the child runs of `calls`.
    async fn add_steps(
        &mut self,
        runs: &StoredRuns,
        above: &Path,
        steps: Vec<StepDetails>,
        calls: Vec<CallingStep>,
    ) -> Result<(), AppError> {
        let mut calls = calls.into_iter().peekable();
        for step in steps {
            let call = calls.next_if(|call| call.path == step.path);
            let path = if *above == Path::root() { step.path.clone() } else { above.child_run_path(1, &step.path) };
            self.steps.push(StepDetails { path: path.clone(), ..step });
            if let Some(CallingStep { function, child, .. }) = call {
                let child = runs.open_run_by_id(child).await?;
                let steps = read_details(runs, &child, None).await?;
                let calls = list_calls(runs, &child, &steps)?;
                Box::pin(self.add_steps(runs, &path, steps, calls)).await?;
                if &*function == RUN_STORED_FUNCTION {
                    self.stored.push((path, child));
                }
            }
        }
        Ok(())
    }
}

/// The steps that started child runs, each with that of its last attempt, in the order of the steps.
fn list_calls(runs: &StoredRuns, run: &LoadedRun, steps: &[StepDetails]) -> Result<Vec<CallingStep>, AppError> {
    let mut finder = ChildRunFinder::new(&runs.store);
    finder.add_caller(run.id, &run.records);
    let mut calls = Vec::new();
    for step in steps.iter().filter(|step| step.kind.as_deref() == Some("call")) {
        let Some((attempt, function)) = step.requests.last().map(|last| last.attempt).zip(step.target.as_deref())
        else {
            continue;
        };
        if let Some(child) = finder.find_child(run.id, &step.path, attempt)? {
            calls.push(CallingStep { path: step.path.clone(), function: function.into(), child });
        }
    }
    Ok(calls)
}

/// The definitions in the database that both runs have called at the same step, and that differ. Each pair is compared once.
pub(super) fn compare_stored(a: &RunTree, b: &RunTree) -> Vec<WorkflowChange> {
    let by_path: HashMap<&Path, &LoadedRun> = b.stored.iter().map(|(path, run)| (path, run)).collect();
    let mut seen = HashSet::new();
    let mut changes = Vec::new();
    for (path, in_a) in &a.stored {
        let Some(in_b) = by_path.get(path).copied() else { continue };
        let bundles = [in_a, in_b].map(|run| run.state().created.map(|created| created.bundle));
        if bundles[0] == bundles[1] || !seen.insert(bundles) {
            continue;
        }
        let diff = compare_definitions(&ComparedDefinition::of_run(in_a), &ComparedDefinition::of_run(in_b));
        if !diff.same {
            let name = |run: &LoadedRun| Some(run.plan.name.clone());
            let function = RUN_STORED_FUNCTION.to_owned();
            changes.push(WorkflowChange { function, a: name(in_a), b: name(in_b), diff: Some(diff) });
        }
    }
    changes
}
