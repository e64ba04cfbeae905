//! Text with references, parsed once by a format and resolved here.
//!
//! No format ever rescans inserted values: a template is a list of parts, and only the parser of a format creates
//! references.

use std::fmt;
use std::sync::Arc;

use crate::code::Code;
use crate::error::StepFailure;
use crate::expr::Expr;
use crate::render::{self, TextStyle};
use crate::rich::Rich;
use crate::text_size::{MAX_TEXT_BYTES, check_text_size};
use crate::value::{Map, Value};

/// A scope in which references are resolved.
pub trait Lookup {
    /// The value of a name; `None` if the name does not exist.
    fn lookup_name(&self, name: &str) -> Option<&Value>;

    /// The result of a script by its slot (inner `None`: `undefined`); `None` if it was not evaluated.
    fn lookup_script(&self, _slot: &str) -> Option<&Option<Value>> {
        None
    }

    /// Called with each reference that has no value, unless that is an error.
    fn report_missing(&self, _reference: &Ref) {}

    /// Called with each expression in a text whose value is `undefined`.
    fn report_undefined(&self, _expr: &Expr) {}
}

impl Lookup for Map {
    fn lookup_name(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

/// A format's rules for inserting values into text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextRules {
    /// The replacement for a reference without a value.
    pub missing: Missing,
    /// Whether `null` counts as a missing value.
    pub null_is_missing: bool,
    /// How a value becomes text.
    pub style: TextStyle,
    /// Whether a text that consists of a single reference preserves the type of the value.
    pub keeps_type: bool,
    /// The words of the engine in results and requests.
    pub wording: Wording,
}

/// The words of the engine in errors that a model or a later step reads. They are part of the record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wording {
    /// The text before the status of an HTTP error reply.
    pub http_status: &'static str,
    /// The text after the error of a tool call that a model receives.
    pub after_tool_error: &'static str,
}

impl Wording {
    /// The words of a format without words of its own.
    pub const PLAIN: Wording = Wording { http_status: "the server answered with status ", after_tool_error: "" };
}

/// The treatment of a reference without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Its source text is kept.
    Keep,
    /// It is replaced by nothing.
    Empty,
    /// It becomes `null` where the type is preserved, otherwise nothing.
    Null,
    /// The step fails.
    Error,
}

/// A reference: a name and a path into its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Ref {
    /// The variable.
    pub name: Arc<str>,
    /// The path into the value.
    pub path: Vec<Segment>,
    /// The source text, delimiters included.
    pub source: Arc<str>,
}

/// One segment of the path of a reference.
#[derive(Clone, Debug, PartialEq)]
pub enum Segment {
    /// A key of an object, a position in a list, or `length` of a list.
    Field(Arc<str>),
    /// A key of an object or a position in a list; a list has no `length`.
    Key(Arc<str>),
    /// A position in a list; no other value has one.
    Index(i64),
}

/// Text with references.
///
/// # Examples
///
/// ```
/// use flowloom_core::expr::{Missing, Ref, Template, TemplatePart, TextRules, Wording};
/// use flowloom_core::render::TextStyle;
/// use flowloom_core::value::Map;
///
/// let name = Ref { name: "name".into(), path: Vec::new(), source: "{{name}}".into() };
/// let greeting = Template { parts: vec![TemplatePart::Text("Hello ".into()), TemplatePart::Ref(name)] };
/// let rules = TextRules {
///     missing: Missing::Error,
///     null_is_missing: false,
///     style: TextStyle::Json,
///     keeps_type: true,
///     wording: Wording::PLAIN,
/// };
/// let scope = Map::from_iter([("name".into(), "Ann".into())]);
/// let text = greeting.resolve(&scope, rules).expect("the name exists");
/// assert_eq!(text.to_redacted_text(), "Hello Ann");
/// assert!(greeting.resolve(&Map::new(), rules).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// The parts in order.
    pub parts: Vec<TemplatePart>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplatePart {
    /// Text as it is.
    Text(Arc<str>),
    /// A reference to a value.
    Ref(Ref),
    /// A reference to a secret.
    Secret(Arc<str>),
    /// A computed value.
    Expr(Arc<Expr>),
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segment::Field(name) | Segment::Key(name) => write!(f, ".{name}"),
            Segment::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Ref {
    /// The value of the reference in `scope`; `None` if there is none.
    pub fn find_value<'a>(&self, scope: &'a dyn Lookup) -> Option<FoundValue<'a>> {
        let mut found = FoundValue::Shared(scope.lookup_name(&self.name)?);
        for segment in &self.path {
            found = match found {
                FoundValue::Shared(value) => step_into(value, segment)?,
                FoundValue::Length(_) => return None,
            };
        }
        Some(found)
    }
}

