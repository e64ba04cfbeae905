//! The inputs of a definition, and their conversion to variables.

use std::sync::Arc;

use crate::code::Code;
use crate::diagnostic::{Span, find_similar_name};
use crate::error::StepFailure;
use crate::image::find_image_problem;
use crate::value::{Blob, Map, Number, Value};

/// How inputs become variables.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// Each input is a variable; inputs that are not supplied take their defaults.
    Named {
        /// The declared inputs.
        declared: Vec<Input>,
        /// Variables set before the first step; supplied inputs override them.
        defaults: Map,
        /// Whether other inputs become variables, too; otherwise a run with one is rejected.
        accepts_others: bool,
    },
    /// The whole input value is one variable.
    Whole(Arc<str>),
}

/// A declared input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input {
    /// The name.
    pub name: String,
    /// A description for people and models.
    pub description: Option<String>,
    /// The value if none is supplied.
    pub default: Option<Value>,
    /// Whether a run without the input is rejected.
    pub required: bool,
    /// The kind of value accepted.
    pub kind: InputKind,
    /// Whether people give it as a file: they type a path or an address, and the value is its content.
    pub is_file: bool,
    /// Labels shown instead of the options of [`InputKind::OneOf`], in their order; empty to show the options.
    pub labels: Vec<String>,
    /// Its place in the source.
    pub span: Span,
}

/// The kind of value that an input accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum InputKind {
    /// Anything.
    #[default]
    Any,
    /// Text; a file is replaced by its content.
    Text,
    /// A number, or text that is one.
    Number,
    /// A Boolean, or the text `true` or `false`.
    Boolean,
    /// A list.
    List,
    /// A file that models are sent as an image.
    File,
    /// One of these texts.
    OneOf(Vec<String>),
}

impl Inputs {
    /// All reasons to reject a run with these inputs: missing inputs (`FL1031`), ones of the wrong kind, or ones that there
    /// are not (`FL1038`, also together with missing ones). `None` if the inputs are valid.
    pub fn check_inputs(&self, given: &Value) -> Option<StepFailure> {
        let Inputs::Named { declared, .. } = self else { return None };
        let unknown = given.as_map().into_iter().flat_map(Map::keys).filter(|name| !self.accepts(name));
        let unknown = unknown.map(|name| self.describe_unknown(name));
        let invalid = declared.iter().filter_map(|input| {
            let problem = input.kind.find_problem(given.get(&input.name)?)?;
            Some(format!("the input {} {problem}", input.name))
        });
        let mut reasons: Vec<String> = unknown.chain(invalid).take(MAX_REASONS).collect();
        let code = if reasons.is_empty() { Code::InputMissing } else { Code::InputInvalid };
        reasons.extend(describe_missing(&self.find_missing(given)));
        (!reasons.is_empty()).then(|| StepFailure::new(code, reasons.join("; ")))
    }

    /// The inputs of a run that is given none. A whole input that is null is missing.
    pub fn none_given(&self) -> Value {
        match self {
            Inputs::Whole(_) => Value::Null,
            Inputs::Named { .. } => Map::new().into(),
        }
    }

    /// The reason to reject inputs from outside that would be ignored, because they have no names. A workflow that takes no
    /// inputs ignores what it is given, and so does one that another workflow runs with a text. `None` if they are valid.
    pub fn check_names(&self, given: &Value) -> Option<StepFailure> {
        let Inputs::Named { declared, .. } = self else { return None };
        if given.as_map().is_some() || *given == Value::Null || declared.is_empty() {
            return None;
        }
        let message = format!("the inputs must be an object of inputs by name, not {}", given.kind_name());
        Some(StepFailure::new(Code::InputInvalid, message))
    }

    /// The names of the required inputs that are not given.
    pub fn find_missing(&self, given: &Value) -> Vec<&str> {
        let Inputs::Named { declared, .. } = self else { return Vec::new() };
        let is_missing = |input: &&Input| input.required && given.get(&input.name).is_none();
        declared.iter().filter(is_missing).map(|input| input.name.as_str()).collect()
    }
}

/// Maximum number of unknown and wrong inputs that an error names.
const MAX_REASONS: usize = 20;

/// The message that names all missing inputs.
fn describe_missing(missing: &[&str]) -> Option<String> {
    match missing {
        [] => None,
        [name] => Some(format!("the input {name} is required")),
        names => Some(format!("the inputs {} are required", names.join(", "))),
    }
}

impl Inputs {
    /// Whether an input with this name may be given.
    fn accepts(&self, name: &str) -> bool {
        match self {
            Inputs::Named { declared, defaults, accepts_others } => {
                *accepts_others || defaults.contains_key(name) || declared.iter().any(|input| input.name == name)
            }
            Inputs::Whole(_) => true,
        }
    }

    /// That there is no such input, and which ones there are.
    pub fn describe_unknown(&self, name: &str) -> String {
        let Inputs::Named { declared, .. } = self else { return format!("there is no input {name}") };
        let names = || declared.iter().map(|input| input.name.as_str());
        match find_similar_name(name, names()) {
            Some(meant) => format!("there is no input {name}; did you mean {meant}?"),
            None if declared.is_empty() => format!("there is no input {name}: this workflow takes none"),
            None => format!("there is no input {name}; the inputs are {}", names().collect::<Vec<_>>().join(", ")),
        }
    }

    /// The inputs without those that would be rejected as unknown, for senders that do not know the workflow.
    pub fn keep_accepted(&self, given: Value) -> Value {
        match given.as_map() {
            Some(map) if map.keys().any(|name| !self.accepts(name)) => {
                let accepted = map.iter().filter(|(name, _)| self.accepts(name));
                accepted.map(|(name, value)| (name.clone(), value.clone())).collect::<Map>().into()
            }
            _ => given,
        }
    }
}

