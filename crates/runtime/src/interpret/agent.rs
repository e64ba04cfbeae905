//! A model with tools: ask, call what it wants, tell it what came back, ask again.

use flowloom_core::path::Key;
use flowloom_core::plan::{Agent, Step};
use flowloom_core::render::{self, Style};
use flowloom_core::request::{Message, Request, Role, ToolCall};
use flowloom_core::value::Value;
use flowloom_core::vars::Env;

use super::{Halt, Interpreter, Place, Walked};

impl Interpreter {
    pub(super) async fn agent(&self, step: &Step, agent: &Agent, env: &mut Env, place: &Place) -> Walked {
        let failed = |error| Halt::Failed(error, place.path.clone());
        let (mut request, new) = self.generate_request(&agent.generate, env, place).map_err(failed)?;
        let offered: Vec<_> = agent.tools.iter().map(|tool| tool.declaration.clone()).collect();
        for round in 0u32.. {
            request.tools = if round < agent.max_rounds { offered.clone() } else { Vec::new() };
            let turn = place.at(place.path.child(&Key::nth("turn", 1)).iteration(u64::from(round)));
            let output =
                self.attempts(&step.policy, &turn, || Ok(Request::Generate(Box::new(request.clone())))).await?;
            let (text, calls) = read_answer(output);
            if calls.is_empty() {
                if let Some(thread) = &agent.generate.thread {
                    let answer = Message::new(Role::Assistant, text.as_deref().unwrap_or_default());
                    new.into_iter().chain([answer]).for_each(|message| env.say(thread, message));
                }
                self.finished(place, None)?;
                return Ok(text.map(Value::from));
            }
            let said = text.unwrap_or_default();
            request.messages.push(Message { tool_calls: calls.clone(), ..Message::new(Role::Assistant, said) });
            for (index, call) in calls.iter().enumerate() {
                let at = turn.at(turn.path.child(&Key::nth("tool", 1)).iteration(index as u64));
                let told = self.tool(&step.policy, &agent.tools, call, at).await?;
                let message = Message::new(Role::Tool, told.text());
                request.messages.push(Message { tool_call_id: Some(call.id.clone()), ..message });
            }
        }
        Ok(None)
    }
}

/// What a model said, and what it wants called.
pub(super) fn read_answer(output: Option<Value>) -> (Option<String>, Vec<ToolCall>) {
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
