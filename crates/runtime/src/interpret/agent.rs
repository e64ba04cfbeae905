//! A model with tools: call the model, run the tools it requests, send it the results, and repeat.

use flowloom_core::chat::{Message, Role, ToolCall};
use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateRequest, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::path::Key;
use flowloom_core::plan::{Agent, AgentTool, CallLimit, Env, Step};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::Value;

use super::tool::{ToolOutcome, find_tool};
use super::{Interpreter, Interrupt, StepContext, StepResult};

/// A model's answer.
#[derive(Default)]
pub(super) struct ModelAnswer {
    pub(super) text: Option<String>,
    /// The tool calls that the model requests.
    pub(super) calls: Vec<ToolCall>,
}

/// The progress of an agent.
struct AgentProgress<'a> {
    /// The available tools.
    tools: Vec<&'a AgentTool>,
    /// The next request, with the conversation so far.
    request: GenerateRequest,
    /// Number of tool calls that were made.
    called: u32,
}

impl Interpreter {
    pub(super) async fn run_agent(&self, step: &Step, agent: &Agent, env: &mut Env, place: &StepContext) -> StepResult {
        let failed = |error| Interrupt::Failed(error, place.path.clone());
        let request = self.generate_request(&agent.generate, env, place).map_err(failed)?;
        let new = request.messages.new_messages().to_vec();
        let available = available_tools(agent, env).map_err(failed)?;
        let tools: Vec<_> = available.iter().map(|tool| tool.declaration.clone()).collect();
        let mut progress = AgentProgress { tools: available, request, called: 0 };
        for round in 0u32.. {
            let AgentProgress { request, called, .. } = &mut progress;
            let may_call = match agent.limit {
                CallLimit::Rounds(most) => round < most,
                CallLimit::Calls(most) => *called < most,
            };
            request.tools = if may_call { tools.clone() } else { Vec::new() };
            request.options.must_call = agent.must_call && *called == 0 && !request.tools.is_empty();
            let turn =
                place.with_path(place.path.child_path(&Key::numbered_key("turn", 1)).iteration_path(u64::from(round)));
            let output =
                self.run_attempts(&step.policy, &turn, || Ok(Request::Generate(Box::new(request.clone())))).await?;
            let answer = read_answer(output).map_err(|error| Interrupt::Failed(error, turn.path.clone()))?;
            let answer = match answer.calls.is_empty() {
                true => {
                    let can_call = may_call && !tools.is_empty();
                    Some(answer.text.or_else(|| (!can_call).then(|| describe_missing_answer(agent.limit))))
                }
                false => self.run_calls(step, agent, answer, &mut progress, &turn).await?.map(Some),
            };
            let Some(text) = answer else { continue };
            if let Some(thread) = &agent.generate.thread {
                let answer = Message::new(Role::Assistant, text.as_deref().unwrap_or_default());
                new.into_iter().chain([answer]).for_each(|message| env.append_message(thread, message));
            }
            self.emit_finished(place, None)?;
            return Ok(text.map(Value::from));
        }
        Ok(None)
    }

    /// Runs the requested tools and appends their results to the request. Returns the agent's answer if a tool supplies
    /// it.
    async fn run_calls(
        &self,
        step: &Step,
        agent: &Agent,
        answer: ModelAnswer,
        progress: &mut AgentProgress<'_>,
        turn: &StepContext,
    ) -> Result<Option<String>, Interrupt> {
        let AgentProgress { tools, request, called } = progress;
        let message = Message::new(Role::Assistant, answer.text.unwrap_or_default());
        request.messages.push(Message { tool_calls: answer.calls.clone(), ..message });
        for (index, call) in answer.calls.iter().enumerate() {
            let outcome = match agent.limit {
                CallLimit::Calls(most) if *called >= most => ToolOutcome::Result(
                    format!("This was not called: {most} calls are allowed, and they are used up.").into(),
                ),
                _ => {
                    *called += 1;
                    let at = turn
                        .with_path(turn.path.child_path(&Key::numbered_key("tool", 1)).iteration_path(index as u64));
                    self.run_tool(&step.policy, find_tool(tools.iter().copied(), call), call, at).await?
                }
            };
            if let ToolOutcome::Answer(text) = outcome {
                return Ok(Some(text));
            }
            let message = Message::new(Role::Tool, outcome.to_model_text(turn.text.wording));
            request.messages.push(Message { tool_call_id: Some(call.id.clone()), ..message });
        }
        Ok(None)
    }
}

/// The tools that a call offers. Fails for a name that is not one of the agent's tools, so that no value can add a tool.
fn available_tools<'a>(agent: &'a Agent, env: &Env) -> Result<Vec<&'a AgentTool>, StepFailure> {
    let Some(names) = &agent.available else { return Ok(agent.tools.iter().collect()) };
    let names = match names.evaluate(env, None)? {
        None | Some(Value::Null | Value::Bool(false)) => return Ok(Vec::new()),
        Some(names) => names,
    };
    let failed = |message: String| StepFailure::new(Code::UnknownTool, message);
    let Some(list) = names.as_list() else {
        return Err(failed(format!("tools must be a list of names, not {}", names.kind_name())));
    };
    let mut available: Vec<&AgentTool> = Vec::new();
    for name in list {
        let Some(name) = name.as_str() else {
            return Err(failed(format!("tools has {}; expected names", render::to_json(name))));
        };
        let is_function = |tool: &&AgentTool| tool.effect.function_id().as_deref() == Some(name);
        let found = agent.tools.iter().find(is_function);
        let found = found.or_else(|| agent.tools.iter().find(|tool| tool.declaration.name == name));
        let Some(tool) = found else {
            let known: Vec<String> =
                agent.tools.iter().filter_map(|tool| Some(tool.effect.function_id()?.to_string())).collect();
            return Err(failed(format!("there is no tool {name}; this action may use {}", known.join(", "))));
        };
        if !available.iter().any(|known| known.declaration.name == tool.declaration.name) {
            available.push(tool);
        }
    }
    Ok(available)
}

/// The answer of an agent whose model calls a tool when it may not.
fn describe_missing_answer(limit: CallLimit) -> String {
    match limit {
        CallLimit::Calls(most) if most > 0 => {
            format!("There is no answer: the agent used up its limit of {most} tool calls.")
        }
        CallLimit::Rounds(most) if most > 0 => {
            format!("There is no answer: the model called tools in {most} answers, and then again.")
        }
        _ => "There is no answer: the model called a tool, and there is none that it may call.".to_owned(),
    }
}

/// Reads the output of a model call. Fails if its tool calls cannot be read: an output may also come from a person, or from a
/// test.
pub(super) fn read_answer(output: Option<Value>) -> Result<ModelAnswer, StepFailure> {
    Ok(match &output {
        // If tools were available, the output holds both; otherwise it is the text alone.
        Some(Value::Map(map)) if map.contains_key("tool_calls") => {
            let text = map.get("text").and_then(Value::as_str).map(str::to_owned);
            let calls = map.get("tool_calls").map(render::to_json).unwrap_or_default();
            let calls = serde_json::from_str(&calls).map_err(|error| {
                let message = format!(
                    "the tool calls of the answer cannot be read ({error}); \"tool_calls\" is a list of objects with \"id\", \
                     \"name\" and \"arguments\""
                );
                StepFailure::new(Code::StepRefused, message)
            })?;
            ModelAnswer { text, calls }
        }
        Some(value) => ModelAnswer { text: Some(render::render_text(value, TextStyle::Json)), calls: Vec::new() },
        None => ModelAnswer::default(),
    })
}
