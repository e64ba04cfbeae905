//! What came of a rehearsal: each node's end, what would have reached the user, and what is the pipeline's own fault.

use std::collections::HashMap;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{Event, MemoryWrite};
use flowloom_core::path::Path;
use flowloom_core::plan::{Dag, Plan};
use flowloom_core::render;
use flowloom_core::state::{Phase, StepState};
use flowloom_core::value::Value;
use flowloom_formats::{pipeline, present};
use flowloom_runtime::Outcome;
use serde::{Deserialize, Serialize};

use super::play::Source;
use super::stand_in::Note;
use crate::trial::shorten;
use crate::world::Trial;

/// Failures of the installation, not of what was tried: no provider, no key, no sandbox, no money.
const OF_THE_WORLD: [Code; 12] = [
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
];

/// What came of a rehearsal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The nodes, in the pipeline's order.
    pub nodes: Vec<Node>,
    /// Notifications that would have been sent: `title`, `body` and what else was given.
    pub notifications: Vec<Value>,
    /// What would have been written to the user's memory, each key once.
    pub memory: Vec<MemoryWrite>,
    /// What models that were really asked cost.
    pub usage: Usage,
}

/// What came of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The node.
    pub node_id: String,
    /// Its block.
    pub block_id: String,
    /// The nodes that it waited for.
    #[serde(default)]
    pub needs: Vec<String>,
    /// How it ended.
    pub status: NodeStatus,
    /// What it was given, where the block ran that far and is no prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// What it gave; also of a block that gave something and failed by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
    /// Where its output comes from, if it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played: Option<Source>,
    /// Why a failure says nothing about the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excuse: Option<Excuse>,
}

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// It has its output.
    Completed,
    /// It failed.
    Failed,
    /// It did not run, since something before it failed.
    Skipped,
}

/// Why a failure says nothing about the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Excuse {
    /// The block asked for the network or a model, which it did not get.
    WantedMore,
    /// What it worked on goes back to a value that was played.
    Played,
}

impl Rehearsal {
    /// What is the pipeline's own fault, for whoever wrote it; nothing if it can be kept.
    pub fn faults(&self) -> Vec<String> {
        let faulty = self.nodes.iter().filter(|node| node.status == NodeStatus::Failed && node.excuse.is_none());
        faulty.map(Node::fault).collect()
    }

    /// What a trial of one block came to.
    pub fn into_trial(self) -> Trial {
        match self.nodes.into_iter().next() {
            // What it gave is judged by whoever tries it.
            Some(Node { output: Some(output), .. }) => Trial::Gave(output),
            Some(Node { error: Some(error), .. }) => Trial::Failed(error),
            Some(Node { .. }) | None => Trial::Gave(Value::Null),
        }
    }

    /// The rehearsal as a value.
    pub fn to_value(&self) -> Value {
        let text = serde_json::to_string(self).unwrap_or_default();
        flowloom_core::json::parse_value(&text).unwrap_or_default()
    }
}

impl Node {
    fn fault(&self) -> String {
        let message = self.error.as_ref().map_or("it failed", |error| &error.message);
        let told = |what: &str, value: &Option<Value>| {
            value.as_ref().map_or(String::new(), |value| format!("; {what} {}", shorten(&render::json(value))))
        };
        let (given, gave) = (told("it was given", &self.inputs), told("it gave", &self.output));
        let Node { node_id, block_id, .. } = self;
        format!("when it is tried, the node {node_id} (block {block_id}) fails: {}{given}{gave}", shorten(message))
    }
}

/// What a run came to.
pub(super) fn of(plan: &Plan, outcome: &Outcome, notes: &HashMap<Path, Note>) -> Result<Rehearsal, StepError> {
    let state = &outcome.state;
    let nodes = nodes(plan, outcome, notes);
    let errors = outcome.broken.iter().chain(&state.error).chain(nodes.iter().filter_map(|node| node.error.as_ref()));
    if let Some(error) = errors.into_iter().find(|error| OF_THE_WORLD.contains(&error.code)) {
        return Err(error.clone());
    }
    let in_order = paths(plan).into_iter().filter_map(|(_, path)| notes.get(&path)?.notification.clone());
    Ok(Rehearsal { notifications: in_order.collect(), memory: memory(outcome), usage: state.usage, nodes })
}

