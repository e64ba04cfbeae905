//! A model with tools: ask, call what it wants, tell it what came back, ask again.
//!
//! The only place that offers tools, checks arguments, asks for approval and answers a model's garbage. Nothing that
//! was not offered is ever called.

use flowloom_core::args::Payload;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::path::Key;
use flowloom_core::plan::{Agent, AgentTool, Step};
use flowloom_core::render::{self, Style};
use flowloom_core::request::{AskRequest, CallRequest, GenerateRequest, Message, Request, Role, ToolCall};
use flowloom_core::value::Value;
use flowloom_core::vars::Env;

use super::leaf::message_value;
use super::{Halt, Interpreter, Place, Walked};

impl Interpreter {
    pub(super) async fn agent(&self, step: &Step, agent: &Agent, env: &mut Env, place: &Place) -> Walked {
        let failed = |error| Halt::Failed(error, place.path.clone());
        let mut request = self.generate_request(&agent.generate, env, place).map_err(failed)?;
        let asked = request.messages.len();
        let offered: Vec<_> = agent.tools.iter().map(|tool| tool.declaration.clone()).collect();
        for round in 0u32.. {
            request.tools = if round < agent.max_rounds { offered.clone() } else { Vec::new() };
            let turn = place.at(place.path.child(&Key::nth("turn", 1)).iteration(u64::from(round)));
            let output = self.attempts(&step.policy, &turn, || Ok(Request::Generate(request.clone()))).await?;
            let (text, calls) = read_answer(output);
            if calls.is_empty() {
                self.remember(agent, &request, asked, text.as_deref(), env);
                self.finished(place, None)?;
                return Ok(text.map(Value::from));
            }
            let said = text.unwrap_or_default();
            request.messages.push(Message { tool_calls: calls.clone(), ..Message::new(Role::Assistant, said) });
            for (index, call) in calls.iter().enumerate() {
                let at = turn.at(turn.path.child(&Key::nth("tool", 1)).iteration(index as u64));
                let result = self.tool(step, agent, call, &at).await?;
                let message = Message::new(Role::Tool, result);
                request.messages.push(Message { tool_call_id: Some(call.id.clone()), ..message });
            }
        }
        Ok(None)
    }

    /// Adds what was said to the agent's conversation: the new questions and the final answer.
    fn remember(&self, agent: &Agent, request: &GenerateRequest, asked: usize, text: Option<&str>, env: &mut Env) {
        let Some(thread) = &agent.generate.thread else { return };
        let new = agent.generate.messages.len().min(asked);
        for message in &request.messages[asked - new..asked] {
            env.vars.append(thread.clone(), message_value(message));
        }
        let answer = Message::new(Role::Assistant, text.unwrap_or_default());
        env.vars.append(thread.clone(), message_value(&answer));
    }

    /// The result of one tool call as the model is told it. What the tool cannot do is an answer too.
    async fn tool(&self, step: &Step, agent: &Agent, call: &ToolCall, place: &Place) -> Result<String, Halt> {
        let Some(tool) = agent.tools.iter().find(|tool| tool.declaration.name == call.name) else {
            let names: Vec<_> = agent.tools.iter().map(|tool| tool.declaration.name.as_str()).collect();
            return Ok(format!("Tool \"{}\" not found. Tools: {}.", call.name, names.join(", ")));
        };
        let arguments = match check_arguments(tool, &call.arguments) {
            Ok(arguments) => arguments,
            Err(problem) => return Ok(format!("Error: {problem} Please fix your mistakes.")),
        };
        if tool.needs_approval && !self.approved(step, tool, &arguments, place).await? {
            return Ok("The user did not allow this call.".to_owned());
        }
        if let Some(agent) = &self.agent
            && let Err(error) = self.effects.functions.permit(agent, &tool.function)
        {
            return Ok(format!("Error: {error}"));
        }
        let payload = Payload::of(arguments.as_map().cloned().unwrap_or_default());
        let request = CallRequest { function: tool.function.clone(), payload };
        match self.attempts(&step.policy, place, || Ok(Request::Call(request.clone()))).await {
            Ok(output) => Ok(output.map(|output| render::text(&output, Style::Json)).unwrap_or_default()),
            Err(Halt::Failed(error, _)) => Ok(format!("Error: {error}")),
            Err(halt) => Err(halt),
        }
    }

    /// Asks a person about one call with exactly these arguments.
    async fn approved(&self, step: &Step, tool: &AgentTool, arguments: &Value, place: &Place) -> Result<bool, Halt> {
        let question = format!("Allow {} with {}?", tool.declaration.name, render::json(arguments));
        let schema = Some(Value::map([("type", Value::from("boolean"))]));
        let at = place.at(place.path.child(&Key::nth("approval", 1)));
        let ask = || Ok(Request::Ask(AskRequest { question: question.clone(), schema: schema.clone() }));
        let answer = self.attempts(&step.policy, &at, ask).await?;
        Ok(answer.and_then(|answer| answer.as_bool()).unwrap_or(false))
    }
}

fn read_answer(output: Option<Value>) -> (Option<String>, Vec<ToolCall>) {
    match &output {
        // With tools offered the output holds both; without, it is the text alone.
        Some(Value::Map(map)) if map.contains_key("tool_calls") => {
            let text = map.get("text").and_then(Value::as_str).map(str::to_owned);
            let calls = map.get("tool_calls").map(render::json).unwrap_or_default();
            (text, serde_json::from_str(&calls).unwrap_or_default())
        }
        Some(value) => (Some(render::text(value, Style::Json)), Vec::new()),
        None => (None, Vec::new()),
    }
}

/// The arguments as an object that has what the declaration requires.
fn check_arguments(tool: &AgentTool, arguments: &Value) -> Result<Value, StepError> {
    let invalid = |message: String| StepError::new(Code::ArgumentMissing, message);
    let read = match arguments {
        Value::String(text) => flowloom_core::json::read_lenient(text).unwrap_or_else(|| arguments.clone()),
        Value::Null => Value::map::<&str>([]),
        other => other.clone(),
    };
    let Some(given) = read.as_map() else {
        return Err(invalid(format!("The arguments must be an object, not {}.", read.kind())));
    };
    let required = tool.declaration.parameters.get("required").and_then(Value::as_list).unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        if !given.contains_key(name) {
            return Err(invalid(format!("The argument {name} is missing.")));
        }
    }
    Ok(read.clone())
}
