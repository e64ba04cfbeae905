//! What the kinds of steps hold.

use std::sync::Arc;

use super::{Plan, Step};
use crate::expr::Expr;
use crate::request::{Capture, GenerateOptions, Role, ToolDeclaration};
use crate::template::{Data, Template};
use crate::value::Value;

/// A node of a [`Kind::Dag`].
#[derive(Clone, Debug)]
pub struct DagNode {
    /// What it does.
    pub step: Step,
    /// Indexes of the nodes that must be finished first. A node whose needs failed is skipped.
    pub needs: Vec<usize>,
}

/// Nodes and the edges between them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The nodes; edges name them by index.
    pub nodes: Vec<Step>,
    /// Where the token starts.
    pub entry: usize,
    /// Edges in order of preference: the first one from the current node whose condition holds is taken.
    pub edges: Vec<Edge>,
    /// Nodes run at most; reaching it is an error.
    pub max_visits: u64,
}

/// An edge of a [`Machine`].
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node it leaves.
    pub from: usize,
    /// The node it enters; `None` is the end.
    pub to: Option<usize>,
    /// Whether it may be taken; evaluated with the node's output. `None` always holds.
    pub condition: Option<Expr>,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// What is repeated.
    pub body: Box<Step>,
    /// Ends the loop; evaluated with the last output.
    pub until: Option<Expr>,
    /// Whether `until` is looked at before an iteration (then zero are possible) or after it.
    pub test: LoopTest,
    /// Iterations at most.
    pub max: u64,
    /// Whether reaching `max` is an error.
    pub exhausted: Exhausted,
    /// Name under which the body sees the number of the iteration, from 0.
    pub counter: Option<Arc<str>>,
    /// What the loop's output is.
    pub output: LoopOutput,
}

/// When a loop's end is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopTest {
    /// Before each iteration.
    Before,
    /// After each iteration.
    After,
}

/// What reaching a loop's bound means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The loop is done.
    Succeed,
    /// The loop failed.
    Fail,
}

/// What a loop gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopOutput {
    /// The last iteration's output.
    Last,
    /// The list of all outputs.
    All,
}

/// Another definition inside this one.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// What it is given.
    pub inputs: Data,
}

/// A variable to set.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The variable.
    pub name: Template,
    /// Its value.
    pub value: Data,
    /// Whether only a missing or falsy variable is set.
    pub only_if_falsy: bool,
}

/// A model call.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The model as the definition names it.
    pub model: Option<Template>,
    /// Variable that holds the conversation so far; the new messages and the answer are added to it.
    pub thread: Option<Arc<str>>,
    /// New messages.
    pub messages: Vec<(Role, Data)>,
    /// JSON Schema of the answer.
    pub schema: Option<Value>,
    /// Sampling options.
    pub options: GenerateOptions,
}

/// A model call with tools.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The call.
    pub generate: Generate,
    /// Tools it may use, with what each one does.
    pub tools: Vec<AgentTool>,
    /// Rounds of tool calls at most; then the model must answer.
    pub max_rounds: u32,
}

/// A tool of an agent.
#[derive(Clone, Debug)]
pub struct AgentTool {
    /// As the model sees it.
    pub declaration: ToolDeclaration,
    /// The function that is called.
    pub function: Arc<str>,
    /// Whether a person must agree to each call.
    pub needs_approval: bool,
}

/// A page to read.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The address.
    pub url: Template,
    /// What is brought back.
    pub capture: Capture,
    /// CSS selector applied to the HTML; one hit gives its inner HTML, several are joined by line breaks.
    pub selector: Option<Template>,
    /// Whether text that does not fit the model's window is summarised.
    pub summarize: bool,
}

/// A function call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function's id.
    pub function: Arc<str>,
    /// The prompt.
    pub prompt: Template,
    /// Entries added to the variables in the payload; `(name, variable)`, left out if the variable does not exist.
    pub extra: Vec<(Arc<str>, Arc<str>)>,
}

/// A step on the owner's memory; the arguments are read as those of a built-in function.
#[derive(Clone, Debug)]
pub struct MemoryStep {
    /// Read or write.
    pub operation: MemoryOperation,
    /// The prompt that may hold the arguments.
    pub prompt: Template,
}

/// What is done with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOperation {
    /// Gives the value of `key`.
    Get,
    /// Sets `key` to `value`.
    Set,
}

/// What may happen to an effect that a crash caught in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// It is sent again under the same idempotency key.
    AtLeastOnce,
    /// It is never sent again by itself; the run becomes `uncertain`.
    AtMostOnce,
}