/// The result of resolving a reference: a part of the scope, or the length of a list.
pub enum FoundValue<'a> {
    /// A value of the scope.
    Shared(&'a Value),
    /// The length of a list.
    Length(usize),
}

impl FoundValue<'_> {
    /// The value itself.
    pub fn to_value(&self) -> Value {
        match self {
            FoundValue::Shared(value) => (*value).clone(),
            FoundValue::Length(length) => (*length as i64).into(),
        }
    }
}

fn step_into<'a>(value: &'a Value, segment: &Segment) -> Option<FoundValue<'a>> {
    match (value, segment) {
        (Value::Map(map), Segment::Field(key) | Segment::Key(key)) => map.get(key).map(FoundValue::Shared),
        (Value::List(items), Segment::Field(key)) if &**key == "length" => Some(FoundValue::Length(items.len())),
        // As in JavaScript: `01` is no index.
        (Value::List(items), Segment::Field(key)) => {
            let index = key.parse::<usize>().ok().filter(|index| index.to_string() == **key)?;
            items.get(index).map(FoundValue::Shared)
        }
        // As in Python.
        (Value::List(items), Segment::Key(key)) => items.get(key.parse::<usize>().ok()?).map(FoundValue::Shared),
        (Value::List(items), Segment::Index(index)) => items.get(usize::try_from(*index).ok()?).map(FoundValue::Shared),
        _ => None,
    }
}

impl Template {
    /// A template without references.
    pub fn from_literal(text: &str) -> Template {
        Template { parts: if text.is_empty() { Vec::new() } else { vec![TemplatePart::Text(text.into())] } }
    }

