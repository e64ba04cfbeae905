//! The report of a dry run: the result of each node, everything that would have reached the user, and the faults of the
//! pipeline.

use std::collections::HashMap;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, MemoryWrite, Record};
use flowloom_core::path::Path;
use flowloom_core::plan::{Dag, Plan};
use flowloom_core::render;
use flowloom_core::state::{Phase, StepState};
use flowloom_core::value::Value;
use flowloom_formats::{pipeline, render_result};
use flowloom_runtime::RunOutcome;
use serde::{Deserialize, Serialize};

use super::mock_effects::Note;
use super::mocks::MockSource;
use crate::model::TrialOutcome;
use crate::trial::shorten_shown;

/// Failures of the installation, not of the pipeline: no provider, no key, no sandbox, no money.
const ENVIRONMENT_ERRORS: [Code; 17] = [
    Code::NoSandbox,
    Code::ModelFailed,
    Code::ModelUnknown,
    Code::ModelKeyMissing,
    Code::ModelNone,
    Code::ModelTruncated,
    Code::ModelFileMissing,
    Code::ScriptExhausted,
    Code::BudgetTokens,
    Code::BudgetMoney,
    Code::PriceUnknown,
    Code::StoreFailed,
    Code::StoreFull,
    Code::StoreReadOnly,
    Code::StoreLocked,
    Code::StoreUnreachable,
    Code::StoreUnserved,
];

/// The report of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DryRun {
    /// The nodes, in log order.
    pub nodes: Vec<NodeReport>,
    /// Notifications that would have been sent: `title`, `body` and other arguments.
    pub notifications: Vec<Value>,
    /// Memory writes that would have been made, without duplicate keys.
    pub memory: Vec<MemoryWrite>,
    /// Tokens and cost of real model calls.
    pub usage: Usage,
    /// Everything that happened, in order. These events belong to no stored run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Record>,
}

/// The result of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The id of the node.
    pub node_id: String,
    /// The id of its block.
    pub block_id: String,
    /// The nodes that it depends on.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The final status.
    pub status: NodeStatus,
    /// The inputs, if the block ran and is not a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// The output, even if it reports a failure of the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepFailure>,
    /// The source of the output, if the block was mocked.
    #[serde(default, alias = "played", skip_serializing_if = "Option::is_none")]
    pub mocked: Option<MockSource>,
    /// The reason why a failure does not count as a fault of the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excuse: Option<Excuse>,
}

/// The final status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// It has its output.
    Completed,
    /// It failed.
    Failed,
    /// It did not run, because a dependency failed.
    Skipped,
}

/// The reason why a failure does not count as a fault of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Excuse {
    /// The block needed the network or a model, which were not available.
    WantedMore,
    /// Its inputs depend on a mocked value.
    #[serde(alias = "played")]
    Mocked,
}

impl DryRun {
    /// The faults of the pipeline, in words for its author; empty if it passed.
    pub fn list_faults(&self) -> Vec<String> {
        let faulty = self.nodes.iter().filter(|node| node.status == NodeStatus::Failed && node.excuse.is_none());
        faulty.map(NodeReport::describe_fault).collect()
    }

    /// A node whose block exceeded its time, its memory or its number of requests.
    pub fn find_exceeded_limit(&self) -> Option<&NodeReport> {
        let exceeded = |node: &&NodeReport| node.error.as_ref().is_some_and(|error| error.code == Code::BlockLimit);
        self.nodes.iter().find(exceeded)
    }

    /// The outcome of a block's trial.
    pub fn into_trial(self) -> TrialOutcome {
        match self.nodes.into_iter().next() {
            // The output is judged by the trial.
            Some(NodeReport { output: Some(output), .. }) => TrialOutcome::Returned(output),
            Some(NodeReport { error: Some(error), .. }) => TrialOutcome::Failed(error),
            Some(NodeReport { .. }) | None => TrialOutcome::Returned(Value::Null),
        }
    }

    /// The report as a value, without the events.
    pub fn to_value(&self) -> Value {
        let report = DryRun { events: Vec::new(), ..self.clone() };
        let text = serde_json::to_string(&report).unwrap_or_default();
        flowloom_core::json::parse_value(&text).unwrap_or_default()
    }
}

impl NodeReport {
    fn describe_fault(&self) -> String {
        let message = self.error.as_ref().map_or("it failed", |error| &error.message);
        let field = |what: &str, value: &Option<Value>| {
            value.as_ref().map_or(String::new(), |value| format!("; {what} {}", shorten_shown(&render::to_json(value))))
        };
        let (given, gave) = (field("it was given", &self.inputs), field("it gave", &self.output));
        let NodeReport { node_id, block_id, .. } = self;
        format!("in the dry run, the node {node_id} (block {block_id}) fails: {}{given}{gave}", shorten_shown(message))
    }
}

