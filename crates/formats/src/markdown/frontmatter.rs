//! The frontmatter: title, data, inputs and the system prompt.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span, find_similar_name};
use flowloom_core::plan::{Input, InputKind};
use flowloom_core::value::{Map, Value};
use serde_saphyr::Location;
use serde_saphyr::options::{MergeKeyPolicy, NonFiniteFloatPolicy};

use super::parse::TextPiece;
use super::yaml::{Yaml, find_scalar};
use crate::problems::Problems;

/// The content of the frontmatter.
#[derive(Default)]
pub(super) struct Frontmatter {
    pub(super) title: Option<String>,
    /// Constants with their spans.
    pub(super) data: Vec<(String, Value, Span)>,
    pub(super) inputs: Vec<Input>,
    pub(super) system: SystemPrompt,
}

/// The instructions in front of every conversation.
#[derive(Default)]
pub(super) enum SystemPrompt {
    /// The default instructions.
    #[default]
    Default,
    /// No instructions.
    None,
    /// The author's instructions.
    Own(String),
}

/// The keys that mean something.
const KEYS: [&str; 4] = ["title", "data", "input", "system"];

/// Limits of nesting depth and of the number of nodes.
const MAX_YAML_DEPTH: usize = 64;
const MAX_YAML_NODES: usize = 20_000;

/// The value of a YAML text, within the limits. A number that is not finite is null.
pub(super) fn parse_yaml(yaml: &str) -> Result<Value, serde_saphyr::Error> {
    parse_placed_yaml(yaml, &mut Vec::new())
}

/// The same. The places of numbers that are not finite are added to `not_finite`.
fn parse_placed_yaml(yaml: &str, not_finite: &mut Vec<Location>) -> Result<Value, serde_saphyr::Error> {
    // The parser's other rules are those of YAML 1.1.
    let mut options = serde_saphyr::options! {
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    if let Some(budget) = &mut options.budget {
        (budget.max_depth, budget.max_nodes) = (MAX_YAML_DEPTH, MAX_YAML_NODES);
    }
    let read = serde_saphyr::from_str_with_options::<Option<Yaml>>(yaml, options)?;
    Ok(read.map_or(Value::Null, |read| read.into_value(yaml, not_finite)))
}

/// The value of the text of a frontmatter. Fails with the message of the parser.
pub fn read_yaml(yaml: &str) -> Result<Value, String> {
    let mut not_finite = Vec::new();
    let value = parse_placed_yaml(yaml, &mut not_finite).map_err(|error| describe_error(error.without_snippet()))?;
    match not_finite.first() {
        Some(place) => Err(describe_number(find_scalar(yaml, place))),
        None => Ok(value),
    }
}

/// The error of a number that is not finite.
fn describe_number(written: Option<&str>) -> String {
    format!("{} is not a finite number", written.unwrap_or("a value"))
}

/// Parses the YAML that starts at `start` of a text, and reports errors.
pub(super) fn read(yaml: &str, start: usize, text: &TextPiece<'_>, problems: &mut Problems) -> Frontmatter {
    let reader = YamlReader { yaml, start, text };
    let mut not_finite = Vec::new();
    let value = match parse_placed_yaml(yaml, &mut not_finite) {
        Ok(value) => value,
        Err(error) => {
            reader.report_invalid_yaml(&error, problems);
            return Frontmatter::default();
        }
    };
    // An alias has the place of its anchor.
    let mut reported = HashSet::new();
    for place in not_finite.iter().filter(|place| reported.insert(**place)) {
        reader.report_number(place, problems);
    }
    let mut frontmatter = Frontmatter::default();
    let Value::Map(map) = &value else {
        let message = format!("the frontmatter must be names with values, not {}", value.kind_name());
        let span = reader.line_span(0);
        let problem = match value {
            Value::Null => return frontmatter,
            // Agentflow takes no notice of it.
            _ => problems.add_warning(Code::FrontmatterSyntax, span, message + "; it is ignored"),
        };
        problem.help = Some("the lines between the two --- are YAML: name: value".into());
        return frontmatter;
    };
    warn_misspelt_keys(map, &reader, problems);
    frontmatter.title = map.get("title").filter(|title| title.is_truthy()).map(plain_text);
    for (name, value) in read_entries(map.get("data"), "data", &reader, problems) {
        frontmatter.data.push((name.clone(), value, reader.key_span("data", &name)));
    }
    for (name, spec) in read_entries(map.get("input"), "input", &reader, problems) {
        let span = reader.key_span("input", &name);
        // An input that is not valid still counts as declared: its name needs no further error.
        let input =
            read_input(&name, &spec, &reader, problems).unwrap_or_else(|| Input { name, span, ..Input::default() });
        frontmatter.inputs.push(input);
    }
    frontmatter.system = match map.get("system") {
        None | Some(Value::Null) => SystemPrompt::Default,
        Some(Value::Bool(false)) => SystemPrompt::None,
        Some(Value::String(own)) if &**own == "none" => SystemPrompt::None,
        Some(Value::String(own)) => SystemPrompt::Own(own.to_string()),
        Some(other) => {
            let message = format!("system must be text, or none, not {}", other.kind_name());
            problems.add_error(Code::WrongKind, reader.key_span("", "system"), message);
            SystemPrompt::Default
        }
    };
    frontmatter
}

/// Warns about keys that seem to be misspelt ones of those that mean something. Others are allowed.
fn warn_misspelt_keys(map: &Map, reader: &YamlReader<'_>, problems: &mut Problems) {
    let absent: Vec<&str> = KEYS.into_iter().filter(|key| !map.contains_key(*key)).collect();
    for (key, _) in map.iter().filter(|(key, _)| !KEYS.contains(&&***key)) {
        if let Some(meant) = problems.find_similar(key, absent.iter().copied()) {
            let message = format!("the frontmatter has no key {key:?}");
            reader.suggest_marked(
                problems.add_warning(Code::UnknownKey, reader.key_span("", key), message),
                key,
                meant,
            );
        }
    }
}

/// A parser's error without hints to its own options.
fn describe_error(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key {key} is given twice"),
        serde_saphyr::Error::DuplicateMappingKey { key: None, .. } => "a key is given twice".to_owned(),
        error => {
            let message = error.to_string();
            // Where an alias leads to the limit, the parser wraps the error.
            if message.contains("budget breached") {
                return format!(
                    "it has more than {MAX_YAML_NODES} values, or more than {MAX_YAML_DEPTH} levels of nesting"
                );
            }
            let first = message.lines().next().unwrap_or_default();
            let first = first.split(" (set ").next().unwrap_or(first);
            let first = first.split(": set ").next().unwrap_or(first);
            first.split("; use from_").next().unwrap_or(first).to_owned()
        }
    }
}

