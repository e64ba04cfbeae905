//! Checks the inputs that a node gives to its block.

use std::collections::HashSet;

use flowloom_core::block_inputs::describe_wanted;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, Template, TemplatePart};
use flowloom_core::json::Node;
use flowloom_core::value::{Map, Value};

use super::blocks::BlockDefinition;
use super::template;
use crate::functions::fills_secrets;
use crate::problems::Problems;

/// The function that sends a request.
const HTTP_REQUEST: &str = "tool::http_request";

/// The inputs of a node.
pub(super) struct NodeInputs<'a> {
    /// The node.
    pub(super) node: &'a str,
    /// Where it names its block.
    pub(super) span: Span,
    pub(super) block: &'a BlockDefinition,
    pub(super) inputs: &'a [(String, Data, Span)],
    /// The inputs as they are written.
    pub(super) written: Option<&'a Node>,
}

/// The value of an input without references.
fn written_value(data: &Data) -> Option<Value> {
    match data {
        Data::Constant(value) => Some(value.clone()),
        Data::Text(text) => text.as_literal().map(Value::from),
        Data::List(items) => items.iter().map(written_value).collect::<Option<Vec<_>>>().map(Value::list),
        Data::Map(entries) => {
            let entries = entries.iter().map(|(key, data)| Some((key.clone(), written_value(data)?)));
            Some(entries.collect::<Option<Map>>()?.into())
        }
    }
}

impl NodeInputs<'_> {
    /// Reports inputs that are missing, unknown, or may not contain a secret.
    pub(super) fn check(&self, problems: &mut Problems) {
        let misspelt = self.report_missing(problems);
        self.warn_empty(problems);
        self.warn_unknown(&misspelt, problems);
        self.warn_unfitting(problems);
        self.report_secrets(problems);
    }

    /// The place of the key of an input.
    fn find_key(&self, name: &str) -> Option<Span> {
        let mut entries = self.written?.entries().iter();
        entries.find(|(key, _, _)| key == name).map(|(_, span, _)| *span)
    }

    fn given_names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|(name, _, _)| name.as_str())
    }

    /// Reports required inputs that are missing and have no default. Returns the names that seem to be misspelt ones of these.
    fn report_missing(&self, problems: &mut Problems) -> HashSet<String> {
        let mut misspelt = HashSet::new();
        if self.block.is_trigger() {
            return misspelt;
        }
        let given: HashSet<&str> = self.given_names().collect();
        for name in self.block.required_inputs().iter().filter(|name| !given.contains(name.as_str())) {
            let message = format_args!(
                "the node {} does not set {name:?}, which the block {} requires",
                self.node, self.block.id
            );
            let meant = problems.find_similar(name, self.given_names()).map(str::to_owned);
            let diagnostic = problems.add_error(Code::InputNotGiven, self.span, message);
            if let Some(meant) = &meant {
                diagnostic.suggest_text_at(&format!("{name:?}"), self.find_key(meant));
            }
            diagnostic.help = Some(match &meant {
                Some(meant) => format!("if {meant:?} is this input, rename it"),
                None if self.block.all_inputs().is_some_and(|declared| !declared.contains_key(name.as_str())) => {
                    format!(
                        "the schema of the block requires {name:?} without declaring it in \"properties\"; correct it"
                    )
                }
                None => format!("add {name:?} to its inputs"),
            });
            misspelt.extend(meant);
        }
        misspelt
    }

    /// Warns about required inputs that are an empty text, as a form leaves them.
    fn warn_empty(&self, problems: &mut Problems) {
        let is_required = |name: &String| self.block.required_inputs().contains(name);
        let is_empty = |data: &Data| written_value(data).is_some_and(|value| value.as_str() == Some(""));
        for (name, _, span) in self.inputs.iter().filter(|(name, data, _)| is_required(name) && is_empty(data)) {
            let message = format_args!(
                "the node {} sets an empty {name:?}, which the block {} requires",
                self.node, self.block.id
            );
            problems.add_warning(Code::InputNotGiven, *span, message).help =
                Some("give a value, or refer to an output of an earlier node".to_owned());
        }
    }

    /// Warns about inputs that the block does not declare, which it would ignore. Those in `reported` are part of other
    /// problems.
    fn warn_unknown(&self, reported: &HashSet<String>, problems: &mut Problems) {
        let Some(declared) = self.block.all_inputs() else { return };
        let is_unknown = |name: &String| !declared.contains_key(name.as_str()) && !reported.contains(name);
        for (name, _, span) in self.inputs.iter().filter(|(name, _, _)| is_unknown(name)) {
            let message = format_args!("the block {} has no input {name:?}", self.block.id);
            let names: Vec<&str> = declared.keys().map(|name| &**name).collect();
            let meant = problems.find_similar(name, names.iter().copied());
            let diagnostic = problems.add_warning(Code::UnknownKey, *span, message);
            match meant {
                Some(meant) => diagnostic.suggest_text_at(&format!("{meant:?}"), self.find_key(name)),
                None => diagnostic.help = Some(format!("it has {}", names.join(", "))),
            }
        }
    }

    /// Warns about values that the schema of the block refuses.
    fn warn_unfitting(&self, problems: &mut Problems) {
        let Some(declared) = self.block.declared_inputs() else { return };
        for (name, data, span) in self.inputs {
            // Null means that the input is not given.
            let Some(value) = written_value(data).filter(|value| *value != Value::Null) else { continue };
            let property = declared.get(name.as_str());
            let Some(wanted) = property.and_then(|property| describe_wanted(&value, property)) else { continue };
            let message = format_args!("the input {name:?} does not fit the block {}", self.block.id);
            problems.add_warning(Code::WrongKind, *span, message).help = Some(format!("expected {wanted}"));
        }
    }

    /// Reports secrets in inputs of blocks that cannot keep them, and in the parts of a request that show them.
    fn report_secrets(&self, problems: &mut Problems) {
        let function = self.block.function_id();
        for (input, data, span) in self.inputs {
            let Some(name) = self.find_misplaced_secret(function, input, data) else { continue };
            let message =
                format!("the secret {name} cannot be in the input {input:?} of the block {:?}", self.block.id);
            problems.add_error(Code::SecretPlace, *span, message).help = Some(match function {
                Some(HTTP_REQUEST) => {
                    "secrets can be in the query of the URL, in header values and in the body".to_owned()
                }
                _ => "secrets can be in the inputs of blocks that send requests, such as http_request".to_owned(),
            });
        }
    }

    /// A secret of an input that the block does not fill in at that place.
    fn find_misplaced_secret(&self, function: Option<&str>, input: &str, data: &Data) -> Option<String> {
        match (function, input, data) {
            (Some(HTTP_REQUEST), "url", Data::Text(url)) => find_secret_before_query(url),
            (Some(HTTP_REQUEST), "headers", Data::Map(headers)) => {
                headers.iter().find_map(|(name, _)| template::parse(name).iter_secrets().next().map(str::to_owned))
            }
            (Some(HTTP_REQUEST), "method", data) => data.first_secret(),
            (Some(function), _, _) if fills_secrets(function) => None,
            (_, _, data) => data.first_secret(),
        }
    }
}

/// The first secret in the part of a URL that names the host and the path.
fn find_secret_before_query(url: &Template) -> Option<String> {
    let is_before = |part: &&TemplatePart| !matches!(part, TemplatePart::Text(text) if text.contains('?'));
    url.parts.iter().take_while(is_before).find_map(|part| match part {
        TemplatePart::Secret(name) => Some(name.to_string()),
        _ => None,
    })
}