/// Nodes by position in the plan and path, in the pipeline's order.
fn paths(plan: &Plan) -> Vec<(usize, Path)> {
    let Some((dag, place)) = pipeline::dag(plan) else { return Vec::new() };
    let order = pipeline::order(dag, |_| false);
    order.into_iter().map(|index| (index, place.child(&dag.nodes[index].step.key))).collect()
}

fn nodes(plan: &Plan, outcome: &Outcome, notes: &HashMap<Path, Note>) -> Vec<Node> {
    let Some((dag, _)) = pipeline::dag(plan) else { return Vec::new() };
    let state = &outcome.state;
    let presented = present(plan, state, &outcome.env).result;
    let results = presented.get("results");
    let mut basis: Vec<Option<Source>> = vec![None; dag.nodes.len()];
    let mut nodes = Vec::new();
    for (index, path) in paths(plan) {
        basis[index] = worst(dag, index, &basis);
        let node_id = dag.nodes[index].step.title.clone();
        let told = results.and_then(|results| results.get(&node_id));
        let unfinished = || state.error.clone().unwrap_or_else(|| StepError::new(Code::Cancelled, "it did not end"));
        let (status, output, error) = end(state.step(&path), told, unfinished);
        let note = notes.get(&path).cloned().unwrap_or_default();
        let excuse = error.as_ref().and_then(|error| excuse(error.code, &note, basis[index]));
        let block_id = block_id(&presented, &node_id);
        let needs = dag.nodes[index].needs.iter().map(|need| dag.nodes[*need].step.title.clone()).collect();
        let Note { inputs, played, .. } = note;
        nodes.push(Node { node_id, block_id, needs, status, inputs, output, error, played, excuse });
        basis[index] = basis[index].max(played);
    }
    nodes
}

/// The least reliable of what the nodes before this one worked on or gave.
fn worst(dag: &Dag, index: usize, basis: &[Option<Source>]) -> Option<Source> {
    dag.nodes[index].needs.iter().filter_map(|need| basis[*need]).max()
}

fn block_id(presented: &Value, node: &str) -> String {
    let log = presented.get("log").and_then(Value::as_list).unwrap_or_default();
    let entry = log.iter().find(|entry| entry.get("node").and_then(Value::as_str) == Some(node));
    entry.and_then(|entry| entry.get("block")?.as_str()).unwrap_or_default().to_owned()
}

type End = (NodeStatus, Option<Value>, Option<StepError>);

fn end(step: Option<&StepState>, told: Option<&Value>, unfinished: impl Fn() -> StepError) -> End {
    match step.map(|step| (step.phase, step)) {
        Some((Phase::Failed, step)) => {
            (NodeStatus::Failed, step.output.clone(), step.error.clone().or_else(|| Some(unfinished())))
        }
        Some((Phase::Skipped, _)) => (NodeStatus::Skipped, None, None),
        // A trigger runs nothing, and has its output.
        _ if told.is_some() => (NodeStatus::Completed, told.cloned(), None),
        _ => (NodeStatus::Failed, None, Some(unfinished())),
    }
}

/// A block may refuse what an example gave that was meant for other inputs, and may do anything with what was made up.
fn excuse(code: Code, note: &Note, basis: Option<Source>) -> Option<Excuse> {
    let is_played = match basis {
        Some(Source::MadeUp) => true,
        Some(Source::Example) => code == Code::BlockError,
        Some(Source::Fixture) | None => false,
    };
    // What it was made to give is not its own.
    if is_played || note.played.is_some() {
        Some(Excuse::Played)
    } else {
        note.wanted_more.then_some(Excuse::WantedMore)
    }
}

fn memory(outcome: &Outcome) -> Vec<MemoryWrite> {
    let mut kept: Vec<MemoryWrite> = Vec::new();
    for record in &outcome.records {
        let Event::StepFinished { memory, .. } = &record.event else { continue };
        for write in memory {
            kept.retain(|other| other.key != write.key);
            kept.push(write.clone());
        }
    }
    kept
}