fn read_entries(
    section: Option<&Value>,
    name: &str,
    reader: &YamlReader<'_>,
    problems: &mut Problems,
) -> Vec<(String, Value)> {
    match section {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Map(map)) => map.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
        Some(other) => {
            let message = format!("{name} must be names with values, not {}", other.kind_name());
            problems.add_error(Code::WrongKind, reader.key_span("", name), message);
            Vec::new()
        }
    }
}

/// Finds the places of keys in the YAML.
struct YamlReader<'a> {
    yaml: &'a str,
    start: usize,
    text: &'a TextPiece<'a>,
}

impl YamlReader<'_> {
    fn report_invalid_yaml(&self, error: &serde_saphyr::Error, problems: &mut Problems) {
        let line = error.location().map_or(1, |location| location.line());
        let lines_before = usize::try_from(line).unwrap_or(1).saturating_sub(1);
        let at = self.yaml.split_inclusive('\n').take(lines_before).map(str::len).sum();
        let message = format!("the frontmatter is not valid YAML: {}", describe_error(error.without_snippet()));
        // The position is that of the line that is shown.
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        problems.add_error(Code::FrontmatterSyntax, self.line_span(at), message).help =
            Some("the lines between the two --- are YAML: name: value".into());
        // The frontmatter may declare names.
        problems.distrust_names();
    }

    /// Reports a number that is not finite.
    fn report_number(&self, place: &Location, problems: &mut Problems) {
        let written = find_scalar(self.yaml, place);
        let at = place.span().byte_offset().and_then(|at| usize::try_from(at).ok());
        let span = match (at, written) {
            (Some(at), Some(written)) => self.text.file_span(self.start + at, self.start + at + written.len()),
            _ => self.line_span(0),
        };
        problems.add_error(Code::WrongKind, span, describe_number(written)).help =
            Some("write a number that is finite, or put it in quotes if it is text".into());
    }

    /// The span of the line that contains byte `at`.
    fn line_span(&self, at: usize) -> Span {
        let at = at.min(self.yaml.len());
        let length = self.yaml[at..].find('\n').unwrap_or(self.yaml.len() - at);
        self.text.file_span(self.start + at, self.start + at + length.max(1))
    }

    /// Says that `meant` is probably meant by `written`, and offers to write it if that is what is marked.
    fn suggest_marked(&self, diagnostic: &mut Diagnostic, written: &str, meant: &str) {
        let place = diagnostic.span;
        let is_marked = self.text.whole.get(place.start..place.end()) == Some(written);
        diagnostic.suggest_text_at(meant, is_marked.then_some(place));
    }

    /// The span of a key in a section, or at the top level.
    fn key_span(&self, section: &str, key: &str) -> Span {
        let from =
            if section.is_empty() { 0 } else { self.find_key(0, section).map_or(0, |at| at + section.len() + 1) };
        match self.find_key(from, key) {
            Some(at) => self.text.file_span(self.start + at, self.start + at + key.len()),
            None => self.line_span(0),
        }
    }

    /// The span of the value of a field of an input, or of the name of the input.
    fn field_span(&self, input: &str, field: Option<&str>) -> Span {
        self.find_value(input, field).unwrap_or_else(|| self.key_span("input", input))
    }

    /// The span of a key of an input, or of the name of the input.
    fn input_key_span(&self, input: &str, key: &str) -> Span {
        match self.find_field(input, key) {
            Some(at) => self.text.file_span(self.start + at, self.start + at + key.len()),
            None => self.key_span("input", input),
        }
    }

    fn find_field(&self, input: &str, field: &str) -> Option<usize> {
        let section = self.find_key(0, "input")? + "input".len();
        let place = self.find_key(section, input)? + input.len();
        self.find_key(place, field)
    }

    fn find_value(&self, input: &str, field: Option<&str>) -> Option<Span> {
        let field = field?;
        let after = self.find_field(input, field)? + field.len();
        let rest = &self.yaml[after..];
        let start = after + rest.find(|c: char| !matches!(c, ':' | ' ' | '"' | '\''))?;
        let value = &self.yaml[start..];
        let length = value.find(['\n', ',', '}', '"', '\'']).unwrap_or(value.len());
        let length = value[..length].trim_end().len();
        (length > 0).then(|| self.text.file_span(self.start + start, self.start + start + length))
    }

    fn find_key(&self, from: usize, key: &str) -> Option<usize> {
        let rest = self.yaml.get(from..)?;
        rest.match_indices(key).map(|(at, _)| from + at).find(|at| {
            let before = self.yaml[..*at].chars().next_back();
            let after = self.yaml[at + key.len()..].trim_start_matches(['"', '\'']).trim_start();
            before.is_none_or(|c| c.is_whitespace() || matches!(c, '{' | ',' | '"' | '\'')) && after.starts_with(':')
        })
    }
}

