//! The answer of a run that is no longer driven: its text, or the tool calls for the client.

use axum::http::StatusCode;
use flowloom_app::runs::client_calls::find_client_call;
use flowloom_app::runs::summary::render_output;
use flowloom_app::runs::supervisor::FinishedRun;
use flowloom_core::chat::{Role, Usage};
use flowloom_core::code::Code;
use flowloom_core::effect::FinishReason;
use flowloom_core::id::RunId;
use flowloom_core::json::read_lenient;
use flowloom_core::plan::Plan;
use flowloom_core::render;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;

use crate::problem::{ApiResult, Problem};

/// The answer of a run.
pub(crate) struct RunAnswer {
    pub(crate) text: String,
    /// Tool calls that the client has to execute.
    pub(crate) calls: Vec<ClientToolCall>,
    pub(crate) usage: Usage,
    /// The status of the run.
    pub(crate) status: Status,
    /// Objects that the answer may represent: the output of the last model call that answered in JSON.
    pub(crate) objects: Vec<Value>,
    /// Whether the answer of the last model call reached its maximum length.
    pub(crate) is_cut: bool,
}

impl RunAnswer {
    /// Why the answer ends, in OpenAI's words.
    pub(crate) fn finish_reason(&self) -> &'static str {
        match (self.calls.is_empty(), self.is_cut) {
            (false, _) => "tool_calls",
            (true, true) => "length",
            (true, false) => "stop",
        }
    }
}

/// A tool call for the client.
pub(crate) struct ClientToolCall {
    /// Identifies the run and the step, so that the result can be assigned.
    pub(crate) id: String,
    pub(crate) name: String,
    /// Arguments as JSON text.
    pub(crate) arguments: String,
}

/// The answer of a run that has ended or waits for the client. Fails with a problem if the run failed or is still
/// running.
pub(crate) fn build_answer(ended: &FinishedRun) -> ApiResult<RunAnswer> {
    let outcome = &ended.outcome;
    if let Some(broken) = outcome.broken.clone() {
        return Err(broken.into());
    }
    let (id, state) = (outcome.id, &outcome.state);
    let calls = if state.status == Status::Waiting { client_calls(id, &ended.plan, state) } else { Vec::new() };
    let text = match state.status {
        Status::Succeeded => output_text(ended),
        Status::Waiting if calls.is_empty() => question_text(ended),
        Status::Waiting => turn_text(ended).unwrap_or_default(),
        Status::Queued | Status::Running => {
            let message = format!("the run {id} is still running; for its state: GET /api/v1/runs/{id}");
            return Err(Problem::new(Code::LimitTime, message));
        }
        _ => return Err(failed_problem(id, state)),
    };
    let last_call = find_last_call(state);
    let objects = last_call.and_then(read_object).into_iter().collect();
    let facts = last_call.and_then(|step| step.response.as_deref());
    let is_cut = facts.is_some_and(|facts| facts.finish_reason == Some(FinishReason::Length));
    Ok(RunAnswer { text, calls, usage: state.usage, status: state.status, objects, is_cut })
}

/// The problem of a run that did not succeed. Its status is one that clients do not retry, since a retry would start a
/// second run.
fn failed_problem(id: RunId, state: &RunState) -> Problem {
    let problem = match (&state.error, state.status) {
        (Some(error), _) => Problem::from(error.clone()),
        (None, Status::Cancelled) => Problem::new(Code::Cancelled, format!("the run {id} was cancelled")),
        (None, _) => Problem::new(Code::EffectUncertain, format!("the run {id} is {}", state.status.name())),
    };
    problem.with_status(StatusCode::UNPROCESSABLE_ENTITY)
}

/// The output as text.
fn output_text(ended: &FinishedRun) -> String {
    if let Some(text) = turn_text(ended) {
        return text;
    }
    match render_result(&ended.plan, &ended.outcome.state, &ended.outcome.env).output {
        Value::Null => String::new(),
        output => render_output(&output),
    }
}

/// The last assistant message of the turn; `None` if the workflow is not a conversation.
fn turn_text(ended: &FinishedRun) -> Option<String> {
    let thread = ended.outcome.env.find_thread(ended.plan.thread.as_deref()?);
    let since = thread.messages().iter().rev().take_while(|message| message.role != Role::User);
    let mut messages = since.filter(|message| message.role == Role::Assistant && !message.content.is_empty());
    Some(messages.next().map(|message| message.content.clone()).unwrap_or_default())
}

/// The last model call that has finished.
fn find_last_call(state: &RunState) -> Option<&StepState> {
    let is_answer = |step: &&StepState| step.kind.as_deref() == Some("generate") && step.phase == Phase::Finished;
    state.steps().iter().rev().find(is_answer)
}

/// The object that a model call answered with.
fn read_object(call: &StepState) -> Option<Value> {
    match call.output.as_ref()? {
        Value::String(text) => read_lenient(text).filter(|value| value.as_map().is_some()),
        output => output.as_map().map(|_| output.clone()),
    }
}

/// The question of a waiting run, and how to answer it.
fn question_text(ended: &FinishedRun) -> String {
    let (id, state) = (ended.outcome.id, &ended.outcome.state);
    let question = state.open_steps().find_map(|step| Some(step.question?.question.as_str()));
    let is_kept = state.created.as_ref().is_some_and(|created| created.thread_key.is_some());
    let how = match (question, is_kept) {
        (None, _) => format!("(The run {id} waits for a timer: /api/v1/runs/{id})"),
        (Some(_), true) => format!("(The run {id} waits for your next message: /api/v1/runs/{id})"),
        (Some(_), false) => {
            format!("(The run {id} waits for the answer: POST /api/v1/runs/{id}/answer with {{\"value\": …}})")
        }
    };
    let texts = [turn_text(ended).unwrap_or_default(), question.unwrap_or_default().to_owned(), how];
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The tool calls that a run waits for its client to execute.
fn client_calls(id: RunId, plan: &Plan, state: &RunState) -> Vec<ClientToolCall> {
    let steps = state.steps().iter().enumerate();
    let call = |(index, step): (usize, &StepState)| {
        let (name, arguments) = find_client_call(plan, &step.path, step.question.as_ref()?)?;
        Some(ClientToolCall {
            id: format_call_id(id, index),
            name: name.to_owned(),
            arguments: render::to_json(&arguments),
        })
    };
    steps.filter_map(call).collect()
}

/// The id of a tool call: the run, and the index of its step.
fn format_call_id(run: RunId, step: usize) -> String {
    format!("call_{}_{step}", run.0.simple())
}

/// The end of the id of a call whose arguments are the output of a run.
const OUTPUT_CALL_SUFFIX: &str = "_output";

/// The id of the call whose arguments are the output of a run.
pub(crate) fn format_output_call_id(run: RunId) -> String {
    format!("call_{}{OUTPUT_CALL_SUFFIX}", run.0.simple())
}

/// Parses the id of a call whose arguments are the output of a run; `None` if it is another id.
pub(crate) fn parse_output_call_id(id: &str) -> Option<RunId> {
    RunId::parse(id.strip_prefix("call_")?.strip_suffix(OUTPUT_CALL_SUFFIX)?)
}

/// Parses the id of a tool call into run and step index; `None` if it was issued by another system.
pub(crate) fn parse_call_id(id: &str) -> Option<(RunId, usize)> {
    let (run, step) = id.strip_prefix("call_")?.split_once('_')?;
    Some((RunId::parse(run)?, step.parse().ok()?))
}
