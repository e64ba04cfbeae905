//! The initial variables of a run.

use super::env::{Env, Vars};
use super::input::{InputKind, Inputs};
use super::step::Plan;
use crate::chat::{Message, MessagePart, close_open_calls, find_wrong_type, read_messages, read_user_message};
use crate::code::Code;
use crate::error::StepFailure;
use crate::image::find_image_problem;
use crate::value::Value;

impl Plan {
    /// The reason to reject a run with these inputs; `None` if they are valid.
    pub fn check_inputs(&self, inputs: &Value) -> Option<StepFailure> {
        let problem = self.thread.as_ref().and_then(|_| find_conversation_problem(inputs));
        let problem = problem.map(|problem| StepFailure::new(Code::InputInvalid, problem));
        problem.or_else(|| self.inputs.check_inputs(inputs))
    }

    /// The environment at the start of a run: its variables, and the conversation that it continues.
    pub fn initial_env(&self, inputs: &Value) -> Env {
        let mut env = Env::from_vars(self.initial_vars(inputs));
        if let Some(thread) = &self.thread {
            // Invalid messages were refused before the run.
            let messages = find_messages(inputs).and_then(|messages| read_messages(messages).ok()).unwrap_or_default();
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
            // Without an input there is no such variable.
            Inputs::Whole(_) if *inputs == Value::Null => {}
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

/// The conversation that the inputs hold.
fn find_messages(inputs: &Value) -> Option<&Value> {
    inputs.get("messages").filter(|messages| **messages != Value::Null)
}

/// The problem with the messages among the inputs, if there is one.
fn find_conversation_problem(inputs: &Value) -> Option<String> {
    let earlier = find_messages(inputs).map(read_messages);
    let Some(message) = inputs.get("message") else {
        return match earlier? {
            Ok(messages) => messages.iter().enumerate().find_map(|(index, message)| {
                find_wrong_image(message).map(|problem| format!("messages[{index}]: {problem}"))
            }),
            Err(problem) => Some(problem),
        };
    };
    match read_user_message(message) {
        // The images of earlier messages were accepted with them.
        Ok(read) => find_wrong_image(&read).or_else(|| find_wrong_type(message)).or_else(|| earlier?.err()),
        Err(problem) => Some(problem),
    }
}

/// The problem with an image of a message that models would refuse, if there is one.
fn find_wrong_image(message: &Message) -> Option<String> {
    message.parts.iter().find_map(|part| match part {
        MessagePart::Image { mime, data, name } => find_image_problem(name, mime, data),
        MessagePart::Text { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_a_conversation_are_checked() {
        let image = |mime: &str, base64: &str| {
            let url = format!("data:{mime};base64,{base64}");
            let part = Value::map([("type", Value::from("image_url")), ("image_url", Value::from(url))]);
            Value::map([("role", Value::from("user")), ("content", Value::list(vec![part]))])
        };
        let given = |message: Value| Value::map([("messages", Value::list(vec![message]))]);
        assert_eq!(find_conversation_problem(&given(image("image/png", "iVBORw0KGgo="))), None);
        assert_eq!(
            find_conversation_problem(&given(image("image/png", "aGVsb"))).as_deref(),
            Some("messages[0]: the image is not encoded in base64; give the bytes of the file in base64")
        );
        let file = [("name", "a.png"), ("mime", "image/png"), ("base64", "aGVsb")];
        let file = Value::map([("$file", Value::map(file.map(|(key, text)| (key, Value::from(text)))))]);
        let message = Value::map([("message", Value::list(vec!["look".into(), file]))]);
        assert_eq!(
            find_conversation_problem(&message).as_deref(),
            Some("a.png is not encoded in base64; give the bytes of the file in base64")
        );
    }
}
