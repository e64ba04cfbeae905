//! What agents hold: steps that ask a model with tools, and the tools.

use std::sync::Arc;

use super::http::HttpSpec;
use super::leaf::Generate;
use crate::chat::ToolDeclaration;

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