/// Builds the report of a run.
pub(super) fn build_report(
    plan: &Plan,
    outcome: &RunOutcome,
    notes: &HashMap<Path, Note>,
) -> Result<DryRun, StepFailure> {
    let state = &outcome.state;
    let nodes = node_reports(plan, outcome, notes);
    if let Some(broken) = outcome.broken.clone().map(StepFailure::from)
        && ENVIRONMENT_ERRORS.contains(&broken.code)
    {
        return Err(broken);
    }
    let mut errors = state.error.iter().chain(nodes.iter().filter_map(|node| node.error.as_ref()));
    if let Some(error) = errors.find(|error| ENVIRONMENT_ERRORS.contains(&error.code)) {
        return Err(error.clone());
    }
    let in_order = node_paths(plan).into_iter().filter_map(|(_, path)| notes.get(&path)?.notification.clone());
    Ok(DryRun {
        notifications: in_order.collect(),
        memory: memory_writes(outcome),
        usage: state.usage,
        events: outcome.records.iter().map(|record| Record::clone(record)).collect(),
        nodes,
    })
}

/// The nodes by index in the plan and path, in log order.
fn node_paths(plan: &Plan) -> Vec<(usize, Path)> {
    let Some((dag, place)) = pipeline::find_dag(plan) else { return Vec::new() };
    let order = pipeline::log_order(dag, |_| false);
    order.into_iter().map(|index| (index, place.child_path(&dag.nodes[index].step.key))).collect()
}

fn node_reports(plan: &Plan, outcome: &RunOutcome, notes: &HashMap<Path, Note>) -> Vec<NodeReport> {
    let Some((dag, _)) = pipeline::find_dag(plan) else { return Vec::new() };
    let state = &outcome.state;
    let presented = render_result(plan, state, &outcome.env).result;
    let results = presented.get("results");
    let mut basis: Vec<Option<MockSource>> = vec![None; dag.nodes.len()];
    let mut nodes = Vec::new();
    for (index, path) in node_paths(plan) {
        basis[index] = least_reliable(dag, index, &basis);
        let node_id = dag.nodes[index].step.title.clone();
        let field = results.and_then(|results| results.get(&node_id));
        let unfinished = || state.error.clone().unwrap_or_else(|| StepFailure::new(Code::Cancelled, "it did not end"));
        let (status, output, error) = node_end(state.find_step(&path), field, unfinished);
        let note = notes.get(&path).cloned().unwrap_or_default();
        let excuse = error.as_ref().and_then(|error| find_excuse(error.code, &note, basis[index]));
        let block_id = block_id(&presented, &node_id);
        let needs = dag.nodes[index].needs.iter().map(|need| dag.nodes[*need].step.title.clone()).collect();
        let Note { inputs, mocked, .. } = note;
        nodes.push(NodeReport { node_id, block_id, needs, status, inputs, output, error, mocked, excuse });
        basis[index] = basis[index].max(mocked);
    }
    nodes
}

/// The least reliable source among the inputs of a node.
fn least_reliable(dag: &Dag, index: usize, basis: &[Option<MockSource>]) -> Option<MockSource> {
    dag.nodes[index].needs.iter().filter_map(|need| basis[*need]).max()
}

fn block_id(presented: &Value, node: &str) -> String {
    let log = presented.get("log").and_then(Value::as_list).unwrap_or_default();
    let entry = log.iter().find(|entry| entry.get("node").and_then(Value::as_str) == Some(node));
    entry.and_then(|entry| entry.get("block")?.as_str()).unwrap_or_default().to_owned()
}

type NodeEnd = (NodeStatus, Option<Value>, Option<StepFailure>);

fn node_end(step: Option<&StepState>, field: Option<&Value>, unfinished: impl Fn() -> StepFailure) -> NodeEnd {
    match step.map(|step| (step.phase, step)) {
        Some((Phase::Failed, step)) => {
            (NodeStatus::Failed, step.output.clone(), step.error.clone().or_else(|| Some(unfinished())))
        }
        Some((Phase::Skipped, _)) => (NodeStatus::Skipped, None, None),
        // A trigger runs nothing and has a fixed output.
        _ if field.is_some() => (NodeStatus::Completed, field.cloned(), None),
        _ => (NodeStatus::Failed, None, Some(unfinished())),
    }
}

/// A block may reject the output of an example that was meant for other inputs, and may do anything with generated
/// values.
fn find_excuse(code: Code, note: &Note, basis: Option<MockSource>) -> Option<Excuse> {
    let is_mocked = match basis {
        Some(MockSource::MadeUp) => true,
        Some(MockSource::Example) => code == Code::BlockError,
        Some(MockSource::Fixture) | None => false,
    };
    // A mocked output is not the block's own.
    if is_mocked || note.mocked.is_some() {
        Some(Excuse::Mocked)
    } else {
        note.wanted_more.then_some(Excuse::WantedMore)
    }
}

fn memory_writes(outcome: &RunOutcome) -> Vec<MemoryWrite> {
    let mut writes: Vec<MemoryWrite> = Vec::new();
    for record in &outcome.records {
        let Event::StepFinished { memory, .. } = &record.event else { continue };
        for write in memory {
            writes.retain(|other| other.key != write.key);
            writes.push(write.clone());
        }
    }
    writes
}
