//! A conversation shared by several steps: one answer of a model, and the tool calls that it requests.

use std::sync::Arc;

use flowloom_core::chat::{Message, Role, ToolCall, unanswered_call_message};
use flowloom_core::effect::Request;
use flowloom_core::expr::Wording;
use flowloom_core::json;
use flowloom_core::path::Key;
use flowloom_core::plan::{CallTools, Env, Router, Step, Turn};
use flowloom_core::value::Value;

use super::agent::read_answer;
use super::tool::find_tool;
use super::{Interpreter, Interrupt, StepContext, StepResult};
use crate::scope;

/// The routing choice of an answer.
enum RoutingChoice {
    /// A valid destination.
    To(Arc<str>),
    /// No destination.
    Missing,
    /// An unknown destination.
    Unknown {
        /// Its name.
        named: String,
        /// The calls that name it.
        calls: Vec<ToolCall>,
        /// The message for the model.
        reply: String,
    },
}

/// The field of a turn's output with the unknown destination that the agent chose to the end.
pub(super) const UNKNOWN_DESTINATION: &str = "unknown_destination";

impl Interpreter {
    pub(super) async fn run_turn(&self, step: &Step, turn: &Turn, env: &mut Env, place: &StepContext) -> StepResult {
        let failed = |error| Interrupt::Failed(error, place.path.clone());
        let mut request = self.generate_request(&turn.generate, env, place).map_err(failed)?;
        let new = request.messages.new_messages().to_vec();
        let routing = turn.router.iter().flat_map(|router| &router.tools);
        request.tools = turn.tools.iter().map(|tool| &tool.declaration).chain(routing).cloned().collect();
        let retries = turn.router.as_ref().map_or(0, |router| router.retries);
        for round in 0..=retries {
            let at =
                place.with_path(place.path.child_path(&Key::numbered_key("turn", 1)).iteration_path(u64::from(round)));
            let output =
                self.run_attempts(&step.policy, &at, || Ok(Request::Generate(Box::new(request.clone())))).await?;
            let answer = read_answer(output).map_err(failed)?;
            let text = answer.text.unwrap_or_default();
            let (routes, calls) = split_routing_calls(turn.router.as_ref(), answer.calls);
            // Tools run first, and their agent chooses again.
            let runs_tools = !calls.is_empty() && turn.not_run_reason.is_none();
            let (next, unknown) = match choose_destination(turn.router.as_ref(), routes, place.text.wording) {
                RoutingChoice::Unknown { .. } if runs_tools => (None, None),
                RoutingChoice::Unknown { calls: wrong, reply, .. } if round < retries => {
                    refuse_calls(text, wrong, &reply).for_each(|message| request.messages.push(message));
                    continue;
                }
                RoutingChoice::To(next) => (Some(next), None),
                RoutingChoice::Missing => (None, None),
                RoutingChoice::Unknown { named, .. } => (None, Some(named)),
            };
            append_turn(env, turn, new, &text, &calls);
            let entries = [
                ("agent", Value::from(&*turn.name)),
                ("turn", Value::from(&*turn.id)),
                ("text", Value::from(text)),
                ("tool_calls", calls_value(&calls)),
                ("next", next.map_or(Value::Null, |next| (*next).into())),
                ("lost", unknown.is_some().into()),
            ];
            let output = Value::map(entries.into_iter().chain(unknown.map(|name| (UNKNOWN_DESTINATION, name.into()))));
            self.emit_finished(place, None)?;
            return Ok(Some(output));
        }
        Ok(None)
    }

    pub(super) async fn run_tools(
        &self,
        step: &Step,
        tools: &CallTools,
        env: &mut Env,
        place: &StepContext,
    ) -> StepResult {
        let calls = match env.find_thread(&tools.thread).messages().last() {
            Some(last) if last.role == Role::Assistant => last.tool_calls.clone(),
            _ => Vec::new(),
        };
        let caller = tools.caller.evaluate_or_null(env, None);
        let caller = caller.map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
        let available = tools.list_tools_of(caller.as_str().unwrap_or_default());
        let tool_of = |call: &ToolCall| find_tool(available.iter().copied(), call);
        let called = calls.iter().enumerate().map(|(index, call)| {
            let at = place.with_path(place.path.child_path(&Key::numbered_key("tool", 1)).iteration_path(index as u64));
            self.run_tool(&step.policy, tool_of(call), call, at)
        });
        let reply = scope::join_all(called).await;
        let mut results = Vec::new();
        for (call, reply) in calls.iter().zip(reply) {
            let text = reply?.to_model_text(place.text.wording);
            results.push(Value::map([
                ("name", call.name.as_str().into()),
                ("args", call.arguments.clone()),
                ("result", text.as_str().into()),
            ]));
            let message = Message::new(Role::Tool, text);
            env.append_message(&tools.thread, Message { tool_call_id: Some(call.id.clone()), ..message });
        }
        // The name that edges mean, even if the model used another one.
        let name_of = |call: &ToolCall| tool_of(call).map_or(call.name.clone(), |tool| tool.declaration.name.clone());
        let last = calls.last().map_or(Value::Null, |call| name_of(call).into());
        self.emit_finished(place, None)?;
        Ok(Some(Value::map([("tool", last), ("results", Value::list(results))])))
    }
}

