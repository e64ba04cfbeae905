//! The differences between two runs: their steps by path, with what each sent and received.

use std::collections::HashMap;

use flowloom_core::chat::Usage;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use serde::Serialize;

use super::FieldChange;
use super::called::{ComparedDefinition, WorkflowChange};
use super::definitions::{DefinitionDiff, compare_definitions};
use super::run_tree::{compare_stored, read_trees};
use crate::error::AppError;
use crate::runs::details::StepDetails;
use crate::runs::finished::read_outcome;
use crate::runs::stored::{LoadedRun, StoredRuns};
use crate::runs::summary::usage_to_value;

/// The differences between two runs.
#[derive(Debug, Serialize)]
pub struct RunDiff {
    /// Whether they have the same steps with the same inputs and outputs, and the same result.
    pub same: bool,
    /// The first run.
    pub a: RunFacts,
    /// The second run.
    pub b: RunFacts,
    /// The first step that differs, in the order of the journals. If it differs because its child run does, the step of that.
    pub first_divergence: Option<Path>,
    /// The differences of the runs themselves: status, error, output.
    pub fields: Vec<FieldChange>,
    /// Every step of either run and of its child runs, which have paths such as `/call/run~1/answer`.
    pub steps: Vec<StepDiff>,
    /// The differences between the definitions of the runs and those that they have called; `None` if they mean the
    /// same. It is no difference of the runs by itself.
    pub definition: Option<DefinitionDiff>,
}

/// One of the runs.
#[derive(Debug, Serialize)]
pub struct RunFacts {
    /// Its id.
    pub run_id: RunId,
    /// The name of its definition.
    pub name: String,
    /// Its status.
    pub status: &'static str,
    /// Time from its creation to its end, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Tokens and cost.
    pub usage: Value,
}

/// A step of either run.
#[derive(Debug, Serialize)]
pub struct StepDiff {
    /// Its path.
    pub path: Path,
    /// How it differs.
    pub change: StepChange,
    /// The differences.
    pub fields: Vec<FieldChange>,
    /// The step in the first run.
    pub a: Option<StepFacts>,
    /// The step in the second run.
    pub b: Option<StepFacts>,
}

/// How a step differs between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepChange {
    /// It does not.
    Same,
    /// It sent or received something else.
    Changed,
    /// Only the first run has it.
    OnlyInA,
    /// Only the second run has it.
    OnlyInB,
}

/// The duration and the use of a step of one of the runs.
#[derive(Debug, Serialize)]
pub struct StepFacts {
    /// Its phase.
    pub phase: &'static str,
    /// Number of attempts.
    pub attempts: usize,
    /// Time from its start to its end, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Tokens and cost.
    pub usage: Option<Usage>,
    /// Whether the output was taken from the run that this one was forked from.
    pub reused: bool,
}

/// Compares two runs. Fails if a record, a bundle or a child run of them is damaged, or cannot be read.
pub async fn compare_runs(runs: &StoredRuns, a: &LoadedRun, b: &LoadedRun) -> Result<RunDiff, AppError> {
    let (facts_a, result_a) = describe_run(runs, a).await?;
    let (facts_b, result_b) = describe_run(runs, b).await?;
    let (tree_a, tree_b) = read_trees(runs, a, b).await?;
    let steps = compare_steps(&tree_a.steps, &tree_b.steps);
    let both = |name| (name, result_a.get(name).cloned(), result_b.get(name).cloned());
    let fields: Vec<FieldChange> = ["status", "error", "output"]
        .map(both)
        .into_iter()
        .filter_map(|(name, before, after)| FieldChange::between(name, before, after))
        .collect();
    let first_divergence = find_first_divergence(&steps).map(|step| step.path.clone());
    let same = first_divergence.is_none() && fields.is_empty();
    let definition = compare_read_definitions(a, b, compare_stored(&tree_a, &tree_b));
    Ok(RunDiff { same, a: facts_a, b: facts_b, first_divergence, fields, steps, definition })
}

/// Compares the definitions that two runs have read. `stored`: definitions in the database that they have called.
fn compare_read_definitions(a: &LoadedRun, b: &LoadedRun, stored: Vec<WorkflowChange>) -> Option<DefinitionDiff> {
    let (mut before, mut after) = (ComparedDefinition::of_run(a), ComparedDefinition::of_run(b));
    ComparedDefinition::forget_file_names(&mut before, &mut after);
    let mut diff = compare_definitions(&before, &after);
    diff.same &= stored.is_empty();
    diff.workflows.extend(stored);
    (!diff.same).then_some(diff)
}

