//! Arguments of a call in which secrets are still names, so that each secret is encoded, and later redacted, where its
//! value is used.
//!
//! [`Payload`](flowloom_core::effect::Payload) defines where arguments come from.

use flowloom_core::effect::{Arguments, Payload, PromptArgument, SecretMarks};
use flowloom_core::render;
use flowloom_core::rich::Rich;
use flowloom_core::value::{Map, Value};

use super::error::FunctionError;

/// The arguments of a built-in function.
pub(super) struct CallArguments {
    map: Map,
    marks: SecretMarks,
}

impl CallArguments {
    /// Reads the arguments in `payload` of a function whose only required argument is `required`.
    pub(super) fn from_payload(payload: &Payload, required: &str) -> CallArguments {
        let arguments = payload.read_arguments(required);
        let text = match &arguments {
            Arguments::Values(map) | Arguments::Variables(map) => {
                return CallArguments { map: map.clone(), marks: SecretMarks::absent_from(&[]) };
            }
            Arguments::Marked(marked) => {
                return CallArguments { map: marked.map.clone(), marks: marked.marks.clone() };
            }
            Arguments::Object(text) | Arguments::Prompt(PromptArgument { text, .. }) => text,
        };
        if !text.has_secrets() {
            return CallArguments { map: arguments.to_redacted_map(), marks: SecretMarks::absent_from(&[]) };
        }
        // The mark must also be absent from the parsed values, where an escape may produce text that the source does
        // not contain.
        let read = render::to_json(&arguments.to_redacted_map().into());
        let mut marks = SecretMarks::absent_from(&[&text.to_redacted_text(), &read]);
        let with_marks = Rich::from(marks.mark_secrets(text).as_str());
        let map = match arguments {
            Arguments::Prompt(prompt) => {
                Arguments::Prompt(PromptArgument { text: with_marks, ..prompt }).to_redacted_map()
            }
            _ => Arguments::Object(with_marks).to_redacted_map(),
        };
        CallArguments { map, marks }
    }

    fn to_rich(&self, text: &str) -> Rich {
        self.marks.restore_secrets(text)
    }

    /// An argument as text: a string as it is, anything else as JSON. `None` if it is missing or null.
    pub(super) fn text_argument(&self, name: &str) -> Option<Rich> {
        match self.map.get(name)? {
            Value::Null => None,
            Value::String(text) => Some(self.to_rich(text)),
            other => Some(self.to_rich(&render::to_json(other))),
        }
    }

    /// A required argument.
    pub(super) fn required_argument(
        &self,
        function: &'static str,
        argument: &'static str,
    ) -> Result<Rich, FunctionError> {
        self.text_argument(argument).ok_or(FunctionError::ArgumentMissing { function, argument })
    }

    /// An argument's value; its strings may contain marks.
    pub(super) fn value_argument(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| **value != Value::Null)
    }

    /// The entries of an object argument as text.
    pub(super) fn object_entries(&self, name: &str) -> Option<Vec<(String, Rich)>> {
        let text = |value: &Value| match value {
            Value::String(text) => self.to_rich(text),
            other => self.to_rich(&render::to_json(other)),
        };
        let map = self.value_argument(name)?.as_map()?;
        Some(map.iter().map(|(key, value)| (self.to_rich(key).to_redacted_text(), text(value))).collect())
    }
}

/// The whole payload as JSON text; its secrets stay names.
pub(super) fn payload_json(payload: &Payload) -> Rich {
    if let Some(marked) = &payload.marked {
        return marked.marks.restore_secrets(&render::to_json(&marked.map.clone().into()));
    }
    let plain = payload.to_value();
    let Some(prompt) = payload.prompt.as_ref().filter(|prompt| prompt.has_secrets()) else {
        return render::to_json(&plain).as_str().into();
    };
    let mut marks = SecretMarks::absent_from(&[&render::to_json(&plain)]);
    let with_marks = marks.mark_secrets(prompt);
    let mut map = plain.as_map().cloned().unwrap_or_default();
    map.insert("prompt".into(), with_marks.into());
    marks.restore_secrets(&render::to_json(&map.into()))
}