impl InputKind {
    /// The reason why a value is not accepted; `None` if it is.
    pub fn find_problem(&self, value: &Value) -> Option<String> {
        let must = |what: &str| Some(format!("must be {what}, not {}", value.kind_name()));
        match (self, value) {
            (InputKind::Any, _)
            | (InputKind::Text, Value::String(_) | Value::Number(_) | Value::Bool(_))
            | (InputKind::Number, Value::Number(_))
            | (InputKind::Boolean, Value::Bool(_))
            | (InputKind::List, Value::List(_)) => None,
            (InputKind::Text, file) if read_blob(file).is_some_and(|blob| blob.decode_text().is_some()) => None,
            (InputKind::Text, file) if read_blob(file).is_some() => Some("must be a file of UTF-8 text".into()),
            (InputKind::Text, _) => must("text"),
            (InputKind::Number, Value::String(text)) if Number::parse(text.trim()).is_some() => None,
            (InputKind::Number, _) => must("a number"),
            (InputKind::Boolean, Value::String(text)) if matches!(&**text, "true" | "false") => None,
            (InputKind::Boolean, _) => must("true or false"),
            (InputKind::List, _) => must("a list"),
            (InputKind::File, file) => match read_blob(file) {
                Some(blob) => {
                    let problem = find_image_problem(&blob.name, &blob.mime, &blob.data)?;
                    Some(format!("is not valid: {problem}"))
                }
                None => must("a file"),
            },
            (InputKind::OneOf(options), Value::String(text)) if options.iter().any(|option| **option == **text) => None,
            (InputKind::OneOf(options), value) => {
                let given = crate::render::to_json(value);
                Some(format!("must be one of {}, not {given}", options.join(", ")))
            }
        }
    }

    /// The value in the form that its variable holds.
    pub fn read(&self, value: &Value) -> Value {
        match (self, value) {
            (InputKind::Text, Value::Number(_) | Value::Bool(_)) => crate::render::to_json(value).into(),
            (InputKind::Text, file) => {
                let text = read_blob(file).and_then(|blob| blob.decode_text());
                text.map_or_else(|| file.clone(), Value::from)
            }
            (InputKind::Number, Value::String(text)) => {
                Number::parse(text.trim()).map_or_else(|| value.clone(), Value::Number)
            }
            (InputKind::Boolean, Value::String(text)) => (&**text == "true").into(),
            (InputKind::File, file) => read_blob(file).map_or_else(|| file.clone(), |blob| Value::Blob(Arc::new(blob))),
            _ => value.clone(),
        }
    }
}

fn read_blob(value: &Value) -> Option<Blob> {
    match value {
        Value::Blob(blob) => Some((**blob).clone()),
        other => Blob::from_input(other),
    }
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
        assert_eq!(
            InputKind::File.find_problem(&file).as_deref(),
            Some("is not valid: a.txt is text/plain; expected an image, such as image/png")
        );
        let colours = InputKind::OneOf(vec!["red".into()]);
        assert!(colours.find_problem(&"red".into()).is_none());
        for (kind, wrong) in [
            (colours, "blue"),
            (InputKind::Number, "x"),
            (InputKind::Boolean, "yes"),
            (InputKind::List, "a"),
            (InputKind::File, "a.png"),
        ] {
            assert!(kind.find_problem(&wrong.into()).is_some(), "{kind:?}");
        }
        let declared = vec![Input { name: "n".into(), kind: InputKind::Number, required: true, ..Input::default() }];
        let inputs = Inputs::Named { declared, defaults: Map::new(), accepts_others: false };
        let code = |given: Value| inputs.check_inputs(&given).map(|error| error.code);
        assert_eq!(code(Value::Null), Some(Code::InputMissing));
        let two = ["a", "b"].map(|name| Input { name: name.into(), required: true, ..Input::default() });
        let inputs = Inputs::Named { declared: two.to_vec(), defaults: Map::new(), accepts_others: false };
        let text = inputs.check_names(&"Oslo".into()).map(|error| error.message);
        assert_eq!(text.as_deref(), Some("the inputs must be an object of inputs by name, not text"));
        assert_eq!(inputs.check_names(&Value::Null), None);
        let missing = inputs.check_inputs(&Value::Null).map(|error| error.message);
        assert_eq!(missing.as_deref(), Some("the inputs a, b are required"));
        assert_eq!(code(Value::map([("n", Value::from("x"))])), Some(Code::InputInvalid));
        assert_eq!(code(Value::map([("n", Value::from(1))])), None);
    }

    #[test]
    fn unknown_inputs_are_refused_with_a_suggestion() {
        let declared = vec![Input { name: "topic".into(), ..Input::default() }];
        let closed = Inputs::Named { declared: declared.clone(), defaults: Map::new(), accepts_others: false };
        let given = Value::map([("topc", Value::from("dogs"))]);
        let error = closed.check_inputs(&given).expect("an error");
        assert_eq!(error.code, Code::InputInvalid);
        assert_eq!(error.message, "there is no input topc; did you mean topic?");
        assert_eq!(closed.describe_unknown("x"), "there is no input x; the inputs are topic");
        assert_eq!(closed.keep_accepted(given.clone()), Value::map::<&str>([]));
        let open = Inputs::Named { declared, defaults: Map::new(), accepts_others: true };
        assert_eq!((open.check_inputs(&given), open.keep_accepted(given.clone())), (None, given));
    }
}
