//! The data of each kind of step.

use std::sync::Arc;

use super::{Plan, Step};
use crate::content::Content;
use crate::expr::{Expr, Script};
use crate::http::HttpSpec;
use crate::request::{Capture, GenerateOptions, Role, ToolDeclaration};
use crate::template::{Data, Template};
use crate::value::Value;

/// Nodes with dependencies between them.
#[derive(Clone, Debug)]
pub struct Dag {
    /// The nodes.
    pub nodes: Vec<DagNode>,
    /// Whether the step fails if a node failed, once every node that can run has run.
    pub fails: bool,
}

/// A node of a [`Dag`].
#[derive(Clone, Debug)]
pub struct DagNode {
    /// The step of the node.
    pub step: Step,
    /// Indexes of the nodes that must finish first. A node with a failed dependency is skipped.
    pub needs: Vec<usize>,
}

/// Nodes and the edges between them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The nodes; edges refer to them by index.
    pub nodes: Vec<Step>,
    /// The node where the token starts.
    pub entry: usize,
    /// Edges in order of preference: the token takes the first edge from the current node whose condition is true.
    pub edges: Vec<Edge>,
    /// Maximum number of node visits; reaching it is an error.
    pub max_visits: u64,
    /// Nodes that reset the visit count when they finish, because a person has replied.
    pub resets: Vec<usize>,
}

/// An edge of a [`Machine`].
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node it leaves.
    pub from: usize,
    /// The node it enters; `None` ends the machine.
    pub to: Option<usize>,
    /// Whether the edge may be taken, evaluated with the output of the node. `None` is always true.
    pub condition: Option<Expr>,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The repeated step.
    pub body: Box<Step>,
    /// Ends the loop when true; evaluated with the last output.
    pub until: Option<Expr>,
    /// Whether `until` is tested before an iteration (zero iterations are possible) or after it.
    pub test: LoopTest,
    /// Maximum number of iterations.
    pub max: u64,
    /// Whether reaching `max` is an error.
    pub exhausted: Exhausted,
    /// Name of the variable that holds the iteration number in the body, from 0.
    pub counter: Option<Arc<str>>,
    /// The helper object that `until` and the body see.
    pub helper: Option<Helper>,
    /// Scripts in `until`.
    pub scripts: Vec<Arc<Script>>,
    /// The output of the loop.
    pub output: LoopOutput,
}

/// An object `{index, self, last}` about the iterations of a loop: the number of this one, all of them, and the
/// previous one.
///
/// While `until` is evaluated, `self` holds the finished iterations; in the body it also holds the progress of the
/// current one.
#[derive(Clone, Debug, PartialEq)]
pub struct Helper {
    /// The names of the helper object.
    pub names: Vec<Arc<str>>,
    /// Whether `self` is read at all. Without it, the cost of building the object does not depend on the number of
    /// iterations.
    pub history: bool,
}

/// Steps with variables of their own.
#[derive(Clone, Debug)]
pub struct Scoped {
    /// The steps, run one after another.
    pub body: Vec<Step>,
    /// The initial variables, evaluated in the outer scope.
    pub provide: Vec<(Arc<str>, Expr)>,
    /// Names of the outer scope that the steps see: helpers.
    pub sees: Vec<Arc<str>>,
    /// Variables that make up the output, an object; variables that are not set are left out.
    pub gives: Vec<Arc<str>>,
    /// The helper whose `self` and `last` reflect the progress of the steps.
    pub helper: Option<Helper>,
}

/// Appends a message to a conversation and to the transcript of the run.
#[derive(Clone, Debug)]
pub struct Say {
    /// The conversation; `None` for the transcript only.
    pub thread: Option<Arc<str>>,
    /// The role of the message.
    pub role: Role,
    /// The content of the message.
    pub content: Content,
    /// Whether the message is part of the transcript.
    pub written: bool,
}

/// When the end condition of a loop is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopTest {
    /// Before each iteration.
    Before,
    /// After each iteration.
    After,
}

/// The meaning of reaching the iteration limit of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The loop succeeds.
    Succeed,
    /// The loop fails.
    Fail,
}

/// The output of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopOutput {
    /// The output of the last iteration.
    Last,
    /// The list of all outputs.
    All,
}

/// Another definition inside a plan.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The inputs.
    pub inputs: Data,
}

/// A variable assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The variable.
    pub name: Template,
    /// The value.
    pub value: Data,
    /// Whether the variable is set only if it is missing or falsy.
    pub only_if_falsy: bool,
}

/// A model call.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The model as the definition names it; `None` for the default model.
    pub model: Option<Template>,
    /// Instructions; they precede everything else and are not part of the conversation.
    pub system: Option<Data>,
    /// The conversation so far; the new messages and the answer are appended to it.
    pub thread: Option<Arc<str>>,
    /// New messages.
    pub messages: Vec<(Role, Data)>,
    /// JSON Schema that the answer must match.
    pub schema: Option<Value>,
    /// Sampling options.
    pub options: GenerateOptions,
    /// Computed options: an object whose fields override those above.
    pub computed: Option<Expr>,
}

/// A model call with tools.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The model call.
    pub generate: Generate,
    /// The available tools, each with its effect.
    pub tools: Vec<AgentTool>,
    /// The limit of tool calls, after which the model must answer.
    pub limit: CallLimit,
    /// Whether the first answer must call a tool.
    pub must_call: bool,
}

