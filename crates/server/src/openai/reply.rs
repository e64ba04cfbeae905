//! The answer of a run that is no longer driven: its text, or the tool calls for the client.

use axum::http::StatusCode;
use flowloom_app::runs::summary::for_people;
use flowloom_app::runs::supervisor::Ended;
use flowloom_core::chat::{Role, Usage};
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::plan::{AgentTool, Composite, Kind, Plan, ToolEffect};
use flowloom_core::render;
use flowloom_core::state::{RunState, StepState};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::present;

use crate::problem::{Answer, Problem};

/// The answer of a run.
pub(crate) struct Reply {
    pub(crate) text: String,
    /// Tool calls that the client has to execute.
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) usage: Usage,
}

/// A tool call for the client.
pub(crate) struct ToolCall {
    /// Identifies the run and the step, so that the result can be assigned.
    pub(crate) id: String,
    pub(crate) name: String,
    /// Arguments as JSON text.
    pub(crate) arguments: String,
}

/// The answer of a run that has ended or waits for the client. Fails with a problem if the run failed or is still
/// running.
pub(crate) fn reply(ended: &Ended) -> Answer<Reply> {
    let outcome = &ended.outcome;
    if let Some(broken) = outcome.broken.clone() {
        return Err(broken.into());
    }
    let (id, state) = (outcome.id, &outcome.state);
    let calls = if state.status == Status::Waiting { calls(id, &ended.plan, state) } else { Vec::new() };
    let text = match state.status {
        Status::Succeeded => said(ended),
        Status::Waiting if calls.is_empty() => asked(ended),
        Status::Waiting => said_in_turn(ended).unwrap_or_default(),
        Status::Queued | Status::Running => {
            let message = format!("the run {id} is still running; for its state: GET /api/v1/runs/{id}");
            return Err(Problem::new(Code::LimitTime, message));
        }
        _ => return Err(failed(id, state)),
    };
    Ok(Reply { text, calls, usage: state.usage })
}

/// The problem of a run that did not succeed. Its status is one that clients do not retry, since a retry would start a
/// second run.
fn failed(id: RunId, state: &RunState) -> Problem {
    let problem = match (&state.error, state.status) {
        (Some(error), _) => Problem::from(error.clone()),
        (None, Status::Cancelled) => Problem::new(Code::Cancelled, format!("the run {id} was cancelled")),
        (None, _) => Problem::new(Code::EffectUncertain, format!("the run {id} is {}", state.status.name())),
    };
    problem.with_status(StatusCode::UNPROCESSABLE_ENTITY)
}

/// The output as text.
fn said(ended: &Ended) -> String {
    if let Some(text) = said_in_turn(ended) {
        return text;
    }
    match present(&ended.plan, &ended.outcome.state, &ended.outcome.env).output {
        Value::Null => String::new(),
        output => for_people(&output),
    }
}

/// The last assistant message of the turn; `None` if the workflow is not a conversation.
fn said_in_turn(ended: &Ended) -> Option<String> {
    let thread = ended.outcome.env.thread(ended.plan.thread.as_deref()?);
    let since = thread.messages().iter().rev().take_while(|message| message.role != Role::User);
    let mut spoken = since.filter(|message| message.role == Role::Assistant && !message.content.is_empty());
    Some(spoken.next().map(|message| message.content.clone()).unwrap_or_default())
}

/// The question of a waiting run, and how to answer it.
fn asked(ended: &Ended) -> String {
    let (id, state) = (ended.outcome.id, &ended.outcome.state);
    let question = state.steps().iter().find_map(|step| Some(step.question.as_ref()?.question.as_str()));
    let is_kept = state.created.as_ref().is_some_and(|created| created.keep.is_some());
    let how = match (question, is_kept) {
        (None, _) => format!("(The run {id} waits for a time to come: /api/v1/runs/{id})"),
        (Some(_), true) => format!("(The run {id} waits for your next message: /api/v1/runs/{id})"),
        (Some(_), false) => {
            format!("(The run {id} waits for the answer: POST /api/v1/runs/{id}/answer with {{\"value\": …}})")
        }
    };
    let texts = [said_in_turn(ended).unwrap_or_default(), question.unwrap_or_default().to_owned(), how];
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The tool calls that a run waits for its client to execute.
fn calls(id: RunId, plan: &Plan, state: &RunState) -> Vec<ToolCall> {
    let steps = state.steps().iter().enumerate();
    let call = |(index, step)| {
        let (name, arguments) = called(plan, step)?;
        Some(ToolCall { id: call_id(id, index), name: name.to_owned(), arguments: render::json(&arguments) })
    };
    steps.filter_map(call).collect()
}

/// The tool call that a step waits for its client to execute, with its arguments. It is stored as a question with the
/// text of the call.
pub(crate) fn called<'a>(plan: &Plan, step: &'a StepState) -> Option<(&'a str, Value)> {
    let (name, arguments) = step.question.as_ref()?.question.split_once(' ')?;
    let is_call = step.path.as_str().rsplit('/').next()?.starts_with("tool~");
    let arguments = parse_value(arguments).ok()?;
    (is_call && is_of_client(plan, name)).then_some((name, arguments))
}

fn is_of_client(plan: &Plan, name: &str) -> bool {
    let mut found = false;
    plan.root.visit(&mut |step| {
        let tools: &[AgentTool] = match &step.kind {
            Kind::Composite(Composite::Agent(agent)) => &agent.tools,
            Kind::Composite(Composite::Turn(turn)) => &turn.tools,
            Kind::Composite(Composite::Tools(tools)) => &tools.tools,
            _ => &[],
        };
        found |= tools.iter().any(|tool| tool.declaration.name == name && matches!(tool.effect, ToolEffect::Client));
    });
    found
}

/// The id of a tool call: the run, and the index of its step.
fn call_id(run: RunId, step: usize) -> String {
    format!("call_{}_{step}", run.0.simple())
}

/// Parses the id of a tool call into run and step index; `None` if it was issued by another system.
pub(crate) fn read_call_id(id: &str) -> Option<(RunId, usize)> {
    let (run, step) = id.strip_prefix("call_")?.split_once('_')?;
    Some((RunId::parse(run)?, step.parse().ok()?))
}