    /// The text, if it contains no references.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TemplatePart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The template for people: its text with references as they are written, and `…` for other expressions.
    pub fn show_source(&self) -> String {
        let show = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.to_string(),
            TemplatePart::Secret(name) => format!("{{{{secret.{name}}}}}"),
            TemplatePart::Ref(reference) => reference.source.to_string(),
            TemplatePart::Expr(_) => "…".to_owned(),
        };
        self.parts.iter().map(show).collect()
    }

    /// All references to values.
    pub fn iter_refs(&self) -> impl Iterator<Item = &Ref> {
        self.parts
            .iter()
            .filter_map(|part| if let TemplatePart::Ref(reference) = part { Some(reference) } else { None })
    }

    /// The names of all secrets.
    pub fn iter_secrets(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| if let TemplatePart::Secret(name) = part { Some(&**name) } else { None })
    }

    /// The template with `mark(name)` in the place of each secret.
    fn mark_secrets(&self, mark: &mut dyn FnMut(&str) -> String) -> Template {
        let mut part = |part: &TemplatePart| match part {
            TemplatePart::Secret(name) => TemplatePart::Text(mark(name).as_str().into()),
            other => other.clone(),
        };
        Template { parts: self.parts.iter().map(&mut part).collect() }
    }

    /// The text with values inserted; secrets remain names. Fails with `FL1030` if a value is missing and the rules
    /// require one, or with the error of an expression.
    pub fn resolve(&self, scope: &dyn Lookup, rules: TextRules) -> Result<Rich, StepFailure> {
        let mut rich = Rich::default();
        self.visit_parts(scope, rules, &mut |part| match part {
            ResolvedPart::Text(text) => rich.push_text(text),
            ResolvedPart::Value(text) => rich.push_string(text),
            ResolvedPart::Secret(name) => rich.push_secret(name),
        })?;
        Ok(rich)
    }

    /// Whether the text begins as a JSON object that its author wrote.
    pub fn is_json_object(&self) -> bool {
        matches!(self.parts.first(), Some(TemplatePart::Text(text)) if text.trim_start().starts_with('{'))
    }

    /// Same as [`Template::resolve`] for text that is JSON once values are inserted. Fails in the same cases.
    pub fn resolve_json(&self, scope: &dyn Lookup, rules: TextRules) -> Result<PastedJson, StepFailure> {
        let mut json = PastedJson::default();
        let mut place = StringTracker::default();
        self.visit_parts(scope, rules, &mut |part| match part {
            ResolvedPart::Text(text) => {
                place.read_text(text);
                json.raw.push_text(text);
                json.escaped.push_text(text);
            }
            ResolvedPart::Value(text) => {
                let escaped = if place.is_inside { render::escape_json_text(&text) } else { text.clone() };
                json.escaped.push_string(escaped);
                json.raw.push_string(text);
            }
            ResolvedPart::Secret(name) => {
                json.raw.push_secret(name);
                json.escaped.push_secret(name);
            }
        })?;
        Ok(json)
    }

    fn visit_parts(
        &self,
        scope: &dyn Lookup,
        rules: TextRules,
        visit: &mut dyn FnMut(ResolvedPart<'_>),
    ) -> Result<(), StepFailure> {
        let mut bytes = 0;
        let mut visit = |part: ResolvedPart<'_>| {
            bytes += part.byte_count();
            if bytes <= MAX_TEXT_BYTES {
                visit(part);
            }
        };
        self.visit_all_parts(scope, rules, &mut visit)?;
        check_text_size(bytes)
    }

    fn visit_all_parts(
        &self,
        scope: &dyn Lookup,
        rules: TextRules,
        visit: &mut dyn FnMut(ResolvedPart<'_>),
    ) -> Result<(), StepFailure> {
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => visit(ResolvedPart::Text(text)),
                TemplatePart::Secret(name) => visit(ResolvedPart::Secret(name)),
                TemplatePart::Expr(expr) => match expr.evaluate(scope, None)? {
                    Some(value) => visit(ResolvedPart::Value(render::render_text(&value, rules.style))),
                    None if rules.missing == Missing::Keep => {
                        scope.report_undefined(expr);
                        visit(ResolvedPart::Text("undefined"));
                    }
                    None => {}
                },
                TemplatePart::Ref(reference) => match self.find_ref(reference, scope, rules)? {
                    Some(found) => visit(ResolvedPart::Value(render::render_text(&found.to_value(), rules.style))),
                    None if rules.missing == Missing::Keep => visit(ResolvedPart::Text(&reference.source)),
                    None => {}
                },
            }
        }
        Ok(())
    }

    /// The resolved value: a single reference preserves the type of its value if the rules say so; everything else is
    /// text. A single reference without a value is `null` unless the rules keep its source text. Fails like
    /// [`Template::resolve`].
    pub fn resolve_value(&self, scope: &dyn Lookup, rules: TextRules) -> Result<Value, StepFailure> {
        if let ([TemplatePart::Ref(reference)], true) = (self.parts.as_slice(), rules.keeps_type) {
            return match self.find_ref(reference, scope, rules)? {
                Some(found) => Ok(found.to_value()),
                None if rules.missing == Missing::Keep => Ok((&*reference.source).into()),
                None => Ok(Value::Null),
            };
        }
        if let ([TemplatePart::Expr(expr)], true) = (self.parts.as_slice(), rules.keeps_type) {
            return expr.evaluate_or_null(scope, None);
        }
        Ok(self.resolve(scope, rules)?.to_redacted_text().into())
    }

    fn find_ref<'a>(
        &self,
        reference: &Ref,
        scope: &'a dyn Lookup,
        rules: TextRules,
    ) -> Result<Option<FoundValue<'a>>, StepFailure> {
        let found = reference
            .find_value(scope)
            .filter(|found| !(rules.null_is_missing && matches!(found, FoundValue::Shared(Value::Null))));
        if found.is_none() && rules.missing == Missing::Error {
            let message = format!("{} has no value", reference.source);
            return Err(StepFailure::new(Code::MissingValue, message));
        }
        if found.is_none() {
            scope.report_missing(reference);
        }
        Ok(found)
    }
}