pub(super) fn plain_text(value: &Value) -> String {
    flowloom_core::render::render_text(value, flowloom_core::render::TextStyle::JavaScript)
}

const INPUT_TYPES: [&str; 4] = ["text", "select", "file", "array"];

/// The keys of the declaration of an input.
const INPUT_KEYS: [&str; 9] =
    ["type", "message", "description", "default", "required", "format", "multiline", "options", "fileType"];

/// Warns about keys that mean nothing in the declaration of an input.
fn warn_input_keys(name: &str, map: &Map, reader: &YamlReader<'_>, problems: &mut Problems) {
    let absent: Vec<&str> = INPUT_KEYS.into_iter().filter(|key| !map.contains_key(*key)).collect();
    for (key, _) in map.iter().filter(|(key, _)| !INPUT_KEYS.contains(&&***key)) {
        let meant = problems.find_similar(key, absent.iter().copied());
        let message = format!("the input {name} has no key {key:?}");
        let diagnostic = problems.add_warning(Code::UnknownKey, reader.input_key_span(name, key), message);
        match meant {
            Some(meant) => reader.suggest_marked(diagnostic, key, meant),
            None => diagnostic.help = Some(format!("the keys are {}", INPUT_KEYS.join(", "))),
        }
    }
}

/// Reads the declaration of an input.
fn read_input(name: &str, spec: &Value, reader: &YamlReader<'_>, problems: &mut Problems) -> Option<Input> {
    let text = |key: &str| spec.get(key).and_then(Value::as_str);
    if let Some(map) = spec.as_map() {
        warn_input_keys(name, map, reader, problems);
    }
    let mut wrong = |field: Option<&str>, message: String, help: &str| {
        problems.add_error(Code::InputSpec, reader.field_span(name, field), message).help = Some(help.to_owned());
    };
    let example = "write it like this: topic: {type: text, message: \"What about?\"}";
    let Some(map) = spec.as_map() else {
        wrong(None, format!("the input {name} needs a type"), example);
        return None;
    };
    let Some(kind) = text("type") else {
        wrong(None, format!("the input {name} needs a type: one of {}", INPUT_TYPES.join(", ")), example);
        return None;
    };
    let kind = match read_kind(name, kind, spec) {
        Ok(kind) => kind,
        Err(InvalidKind { field, message, help }) => {
            let span = reader.field_span(name, spec.get(field).map(|_| field));
            let diagnostic = problems.add_error(Code::InputSpec, span, message);
            match find_similar_name(kind, INPUT_TYPES) {
                Some(meant) if meant != kind => reader.suggest_marked(diagnostic, kind, meant),
                _ => diagnostic.help = Some(help),
            }
            return None;
        }
    };
    for (key, is_right, what) in [
        ("message", spec.get("message").is_none_or(|v| v.as_str().is_some()), "text"),
        ("description", spec.get("description").is_none_or(|v| v.as_str().is_some()), "text"),
        ("required", spec.get("required").is_none_or(|v| v.as_bool().is_some()), "true or false"),
        ("multiline", spec.get("multiline").is_none_or(|v| v.as_bool().is_some()), "true or false"),
    ] {
        if !is_right {
            wrong(Some(key), format!("{key} of the input {name} must be {what}"), example);
        }
    }
    let default = map.get("default").filter(|default| !matches!(default, Value::Null)).cloned();
    if let Some(problem) = default.as_ref().and_then(|default| kind.find_problem(default)) {
        let help = match &kind {
            InputKind::OneOf(_) => "give it one of its options as the default",
            _ => "give it a default of the input's own type",
        };
        wrong(Some("default"), format!("the default of the input {name} {problem}"), help);
    }
    let required = spec.get("required").and_then(Value::as_bool).unwrap_or(true) && default.is_none();
    let description = text("description").or(text("message")).map(str::to_owned);
    let labels = read_labels(spec.get("options"));
    let is_file = text("type") == Some("file");
    let span = reader.key_span("input", name);
    Some(Input { name: name.to_owned(), description, default, required, kind, is_file, labels, span })
}

