//! Agents: steps that call a model with tools, and the tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::http::HttpSpec;
use super::leaf::Generate;
use crate::chat::ToolDeclaration;
use crate::expr::Expr;

/// A model call with tools.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The call.
    pub generate: Generate,
    /// The available tools, each with its effect.
    pub tools: Vec<AgentTool>,
    /// The names of those tools that this call offers, a list; `None` offers all of them. A name is the function's id, or
    /// what the model calls the tool.
    pub available: Option<Expr>,
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
    /// Calls.
    Calls(u32),
}

/// A tool of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentTool {
    /// The tool as the model sees it.
    pub declaration: ToolDeclaration,
    /// Another name under which the model may call it.
    pub alias: Option<Arc<str>>,
    /// The effect of a call.
    pub effect: ToolEffect,
    /// Whether a person must approve each call.
    pub needs_approval: bool,
}

/// The effect of a tool call.
#[derive(Clone, Debug, PartialEq)]
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
pub fn flow_function_id(id: &str) -> String {
    format!("{FLOW_PREFIX}{id}")
}

/// The id of the workflow that a function runs; `None` if it runs no workflow as a tool.
pub fn find_flow_id(function: &str) -> Option<&str> {
    function.strip_prefix(FLOW_PREFIX)
}

const FLOW_PREFIX: &str = "flow::";

impl AgentTool {
    /// The id that an agent must be granted to make a call; `None` for what the client does itself. A tool that is an HTTP
    /// request has no function; its id is `http::NAME`.
    pub fn grant_id(&self) -> Option<Arc<str>> {
        match &self.effect {
            ToolEffect::Http(_) => Some(format!("http::{}", self.declaration.name).into()),
            effect => effect.function_id(),
        }
    }
}

impl ToolEffect {
    /// The id of the function that the effect calls, if it calls one.
    pub fn function_id(&self) -> Option<Arc<str>> {
        match self {
            ToolEffect::Function(function) => Some(function.clone()),
            ToolEffect::Flow(id) => Some(flow_function_id(id).into()),
            ToolEffect::Http(_) | ToolEffect::Client => None,
        }
    }
}

/// One answer of a model with tools, in a conversation that other steps continue.
///
/// The output is `{agent, turn, text, tool_calls, next}`: the name and the id of the turn, the text, the requested tool
/// calls (without the routing tools), and the chosen destination. Only the text and the tool calls are added to the conversation.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The id, unique among the turns of the conversation.
    pub id: Arc<str>,
    /// The speaker.
    pub name: Arc<str>,
    /// The call.
    pub generate: Generate,
    /// The available tools; a [`Composite::Tools`](super::Composite::Tools) step runs them.
    pub tools: Vec<AgentTool>,
    /// The possible destinations.
    pub router: Option<Router>,
    /// The reason why the requested tools are not run, if nothing runs them; the model receives it in place of their
    /// results.
    pub not_run_reason: Option<Arc<str>>,
}

/// The tools by which a model chooses its destination.
#[derive(Clone, Debug)]
pub struct Router {
    /// The tools as the model sees them.
    pub tools: Vec<ToolDeclaration>,
    /// The argument that names the destination. Without it, the first text among the arguments does.
    pub argument: Arc<str>,
    /// The tool without a destination, which ends the conversation.
    pub end: Option<EndTool>,
    /// The possible destinations, compared without regard to case.
    pub destinations: Vec<Arc<str>>,
    /// Maximum number of corrections that the model receives for a destination that does not exist, before its choice
    /// is ignored.
    pub retries: u32,
}

/// A routing tool that always leads to the same place.
#[derive(Clone, Debug)]
pub struct EndTool {
    /// Its name, among the [`Router::tools`].
    pub name: Arc<str>,
    /// The destination of its calls.
    pub destination: Arc<str>,
}

/// Runs the tools that the last answer of a conversation requests, at the same time; the results are appended in the
/// order of the calls. The output is `{tool, results}`: the tool of the last call, and every call with its result.
#[derive(Clone, Debug)]
pub struct CallTools {
    /// The name of the conversation.
    pub thread: Arc<str>,
    /// The id of the turn that requests the calls.
    pub caller: Expr,
    /// The tools of all turns.
    pub tools: Vec<AgentTool>,
    /// The tools that each turn can call, as indexes of `tools`, by the id of the turn.
    pub tools_by_turn: BTreeMap<Arc<str>, Vec<usize>>,
}

impl CallTools {
    /// The tools that a turn can call.
    pub fn list_tools_of(&self, turn: &str) -> Vec<&AgentTool> {
        self.tools_by_turn.get(turn).into_iter().flatten().filter_map(|index| self.tools.get(*index)).collect()
    }
}