/// A part of a template, with its value.
enum ResolvedPart<'a> {
    /// Text of the author.
    Text(&'a str),
    /// The text of a value.
    Value(String),
    /// The name of a secret.
    Secret(&'a str),
}

impl ResolvedPart<'_> {
    fn byte_count(&self) -> usize {
        match self {
            ResolvedPart::Text(text) | ResolvedPart::Secret(text) => text.len(),
            ResolvedPart::Value(text) => text.len(),
        }
    }
}

/// JSON of an author with values pasted into it, in two readings.
#[derive(Default)]
pub struct PastedJson {
    /// Values as they are: they may be JSON, or parts of it.
    pub raw: Rich,
    /// Values within strings are escaped, so that they stay within them.
    pub escaped: Rich,
}

/// Whether a place of a JSON text is within a string.
#[derive(Default)]
struct StringTracker {
    is_inside: bool,
    is_escaped: bool,
}

impl StringTracker {
    fn read_text(&mut self, text: &str) {
        for byte in text.bytes() {
            let starts_escape = self.is_inside && !self.is_escaped && byte == b'\\';
            self.is_inside ^= byte == b'"' && !self.is_escaped;
            self.is_escaped = starts_escape;
        }
    }
}

/// A value whose strings are templates.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A value without references.
    Constant(Value),
    /// Text.
    Text(Template),
    /// A list.
    List(Vec<Data>),
    /// An object; keys are never templates.
    Map(Vec<(Arc<str>, Data)>),
}

impl Data {
    /// The value with all references resolved. Fails like [`Template::resolve`].
    pub fn resolve(&self, scope: &dyn Lookup, rules: TextRules) -> Result<Value, StepFailure> {
        match self {
            Data::Constant(value) => Ok(value.clone()),
            Data::Text(template) => template.resolve_value(scope, rules),
            Data::List(items) => {
                Ok(Value::list(items.iter().map(|item| item.resolve(scope, rules)).collect::<Result<_, _>>()?))
            }
            Data::Map(entries) => {
                let entries = entries.iter().map(|(key, data)| Ok((key.clone(), data.resolve(scope, rules)?)));
                Ok(entries.collect::<Result<Map, StepFailure>>()?.into())
            }
        }
    }

    /// Converts a value, with `parse` for its strings.
    pub fn from_value(value: &Value, parse: &dyn Fn(&str) -> Template) -> Data {
        match value {
            Value::String(text) => Data::Text(parse(text)),
            Value::List(items) => Data::List(items.iter().map(|item| Data::from_value(item, parse)).collect()),
            Value::Map(map) => {
                Data::Map(map.iter().map(|(key, item)| (key.clone(), Data::from_value(item, parse))).collect())
            }
            other => Data::Constant(other.clone()),
        }
    }

    /// The value with `mark(name)` in the place of each secret.
    pub fn mark_secrets(&self, mark: &mut dyn FnMut(&str) -> String) -> Data {
        match self {
            Data::Constant(value) => Data::Constant(value.clone()),
            Data::Text(template) => Data::Text(template.mark_secrets(mark)),
            Data::List(items) => Data::List(items.iter().map(|item| item.mark_secrets(mark)).collect()),
            Data::Map(entries) => {
                Data::Map(entries.iter().map(|(key, item)| (key.clone(), item.mark_secrets(mark))).collect())
            }
        }
    }

    /// The name of the first secret in the value.
    pub fn first_secret(&self) -> Option<String> {
        let mut first = None;
        self.visit(&mut |template| {
            if first.is_none() {
                first = template.iter_secrets().next().map(str::to_owned);
            }
        });
        first
    }

    /// Calls `visit` with every template in the value.
    pub fn visit(&self, visit: &mut dyn FnMut(&Template)) {
        match self {
            Data::Constant(_) => {}
            Data::Text(template) => visit(template),
            Data::List(items) => items.iter().for_each(|item| item.visit(visit)),
            Data::Map(entries) => entries.iter().for_each(|(_, item)| item.visit(visit)),
        }
    }
}
