//! What a definition can be given, and how that becomes variables.

use std::sync::Arc;

use crate::code::Code;
use crate::error::StepError;
use crate::value::{Blob, Map, Number, Value};

/// How inputs become variables.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// Each input is a variable; defaults stand where none is given.
    Named {
        /// The declared inputs.
        declared: Vec<Input>,
        /// Variables set before the first step, under the given inputs.
        defaults: Map,
    },
    /// Whatever is given is one variable.
    Whole(Arc<str>),
}

/// A declared input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it is, for people and models.
    pub description: Option<String>,
    /// The value when none is given.
    pub default: Option<Value>,
    /// Whether a run without it is refused.
    pub required: bool,
    /// What it can be.
    pub kind: InputKind,
}

/// What an input can be.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum InputKind {
    /// Anything.
    #[default]
    Any,
    /// Text; a file stands for what it holds.
    Text,
    /// A number, or text that is one.
    Number,
    /// True or false, or text that says so.
    Boolean,
    /// A list.
    List,
    /// A file.
    File,
    /// One of these texts.
    OneOf(Vec<String>),
}

impl Inputs {
    /// Why a run with these inputs is refused; nothing if it is not.
    pub fn refuse(&self, given: &Value) -> Option<StepError> {
        let Inputs::Named { declared, .. } = self else { return None };
        declared.iter().find_map(|input| {
            let name = &input.name;
            match given.get(name) {
                None if input.required => {
                    let message = format!("the input {name} is required; give it with -i {name}=…");
                    Some(StepError::new(Code::InputMissing, message))
                }
                None => None,
                Some(value) => {
                    let problem = input.kind.problem(value)?;
                    Some(StepError::new(Code::InputInvalid, format!("the input {name} {problem}")))
                }
            }
        })
    }
}

impl InputKind {
    /// What is wrong with a value; nothing if it fits.
    pub fn problem(&self, value: &Value) -> Option<String> {
        let must = |what: &str| Some(format!("must be {what}, not {}", value.kind()));
        match (self, value) {
            (InputKind::Any, _)
            | (InputKind::Text, Value::String(_) | Value::Number(_) | Value::Bool(_))
            | (InputKind::Number, Value::Number(_))
            | (InputKind::Boolean, Value::Bool(_))
            | (InputKind::List, Value::List(_)) => None,
            (InputKind::Text, file) if file_of(file).is_some_and(|blob| decoded(&blob).is_some()) => None,
            (InputKind::Text, file) if file_of(file).is_some() => Some("must be a file of UTF-8 text".into()),
            (InputKind::Text, _) => must("text"),
            (InputKind::Number, Value::String(text)) if Number::parse(text.trim()).is_some() => None,
            (InputKind::Number, _) => must("a number"),
            (InputKind::Boolean, Value::String(text)) if matches!(&**text, "true" | "false") => None,
            (InputKind::Boolean, _) => must("true or false"),
            (InputKind::List, _) => must("a list"),
            (InputKind::File, file) if file_of(file).is_some() => None,
            (InputKind::File, _) => must("a file"),
            (InputKind::OneOf(options), Value::String(text)) if options.iter().any(|option| **option == **text) => None,
            (InputKind::OneOf(options), value) => {
                let given = crate::render::json(value);
                Some(format!("must be one of {}, not {given}", options.join(", ")))
            }
        }
    }

    /// The value as its variable has it.
    pub fn read(&self, value: &Value) -> Value {
        match (self, value) {
            (InputKind::Text, Value::Number(_) | Value::Bool(_)) => crate::render::json(value).into(),
            (InputKind::Text, file) => {
                let text = file_of(file).and_then(|blob| decoded(&blob));
                text.map_or_else(|| file.clone(), Value::from)
            }
            (InputKind::Number, Value::String(text)) => {
                Number::parse(text.trim()).map_or_else(|| value.clone(), Value::Number)
            }
            (InputKind::Boolean, Value::String(text)) => (&**text == "true").into(),
            (InputKind::File, file) => file_of(file).map_or_else(|| file.clone(), |blob| Value::Blob(Arc::new(blob))),
            _ => value.clone(),
        }
    }
}

fn file_of(value: &Value) -> Option<Blob> {
    match value {
        Value::Blob(blob) => Some((**blob).clone()),
        other => Blob::from_input(other),
    }
}

/// The text that a file holds.
fn decoded(blob: &Blob) -> Option<String> {
    let mut bytes = Vec::with_capacity(blob.data.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in blob.data.bytes().filter(|byte| !matches!(byte, b'=' | b'\n' | b'\r')) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_held_to_their_kind() {
        let file = Value::map([(
            "$file",
            Value::map([("name", Value::from("a.txt")), ("mime", "text/plain".into()), ("base64", "YsOkaA==".into())]),
        )]);
        assert_eq!(InputKind::Text.read(&file), Value::from("b\u{e4}h"));
        assert_eq!(InputKind::Number.read(&"5".into()), Value::from(5));
        assert_eq!(InputKind::Boolean.read(&"true".into()), Value::from(true));
        assert!(matches!(InputKind::File.read(&file), Value::Blob(_)));
        let colours = InputKind::OneOf(vec!["red".into()]);
        assert!(colours.problem(&"red".into()).is_none());
        for (kind, wrong) in [
            (colours, "blue"),
            (InputKind::Number, "x"),
            (InputKind::Boolean, "yes"),
            (InputKind::List, "a"),
            (InputKind::File, "a.png"),
        ] {
            assert!(kind.problem(&wrong.into()).is_some(), "{kind:?}");
        }
        let declared = vec![Input { name: "n".into(), kind: InputKind::Number, required: true, ..Input::default() }];
        let inputs = Inputs::Named { declared, defaults: Map::new() };
        let code = |given: Value| inputs.refuse(&given).map(|error| error.code);
        assert_eq!(code(Value::Null), Some(Code::InputMissing));
        assert_eq!(code(Value::map([("n", Value::from("x"))])), Some(Code::InputInvalid));
        assert_eq!(code(Value::map([("n", Value::from(1))])), None);
    }
}