/// The first step that differs. A step that sent the same and has steps below it that differ does so because of them.
fn find_first_divergence(steps: &[StepDiff]) -> Option<&StepDiff> {
    let differs = |step: &&StepDiff| step.change != StepChange::Same;
    let mut first = steps.iter().position(|step| differs(&step))?;
    loop {
        let step = &steps[first];
        let is_sent_alike = step.fields.iter().all(|field| !matches!(field.name, "target" | "input"));
        let below = (first + 1..steps.len())
            .take_while(|at| steps[*at].path.is_within(&step.path))
            .find(|at| differs(&&steps[*at]));
        match below.filter(|_| is_sent_alike && step.change == StepChange::Changed) {
            Some(below) => first = below,
            None => return Some(step),
        }
    }
}

/// Facts about a run, and its result as texts by name.
async fn describe_run(
    runs: &StoredRuns,
    opened: &LoadedRun,
) -> Result<(RunFacts, HashMap<&'static str, String>), AppError> {
    let outcome = read_outcome(runs, opened).await?;
    let state = &outcome.state;
    let facts = RunFacts {
        run_id: opened.id,
        name: opened.plan.name.clone(),
        status: state.status.name(),
        duration_ms: state.finished_at.map(|at| at.saturating_sub(state.created_at)),
        usage: usage_to_value(&state.usage),
    };
    let mut result = HashMap::from([("status", state.status.name().to_owned())]);
    if let Some(error) = &state.error {
        let place = state.failed.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
        result.insert("error", format!("{}: {}{place}", error.code, error.message));
    }
    match render_result(&opened.plan, state, &outcome.env).output {
        Value::Null => {}
        Value::String(text) => drop(result.insert("output", text.to_string())),
        other => drop(result.insert("output", render::to_json(&other))),
    }
    Ok((facts, result))
}

/// Compares steps by their paths. The order is that of the first run; steps that only the second one has come after the
/// step that they follow there.
fn compare_steps(steps_a: &[StepDetails], steps_b: &[StepDetails]) -> Vec<StepDiff> {
    let by_path_a: HashMap<&Path, &StepDetails> = steps_a.iter().map(|step| (&step.path, step)).collect();
    let by_path_b: HashMap<&Path, &StepDetails> = steps_b.iter().map(|step| (&step.path, step)).collect();
    let mut added: HashMap<Option<&Path>, Vec<&StepDetails>> = HashMap::new();
    let mut last_shared = None;
    for step in steps_b {
        match by_path_a.contains_key(&step.path) {
            true => last_shared = Some(&step.path),
            false => added.entry(last_shared).or_default().push(step),
        }
    }
    let mut all = Vec::with_capacity(steps_a.len());
    for step in std::iter::once(None).chain(steps_a.iter().map(Some)) {
        if let Some(step) = step {
            all.push(compare_step(&step.path, Some(step), by_path_b.get(&step.path).copied()));
        }
        let following = added.remove(&step.map(|step| &step.path)).unwrap_or_default();
        all.extend(following.into_iter().map(|step| compare_step(&step.path, None, Some(step))));
    }
    all
}

/// Reads one text of a step.
type DescribeStep = fn(&StepDetails) -> Option<String>;

fn compare_step(path: &Path, a: Option<&StepDetails>, b: Option<&StepDetails>) -> StepDiff {
    let text = |step: Option<&StepDetails>, read: DescribeStep| step.and_then(read);
    let fields: [(&'static str, DescribeStep); 5] = [
        ("target", |step| step.target.clone()),
        ("input", StepDetails::describe_input),
        ("output", StepDetails::describe_output),
        ("error", |step| step.error.as_ref().map(|error| format!("{}: {}", error.code, error.message))),
        ("phase", |step| Some(step.phase.to_owned())),
    ];
    let changes: Vec<FieldChange> = fields
        .into_iter()
        .filter_map(|(name, read)| FieldChange::between(name, text(a, read), text(b, read)))
        .collect();
    let change = match (a, b) {
        (Some(_), None) => StepChange::OnlyInA,
        (None, _) => StepChange::OnlyInB,
        (Some(_), Some(_)) if changes.is_empty() => StepChange::Same,
        (Some(_), Some(_)) => StepChange::Changed,
    };
    StepDiff { path: path.clone(), change, fields: changes, a: a.map(StepFacts::new), b: b.map(StepFacts::new) }
}

impl StepFacts {
    fn new(step: &StepDetails) -> StepFacts {
        StepFacts {
            phase: step.phase,
            attempts: step.requests.len(),
            duration_ms: step.finished_at.map(|at| at.saturating_sub(step.started_at)),
            usage: step.usage,
            reused: step.reused,
        }
    }
}
