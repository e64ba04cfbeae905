//! What a run starts with.

use super::env::{Env, Vars};
use super::input::{InputKind, Inputs};
use super::step::Plan;
use crate::chat::{Message, close_open_calls, read_user_message};
use crate::code::Code;
use crate::error::StepFailure;
use crate::value::Value;

impl Plan {
    /// The reason to reject a run with these inputs; `None` if they are valid.
    pub fn check_inputs(&self, inputs: &Value) -> Option<StepFailure> {
        let message = self.thread.as_ref().and_then(|_| inputs.get("message")).map(read_user_message);
        let problem = message.and_then(Result::err).map(|problem| StepFailure::new(Code::InputInvalid, problem));
        problem.or_else(|| self.inputs.check_inputs(inputs))
    }

    /// The environment at the start of a run: its variables, and the conversation that it continues.
    pub fn initial_env(&self, inputs: &Value) -> Env {
        let mut env = Env::from_vars(self.initial_vars(inputs));
        if let Some(thread) = &self.thread {
            let messages = inputs.get("messages").map(crate::render::to_json).unwrap_or_default();
            let messages: Vec<Message> = serde_json::from_str(&messages).unwrap_or_default();
            // What is no message was refused before the run.
            let new = inputs.get("message").and_then(|message| read_user_message(message).ok());
            let messages = close_open_calls(messages.into_iter().chain(new));
            messages.into_iter().for_each(|message| env.append_message(thread, message));
        }
        env
    }

    /// The variables at the start of a run.
    pub fn initial_vars(&self, inputs: &Value) -> Vars {
        let mut vars = Vars::default();
        match &self.inputs {
            Inputs::Whole(name) => vars.set(name.clone(), inputs.clone()),
            Inputs::Named { declared, defaults, .. } => {
                let mut map = defaults.clone();
                map.extend(inputs.as_map().cloned().unwrap_or_default());
                for input in declared.iter().filter(|input| input.kind != InputKind::Any) {
                    if let Some(value) = map.get_mut(input.name.as_str()) {
                        *value = input.kind.read(value);
                    }
                }
                map.into_iter().for_each(|(name, value)| vars.set(name, value));
            }
        }
        vars
    }
}