/// The messages for a model whose calls name an unknown destination: what it answered, and `reply` to each call.
fn refuse_calls(text: String, calls: Vec<ToolCall>, reply: &str) -> impl Iterator<Item = Message> {
    let answer = Message { tool_calls: calls.clone(), ..Message::new(Role::Assistant, text) };
    let reply = reply.to_owned();
    let refuse =
        move |call: ToolCall| Message { tool_call_id: Some(call.id), ..Message::new(Role::Tool, reply.clone()) };
    std::iter::once(answer).chain(calls.into_iter().map(refuse))
}

/// Appends a turn to its thread: the new messages of its request and the answer. An agent that only routes adds no answer.
fn append_turn(env: &mut Env, turn: &Turn, new: Vec<Message>, text: &str, calls: &[ToolCall]) {
    let Some(thread) = &turn.generate.thread else { return };
    new.into_iter().for_each(|message| env.append_message(thread, message));
    if text.is_empty() && calls.is_empty() {
        return;
    }
    env.append_message(thread, Message { tool_calls: calls.to_vec(), ..Message::new(Role::Assistant, text) });
    if let Some(why) = &turn.not_run_reason {
        calls.iter().for_each(|call| env.append_message(thread, unanswered_call_message(call.clone(), why)));
    }
}

fn calls_value(calls: &[ToolCall]) -> Value {
    let call = |call: &ToolCall| {
        Value::map([
            ("id", Value::from(call.id.as_str())),
            ("name", call.name.as_str().into()),
            ("args", call.arguments.clone()),
        ])
    };
    Value::list(calls.iter().map(call).collect())
}

/// Splits the calls into routing calls and others.
fn split_routing_calls(router: Option<&Router>, calls: Vec<ToolCall>) -> (Vec<ToolCall>, Vec<ToolCall>) {
    let Some(router) = router else { return (Vec::new(), calls) };
    calls.into_iter().partition(|call| router.tools.iter().any(|tool| tool.name == call.name))
}

/// The destination of the last routing call.
fn choose_destination(router: Option<&Router>, routes: Vec<ToolCall>, wording: Wording) -> RoutingChoice {
    let (Some(router), Some(last)) = (router, routes.last()) else { return RoutingChoice::Missing };
    if let Some(end) = router.end.as_ref().filter(|end| *end.name == *last.name) {
        return RoutingChoice::To(end.destination.clone());
    }
    let (named, problem) = match read_destination(router, &last.arguments) {
        Ok(named) => (named, None),
        Err(problem) => (String::new(), Some(problem)),
    };
    let folded = named.to_lowercase();
    let exact = router.destinations.iter().find(|place| ***place == *named);
    match exact.or_else(|| router.destinations.iter().find(|place| place.to_lowercase() == folded)) {
        Some(place) if problem.is_none() => RoutingChoice::To(place.clone()),
        _ => {
            let problem = problem.unwrap_or_else(|| format!("there is no {named:?} to go to"));
            let places = router.destinations.join(", ");
            let reply = format!("Error: {problem}; choose one of: {places}.{}", wording.after_tool_error);
            RoutingChoice::Unknown { named, calls: routes, reply }
        }
    }
}

/// The destination that a routing call names, without the space around it; otherwise the error in its arguments.
fn read_destination(router: &Router, arguments: &Value) -> Result<String, String> {
    let parsed = match arguments {
        // Some models send their arguments as a text.
        Value::String(text) => Some(
            json::parse_value(text).map_err(|error| format!("the arguments are not valid JSON: {}", error.message))?,
        ),
        _ => None,
    };
    let arguments = parsed.as_ref().unwrap_or(arguments);
    let by_name = arguments.get(&router.argument).and_then(Value::as_str).map(str::to_owned);
    let named = by_name.or_else(|| arguments.as_map()?.values().find_map(Value::as_str).map(str::to_owned));
    named.map(|named| named.trim().to_owned()).ok_or_else(|| format!("the argument {} is missing", router.argument))
}