/// How often an agent may call tools before it must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLimit {
    /// Number of answers with tool calls; each may contain any number of calls.
    Rounds(u32),
    /// Number of calls.
    Calls(u32),
}

/// A tool of an agent.
#[derive(Clone, Debug)]
pub struct AgentTool {
    /// The tool as the model sees it.
    pub declaration: ToolDeclaration,
    /// The effect of a call.
    pub effect: ToolEffect,
    /// Whether a person must approve each call.
    pub needs_approval: bool,
}

/// The effect of a tool call.
#[derive(Clone, Debug)]
pub enum ToolEffect {
    /// Calls a function.
    Function(Arc<str>),
    /// Runs the workflow with this id through the function `flow::ID`. The output is `{text, is_final}`: the text for
    /// the model, and whether that text already is the agent's answer.
    Flow(Arc<str>),
    /// Sends a request; its templates see the arguments as `arguments` and the run's user as `owner`.
    Http(Box<HttpSpec>),
    /// The client of the run executes the tool: the run waits for the result.
    Client,
}

/// The id of the function that runs the workflow with this id.
pub fn flow_function(id: &str) -> String {
    format!("flow::{id}")
}

impl ToolEffect {
    /// The id of the function that the effect calls, if it calls one.
    pub fn function(&self) -> Option<Arc<str>> {
        match self {
            ToolEffect::Function(function) => Some(function.clone()),
            ToolEffect::Flow(id) => Some(flow_function(id).into()),
            ToolEffect::Http(_) | ToolEffect::Client => None,
        }
    }
}

/// One answer of a model with tools, in a conversation that other steps continue.
///
/// The output is `{agent, text, tool_calls, next}`: the name of the turn, the text, the requested tool calls (without
/// the routing tools), and the chosen destination. Only the text and the tool calls are added to the conversation.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The name of the speaker.
    pub name: Arc<str>,
    /// The model call.
    pub generate: Generate,
    /// The available tools; a [`Kind::Tools`] step runs them.
    pub tools: Vec<AgentTool>,
    /// The possible destinations.
    pub router: Option<Router>,
    /// The reason why the requested tools are not run, if nothing runs them; the model receives it in place of their
    /// results.
    pub unanswered: Option<Arc<str>>,
}

/// The tools by which a model chooses its destination.
#[derive(Clone, Debug)]
pub struct Router {
    /// The tools as the model sees them: `router` and, where a conversation can be ended, `end`.
    pub tools: Vec<ToolDeclaration>,
    /// The possible destinations, compared without regard to case.
    pub destinations: Vec<Arc<str>>,
    /// How often the model is told that a destination does not exist before its choice is ignored.
    pub retries: u32,
}

/// Runs the tools that the last answer of a conversation requests, at the same time; the results are appended in the
/// order of the calls. The output is `{tool, results}`: the tool of the last call, and every call with its result.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The conversation.
    pub thread: Arc<str>,
    /// All tools that may be called, whichever turn they were available to.
    pub tools: Vec<AgentTool>,
}

/// A block: code or a prompt, with inputs and an output that are validated against schemas.
#[derive(Clone, Debug)]
pub struct Block {
    /// The id in reports.
    pub id: Arc<str>,
    /// What runs.
    pub code: BlockCode,
    /// The inputs: an object.
    pub inputs: Data,
    /// JSON Schema of the inputs; inputs are coerced to it where possible.
    pub input_schema: Option<Value>,
    /// JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// A field whose presence in the output means failure, whatever its value.
    pub failure: Option<Arc<str>>,
}

/// The code of a block.
#[derive(Clone, Debug)]
pub enum BlockCode {
    /// Python, in the sandbox.
    Python {
        /// Source that defines `execute(inputs, context)`.
        source: Arc<str>,
        /// Whether it may run again after a crash.
        effect: EffectClass,
    },
    /// A model call whose templates see the inputs as `inputs`.
    Prompt(Box<Generate>),
    /// A function that receives the inputs as its arguments.
    Function(Arc<str>),
}

/// A web page to read.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The address.
    pub url: Template,
    /// What the scraper returns.
    pub capture: Capture,
    /// CSS selector applied to the HTML. One match yields its inner HTML; several are joined by line breaks.
    pub selector: Option<Template>,
    /// Whether text that exceeds the model's context window is summarised.
    pub summarize: bool,
}

/// A function call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function's id.
    pub function: Arc<str>,
    /// The prompt.
    pub prompt: Template,
    /// Entries added to the variables in the payload, as `(name, variable)`; left out if the variable does not exist.
    pub extra: Vec<(Arc<str>, Arc<str>)>,
    /// The whole payload, where it does not contain the variables and the prompt.
    pub arguments: Option<Vec<(Arc<str>, Expr)>>,
}

/// A memory operation on behalf of the user; the arguments are read like those of a built-in function.
#[derive(Clone, Debug)]
pub struct MemoryStep {
    /// The operation.
    pub operation: MemoryOperation,
    /// The prompt that may hold the arguments.
    pub prompt: Template,
}

/// A memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOperation {
    /// Returns the value of `key`.
    Get,
    /// Sets `key` to `value`.
    Set,
    /// Returns all entries as an object.
    All,
    /// Returns the user's profile as an object.
    Profile,
}

/// What happens to an effect that was in flight during a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// The effect is repeated under the same idempotency key.
    AtLeastOnce,
    /// The effect is never repeated automatically; the run becomes `uncertain`.
    AtMostOnce,
}
