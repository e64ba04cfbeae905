//! A model with tools: call the model, run the tools it requests, send it the results, and repeat.

use flowloom_core::chat::{Message, Role, ToolCall};
use flowloom_core::effect::{GenerateRequest, Request};
use flowloom_core::path::Key;
use flowloom_core::plan::{Agent, CallLimit, Env, Step};
use flowloom_core::render::{self, Style};
use flowloom_core::value::Value;

use super::tool::Told;
use super::{Halt, Interpreter, Place, Walked};

impl Interpreter {
    pub(super) async fn agent(&self, step: &Step, agent: &Agent, env: &mut Env, place: &Place) -> Walked {
        let failed = |error| Halt::Failed(error, place.path.clone());
        let mut request = self.generate_request(&agent.generate, env, place).map_err(failed)?;
        let new = request.messages.new_ones().to_vec();
        let offered: Vec<_> = agent.tools.iter().map(|tool| tool.declaration.clone()).collect();
        let mut called = 0;
        for round in 0u32.. {
            let may_call = match agent.limit {
                CallLimit::Rounds(most) => round < most,
                CallLimit::Calls(most) => called < most,
            };
            request.tools = if may_call { offered.clone() } else { Vec::new() };
            request.options.must_call = agent.must_call && called == 0 && !request.tools.is_empty();
            let turn = place.at(place.path.child(&Key::nth("turn", 1)).iteration(u64::from(round)));
            let output =
                self.attempts(&step.policy, &turn, || Ok(Request::Generate(Box::new(request.clone())))).await?;
            let (text, calls) = read_answer(output);
            let answer = match calls.is_empty() {
                true => Some(text),
                false => self.calls(step, agent, (text, calls), &mut called, (&mut request, &turn)).await?.map(Some),
            };
            let Some(text) = answer else { continue };
            if let Some(thread) = &agent.generate.thread {
                let answer = Message::new(Role::Assistant, text.as_deref().unwrap_or_default());
                new.into_iter().chain([answer]).for_each(|message| env.say(thread, message));
            }
            self.finished(place, None)?;
            return Ok(text.map(Value::from));
        }
        Ok(None)
    }

    /// Runs the requested tools and appends their results to the request. Returns the agent's answer if a tool supplies
    /// it.
    async fn calls(
        &self,
        step: &Step,
        agent: &Agent,
        (text, calls): (Option<String>, Vec<ToolCall>),
        called: &mut u32,
        (request, turn): (&mut GenerateRequest, &Place),
    ) -> Result<Option<String>, Halt> {
        let said = Message::new(Role::Assistant, text.unwrap_or_default());
        request.messages.push(Message { tool_calls: calls.clone(), ..said });
        for (index, call) in calls.iter().enumerate() {
            let told = match agent.limit {
                CallLimit::Calls(most) if *called >= most => {
                    Told::Result(format!("This was not called: {most} calls are allowed, and they are used up.").into())
                }
                _ => {
                    *called += 1;
                    let at = turn.at(turn.path.child(&Key::nth("tool", 1)).iteration(index as u64));
                    self.tool(&step.policy, &agent.tools, call, at).await?
                }
            };
            if let Told::Answer(text) = told {
                return Ok(Some(text));
            }
            let message = Message::new(Role::Tool, told.text());
            request.messages.push(Message { tool_call_id: Some(call.id.clone()), ..message });
        }
        Ok(None)
    }
}

/// The text of a model's answer, and the tool calls that it requests.
pub(super) fn read_answer(output: Option<Value>) -> (Option<String>, Vec<ToolCall>) {
    match &output {
        // If tools were available, the output holds both; otherwise it is the text alone.
        Some(Value::Map(map)) if map.contains_key("tool_calls") => {
            let text = map.get("text").and_then(Value::as_str).map(str::to_owned);
            let calls = map.get("tool_calls").map(render::json).unwrap_or_default();
            (text, serde_json::from_str(&calls).unwrap_or_default())
        }
        Some(value) => (Some(render::text(value, Style::Json)), Vec::new()),
        None => (None, Vec::new()),
    }
}