/// Why an input has no kind.
struct InvalidKind {
    /// The field that is wrong.
    field: &'static str,
    message: String,
    help: String,
}

/// The kind of an input.
fn read_kind(name: &str, kind: &str, spec: &Value) -> Result<InputKind, InvalidKind> {
    let text = |key: &str| spec.get(key).and_then(Value::as_str);
    let wrong = |field, message: String, help: &str| Err(InvalidKind { field, message, help: help.to_owned() });
    Ok(match kind {
        "text" => match spec.get("format").map(|format| format.as_str().unwrap_or_default()) {
            None => InputKind::Text,
            Some("number") => InputKind::Number,
            Some("boolean") => InputKind::Boolean,
            Some(_) => {
                let message = format!("the format of the input {name} is not known");
                return wrong("format", message, "write format: number or format: boolean");
            }
        },
        "number" | "boolean" => {
            let help = format!("write {name}: {{type: text, format: {kind}}}");
            return wrong("type", format!("the input {name} has the unknown type {kind}"), &help);
        }
        "array" => InputKind::List,
        "select" => match read_options(spec.get("options")) {
            Some(options) => InputKind::OneOf(options),
            None if spec.get("options").and_then(Value::as_list).is_some_and(|list| !list.is_empty()) => {
                let message = format!("an option of the input {name} has a value that is not text");
                return wrong(
                    "options",
                    message,
                    "write options as strings, or as {name, value} with a string as the value",
                );
            }
            None => {
                let help = "give it options: [dry, warm], or entries {name, value}";
                return wrong("options", format!("the input {name} is a select and needs a list of options"), help);
            }
        },
        "file" => match text("fileType") {
            Some("text") => InputKind::Text,
            Some("image") => InputKind::File,
            given => {
                let message = match given {
                    Some(given) => format!("the input {name} has the unknown fileType {given:?}"),
                    None => format!("the input {name} is a file and needs a fileType"),
                };
                return wrong("fileType", message, "write fileType: text or fileType: image");
            }
        },
        other => {
            let message = format!("the input {name} has the unknown type {other}");
            return wrong("type", message, &format!("the types are {}", INPUT_TYPES.join(", ")));
        }
    })
}

fn read_options(value: Option<&Value>) -> Option<Vec<String>> {
    let option = |option: &Value| match option {
        Value::Map(map) => map.get("value").and_then(Value::as_str).map(str::to_owned),
        Value::List(_) | Value::Null | Value::Blob(_) => None,
        plain_value => Some(plain_text(plain_value)),
    };
    let options: Option<Vec<String>> = value?.as_list()?.iter().map(option).collect();
    options.filter(|options| !options.is_empty())
}

/// The names of options, if any has one.
fn read_labels(value: Option<&Value>) -> Vec<String> {
    let label = |option: &Value| match option {
        Value::Map(map) => plain_text(map.get("name").or_else(|| map.get("value")).unwrap_or(&Value::Null)),
        plain_value => plain_text(plain_value),
    };
    let options = value.and_then(Value::as_list).unwrap_or_default();
    let has_names = options.iter().any(|option| option.get("name").is_some());
    if has_names { options.iter().map(label).collect() } else { Vec::new() }
}
