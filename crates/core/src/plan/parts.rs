//! What the kinds of steps hold.

use std::sync::Arc;

use super::{Plan, Step};
use crate::content::Content;
use crate::expr::{Expr, Script};
use crate::http::HttpSpec;
use crate::request::{Capture, GenerateOptions, Role, ToolDeclaration};
use crate::template::{Data, Template};
use crate::value::Value;

/// Nodes that wait for each other.
#[derive(Clone, Debug)]
pub struct Dag {
    /// The nodes.
    pub nodes: Vec<DagNode>,
    /// Whether the step fails, once everything that can run has run, if a node did.
    pub fails: bool,
}

/// A node of a [`Dag`].
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
    /// Nodes whose end starts the count of visits again (a person has spoken).
    pub resets: Vec<usize>,
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
    /// What `until` and the body see of the iterations.
    pub helper: Option<Helper>,
    /// Scripts in `until`.
    pub scripts: Vec<Arc<Script>>,
    /// What the loop's output is.
    pub output: LoopOutput,
}

/// An object `{index, self, last}` about a loop's iterations: this one's number, all of them, and the one before.
///
/// `self` has the finished iterations while `until` is evaluated, and this one too, as far as it has come, in the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Helper {
    /// The names it goes by.
    pub names: Vec<Arc<str>>,
    /// Whether `self` is read at all; an object without it is made in no time, however many iterations there are.
    pub history: bool,
}

/// Steps with variables of their own.
#[derive(Clone, Debug)]
pub struct Scoped {
    /// The steps, one after another.
    pub body: Vec<Step>,
    /// The variables they start with, evaluated outside.
    pub provide: Vec<(Arc<str>, Expr)>,
    /// Names of the place outside that they see: helpers.
    pub sees: Vec<Arc<str>>,
    /// Variables that make up the output, an object; those that are not set are left out.
    pub gives: Vec<Arc<str>>,
    /// The helper whose `self` and `last` follow the steps.
    pub helper: Option<Helper>,
}

/// Adds to a conversation and to the text that the run writes.
#[derive(Clone, Debug)]
pub struct Say {
    /// The conversation.
    pub thread: Option<Arc<str>>,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
    /// Whether it is part of the run's text.
    pub written: bool,
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
    /// Instructions, in front of everything and no part of the conversation.
    pub system: Option<Data>,
    /// The conversation so far; the new messages and the answer are added to it.
    pub thread: Option<Arc<str>>,
    /// New messages.
    pub messages: Vec<(Role, Data)>,
    /// JSON Schema of the answer.
    pub schema: Option<Value>,
    /// Sampling options.
    pub options: GenerateOptions,
    /// Options that are computed: an object whose fields take the place of those above.
    pub computed: Option<Expr>,
}

/// A model call with tools.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The call.
    pub generate: Generate,
    /// Tools it may use, with what each one does.
    pub tools: Vec<AgentTool>,
    /// After how many calls the model must answer.
    pub limit: CallLimit,
    /// Whether its first answer must call a tool.
    pub must_call: bool,
}

/// How often an agent may call tools before it must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLimit {
    /// Answers that call tools, each of them as many as it wants.
    Rounds(u32),
    /// Calls.
    Calls(u32),
}

/// A tool of an agent.
#[derive(Clone, Debug)]
pub struct AgentTool {
    /// As the model sees it.
    pub declaration: ToolDeclaration,
    /// What a call does.
    pub effect: ToolEffect,
    /// Whether a person must agree to each call.
    pub needs_approval: bool,
}

/// What a tool call does.
#[derive(Clone, Debug)]
pub enum ToolEffect {
    /// Calls a function.
    Function(Arc<str>),
    /// Runs the workflow with this id, which the function `flow::ID` does. Its output is `{text, is_final}`: what the
    /// model is told, and whether that is the agent's answer already.
    Flow(Arc<str>),
    /// Sends a request; its templates see the arguments as `arguments` and the run's owner as `owner`.
    Http(Box<HttpSpec>),
    /// Whoever runs the workflow does it: the run waits for the result.
    Client,
}

/// The function that runs the workflow with this id.
pub fn flow_function(id: &str) -> String {
    format!("flow::{id}")
}

impl ToolEffect {
    /// The function that is called, if that is what it does.
    pub fn function(&self) -> Option<Arc<str>> {
        match self {
            ToolEffect::Function(function) => Some(function.clone()),
            ToolEffect::Flow(id) => Some(flow_function(id).into()),
            ToolEffect::Http(_) | ToolEffect::Client => None,
        }
    }
}

/// One answer of a model with tools, in a conversation that other steps go on with.
///
/// The output is `{agent, text, tool_calls, next}`: who spoke, what it said, what it wants called (the routing tools left out), and where
/// it wants to go. Only what it said and wants called is added to the conversation.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Who speaks.
    pub name: Arc<str>,
    /// The call.
    pub generate: Generate,
    /// Tools it is offered; a [`Kind::Tools`] step calls them.
    pub tools: Vec<AgentTool>,
    /// Where it can go.
    pub router: Option<Router>,
    /// Why nothing runs the tools that it wants called, if that is so; it is told instead of their results.
    pub unanswered: Option<Arc<str>>,
}

/// The tools by which a model says where to go.
#[derive(Clone, Debug)]
pub struct Router {
    /// The tools as the model sees them: `router` and, where a conversation can be ended, `end`.
    pub tools: Vec<ToolDeclaration>,
    /// Where it can go; a name that differs only in case counts.
    pub destinations: Vec<Arc<str>>,
    /// Times it is told that there is no such place, before its choice counts as none.
    pub retries: u32,
}

/// Calls the tools that the last answer of a conversation wants, at the same time; the results are added in the order
/// of the calls. The output is `{tool, results}`: the last call's tool, and every call with its result.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The conversation.
    pub thread: Arc<str>,
    /// Everything that may be called, by whoever was offered it.
    pub tools: Vec<AgentTool>,
}

/// A block: code or a prompt, with inputs and an output that are held to schemas.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its id in reports.
    pub id: Arc<str>,
    /// What runs.
    pub code: BlockCode,
    /// Its inputs: an object.
    pub inputs: Data,
    /// JSON Schema of the inputs, to which they are brought as far as possible.
    pub input_schema: Option<Value>,
    /// JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// A field that means failure when the output has it, whatever it holds.
    pub failure: Option<Arc<str>>,
}

/// What a block runs.
#[derive(Clone, Debug)]
pub enum BlockCode {
    /// Python, in the sandbox.
    Python {
        /// Source with `execute(inputs, context)`.
        source: Arc<str>,
        /// Whether it may be run again after a crash.
        effect: EffectClass,
    },
    /// A model call whose templates see the inputs as `inputs`.
    Prompt(Box<Generate>),
    /// A function, which gets the inputs as its arguments.
    Function(Arc<str>),
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
    /// The whole payload, where the variables and the prompt are no part of it.
    pub arguments: Option<Vec<(Arc<str>, Expr)>>,
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
    /// Gives everything, as an object.
    All,
    /// Gives the owner's profile, as an object.
    Profile,
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
