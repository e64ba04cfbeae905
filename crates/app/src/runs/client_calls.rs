//! A message of the user as the answer to what a run asks. A run waits for the results of tools that its client executes as
//! it waits for the answers of a person. Only the client can send them: a message of the user is not a result.

use flowloom_core::code::Code;
use flowloom_core::effect::AskRequest;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path;
use flowloom_core::plan::{AgentTool, Composite, Plan, StepKind, ToolEffect};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::inputs::parse_answer;

/// Why a message is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NotAnAnswer {
    /// An approval is neither given nor refused.
    #[error("the run waits for an approval; answer yes or no, and nothing else")]
    Undecided,
    /// The run waits only for results of its client's tools.
    #[error(
        "run {run} is waiting for the result of the client tool {tool}; a user message cannot replace it. Send the result \
         as a tool message, or as the answer to the path {path}, or cancel the run"
    )]
    ClientCall {
        /// The run.
        run: RunId,
        /// The first tool that the client has to call.
        tool: String,
        /// The step that waits for its result.
        path: Path,
    },
}

impl NotAnAnswer {
    /// The error code.
    pub(crate) fn code(&self) -> Code {
        match self {
            NotAnAnswer::Undecided => Code::AnswerInvalid,
            NotAnAnswer::ClientCall { .. } => Code::RequestInvalid,
        }
    }
}

/// The tool call that the step at `path` waits for its client to execute, with its arguments. It is stored as a question
/// with the text of the call.
pub fn find_client_call<'a>(plan: &Plan, path: &Path, question: &'a AskRequest) -> Option<(&'a str, Value)> {
    let (name, arguments) = question.question.split_once(' ')?;
    let is_call = path.as_str().rsplit('/').next()?.starts_with("tool~");
    let arguments = parse_value(arguments).ok()?;
    (is_call && is_client_tool(plan, name)).then_some((name, arguments))
}

fn is_client_tool(plan: &Plan, name: &str) -> bool {
    let mut found = false;
    plan.root.visit(&mut |step| {
        let tools: &[AgentTool] = match &step.kind {
            StepKind::Composite(Composite::Agent(agent)) => &agent.tools,
            StepKind::Composite(Composite::Turn(turn)) => &turn.tools,
            StepKind::Composite(Composite::Tools(tools)) => &tools.tools,
            _ => &[],
        };
        found |= tools.iter().any(|tool| tool.declaration.name == name && matches!(tool.effect, ToolEffect::Client));
    });
    found
}

/// The value that a text is for a question. Fails with `Undecided` if an approval is neither given nor refused.
fn read_answer(question: &AskRequest, text: &str) -> Result<Value, NotAnAnswer> {
    let value = parse_answer(question, text);
    let kind = question.schema.as_ref().and_then(|schema| schema.get("type")?.as_str());
    match kind == Some("boolean") && !matches!(value, Value::Bool(_)) {
        true => Err(NotAnAnswer::Undecided),
        false => Ok(value),
    }
}

/// The answer that a text of the user is to the first question of a waiting run; `None` if the run asks nothing. Fails like
/// [`find_user_question`], and with `Undecided` if an approval is neither given nor refused.
pub fn read_user_answer(
    run: RunId,
    plan: &Plan,
    state: &RunState,
    text: &str,
) -> Result<Option<(Path, Value)>, NotAnAnswer> {
    let Some((path, question)) = find_user_question(run, plan, state)? else { return Ok(None) };
    Ok(Some((path, read_answer(question, text)?)))
}

/// The first question of a waiting run to its user, with the step that asks it; `None` if the run asks nothing. Fails with
/// `ClientCall` if the run waits only for results of its client's tools.
pub fn find_user_question<'a>(
    run: RunId,
    plan: &Plan,
    state: &'a RunState,
) -> Result<Option<(Path, &'a AskRequest)>, NotAnAnswer> {
    let mut call = None;
    for step in state.open_steps() {
        let Some(question) = step.question else { continue };
        match find_client_call(plan, &step.path, question) {
            None => return Ok(Some((step.path, question))),
            Some((name, _)) => call = call.or(Some((step.path, name))),
        }
    }
    match call {
        None => Ok(None),
        Some((path, tool)) => Err(NotAnAnswer::ClientCall { run, tool: tool.to_owned(), path }),
    }
}
