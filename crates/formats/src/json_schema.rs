//! Whether a JSON Schema is valid, and what is wrong with it.

use std::fmt;

use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::render::shorten_text;
use flowloom_core::schema_work::{PatternLimits, SchemaTooComplex, measure_schema};
use flowloom_core::value::Value;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError};
use serde_json::json;

/// The values of the keyword `type`.
const TYPE_NAMES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Maximum length of a value in a message, in characters.
const MAX_SHOWN_CHARS: usize = 60;
/// Maximum number of reported problems of one schema.
const MAX_SCHEMA_PROBLEMS: usize = 20;
/// How to correct a reference.
const REFERENCE_HELP: &str = "references have to lead to a part of the schema itself; nothing is fetched";

/// The reason why a schema is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaProblem {
    /// The problem, and its place in the schema.
    pub message: String,
    /// How to correct it, where the message does not say so.
    pub help: Option<&'static str>,
    /// Its place in the schema, as a JSON pointer; empty for the schema as a whole.
    pub pointer: String,
}

impl fmt::Display for SchemaProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl From<String> for SchemaProblem {
    fn from(message: String) -> SchemaProblem {
        SchemaProblem { message, help: None, pointer: String::new() }
    }
}

/// The reason why a value is not a JSON Schema to which values can be held; `None` for one that is, and for `null`.
/// External references are not fetched.
pub fn find_schema_problem(schema: &Value) -> Option<SchemaProblem> {
    match schema {
        Value::Null => None,
        Value::Bool(false) => Some("it is false, so it accepts no value at all".to_owned().into()),
        Value::Map(_) | Value::Bool(true) => {
            let parsed = serde_json::to_value(schema).map_err(|error| error.to_string().into());
            parsed.and_then(|schema| try_schema(&schema)).err()
        }
        other => Some(format!("it is {}, not an object", other.kind_name()).into()),
    }
}

/// Every reason why a value is not a JSON Schema, at most `MAX_SCHEMA_PROBLEMS` of them and one for each place. What is
/// found only in a schema of the right form, such as a reference that leads nowhere, is reported alone.
pub fn list_schema_problems(schema: &Value) -> Vec<SchemaProblem> {
    let Some(first) = find_schema_problem(schema) else { return Vec::new() };
    if schema.as_map().is_none() {
        return vec![first];
    }
    let Ok(parsed) = serde_json::to_value(schema) else { return vec![first] };
    let Ok(form) = jsonschema::meta::validator_for(&parsed) else { return vec![first] };
    let mut problems: Vec<SchemaProblem> = Vec::new();
    for problem in form.iter_errors(&parsed).map(|error| describe_error(&error)) {
        let is_new = problems.iter().all(|known| known.pointer != problem.pointer);
        if is_new && problems.len() < MAX_SCHEMA_PROBLEMS {
            problems.push(problem);
        }
    }
    if problems.is_empty() { vec![first] } else { problems }
}

/// The schema that is meant where names stand with their types, such as `{"city": "string"}`, in the place of keywords.
/// As a schema, that is valid, but it accepts every value.
pub(crate) fn read_type_list(schema: &Value) -> Option<serde_json::Value> {
    let fields = schema.as_map()?;
    let names_type = |value: &Value| value.as_str().is_some_and(|name| TYPE_NAMES.contains(&name));
    if fields.is_empty() || fields.contains_key("type") || !fields.values().all(names_type) {
        return None;
    }
    let types = fields.iter().map(|(name, kind)| (name.to_string(), json!({"type": kind})));
    Some(json!({"type": "object", "properties": types.collect::<serde_json::Map<_, _>>()}))
}

/// Builds a validator of the schema.
fn try_schema(schema: &serde_json::Value) -> Result<(), SchemaProblem> {
    let measured = measure_schema(schema);
    let limits = match measured {
        Ok(work) => work.pattern_limits(),
        // The validator says which reference leads to nothing.
        Err(SchemaTooComplex::Reference) => PatternLimits::MIN,
        Err(too_complex) => return Err(too_complex.to_string().into()),
    };
    let patterns = PatternOptions::fancy_regex().size_limit(limits.compiled_bytes);
    let built = jsonschema::options().with_pattern_options(patterns).build(schema);
    built.map_err(|error| describe_error(&error))?;
    measured.map(drop).map_err(|unknown| unknown.to_string().into())
}

/// The problem of a schema, and its place in the schema.
fn describe_error(error: &ValidationError<'_>) -> SchemaProblem {
    let path = error.instance_path().to_string();
    let keyword = path.rsplit('/').next().filter(|keyword| !keyword.is_empty()).unwrap_or("it");
    let shown = shorten_text(&error.instance().to_string(), MAX_SHOWN_CHARS);
    let is_type = matches!(error.kind(), ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::Enum { .. });
    if is_type && is_in_type(&path) {
        return describe_type(error.instance(), &path);
    }
    let problem = match error.kind() {
        ValidationErrorKind::Referencing(_) => return SchemaProblem { pointer: path, ..describe_reference(error) },
        ValidationErrorKind::Type { kind: TypeKind::Single(expected) } => {
            format!("{keyword:?} is {shown}; expected {expected}")
        }
        ValidationErrorKind::Type { .. } => format!("{keyword:?} is {shown}; expected an object, true or false"),
        ValidationErrorKind::Format { format } if format == "regex" => {
            format!("{keyword:?} is {shown}, which is not a regular expression")
        }
        ValidationErrorKind::UniqueItems => format!("{keyword:?} has an entry twice: {shown}"),
        ValidationErrorKind::Minimum { limit } => format!("{keyword:?} is {shown}; the minimum is {limit}"),
        ValidationErrorKind::MinItems { .. } => format!("{keyword:?} is empty"),
        _ => format!("{keyword:?} cannot be {shown}"),
    };
    // The keyword itself is in the message.
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    SchemaProblem { message: name_parent(problem, parent), help: None, pointer: path }
}

/// A problem with the part of the schema that it is in; `parent` is empty for the schema itself.
fn name_parent(problem: String, parent: &str) -> String {
    if parent.is_empty() { problem } else { format!("in {parent}: {problem}") }
}

/// A type that does not exist, at `path` or in the list that is there.
fn describe_type(given: &serde_json::Value, path: &str) -> SchemaProblem {
    let is_unknown = |entry: &serde_json::Value| entry.as_str().is_none_or(|name| !TYPE_NAMES.contains(&name));
    let listed = given.as_array().and_then(|list| list.iter().enumerate().find(|(_, entry)| is_unknown(entry)));
    let (entry, pointer) =
        listed.map_or_else(|| (given, path.to_owned()), |(index, entry)| (entry, format!("{path}/{index}")));
    let advice = match entry.as_str().and_then(|name| find_similar_name(name, TYPE_NAMES)) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("the types are {}", TYPE_NAMES.join(", ")),
    };
    let problem = format!("there is no type {}; {advice}", shorten_text(&entry.to_string(), MAX_SHOWN_CHARS));
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    SchemaProblem { message: name_parent(problem, parent), help: None, pointer }
}

/// Whether a path leads to the keyword `type` or to an entry of it. A property may be called `type`, too.
fn is_in_type(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let at = |from_end: usize| parts.len().checked_sub(from_end).and_then(|index| parts.get(index)).copied();
    let is_keyword = |from_end| at(from_end) == Some("type") && at(from_end + 1) != Some("properties");
    is_keyword(1) || (is_keyword(2) && at(1).is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit())))
}

/// A reference that leads nowhere.
fn describe_reference(error: &ValidationError<'_>) -> SchemaProblem {
    let text = error.to_string();
    // The library names the address or the pointer in quotes.
    let message = match text.split('\'').nth(1) {
        Some(target) if target.contains("://") => {
            format!("the reference to {target} leads out of the schema, and nothing is fetched")
        }
        Some(target) => format!("the schema has no part {target}, to which it refers"),
        None => "it has a reference that leads nowhere".to_owned(),
    };
    SchemaProblem { message, help: Some(REFERENCE_HELP), pointer: String::new() }
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::parse_value;

    use super::*;

    fn problem(schema: &str) -> String {
        find_schema_problem(&parse_value(schema).expect("JSON")).map_or_else(String::new, |problem| problem.message)
    }

    #[test]
    fn a_wrong_schema_is_described_in_plain_words() {
        for (schema, expected) in [
            ("null", ""),
            ("true", ""),
            (r#"{"type": ["integer", "null"], "properties": {"type": {"type": "string"}}}"#, ""),
            ("false", "it is false, so it accepts no value at all"),
            ("[]", "it is a list, not an object"),
            (r#"{"type": "integr"}"#, r#"there is no type "integr"; did you mean "integer"?"#),
            (
                r#"{"properties": {"v": {"type": "txet"}}}"#,
                r#"in /properties/v: there is no type "txet"; the types are array, boolean, integer, null, number, object, string"#,
            ),
            (r#"{"required": "a"}"#, r#""required" is "a"; expected array"#),
            (r#"{"properties": {"a": 1}}"#, r#"in /properties: "a" is 1; expected an object, true or false"#),
            (r#"{"minLength": -1}"#, r#""minLength" is -1; the minimum is 0"#),
            (r#"{"pattern": "("}"#, r#""pattern" is "(", which is not a regular expression"#),
            (r##"{"$ref": "#/$defs/none"}"##, "the schema has no part /$defs/none, to which it refers"),
            (
                r#"{"$ref": "http://localhost:1234/a.json"}"#,
                "the reference to http://localhost:1234/a.json leads out of the schema, and nothing is fetched",
            ),
        ] {
            assert_eq!(problem(schema), expected, "{schema}");
        }
    }

    #[test]
    fn a_list_of_names_and_types_is_distinguished_from_a_schema() {
        let find = |schema: &str| read_type_list(&parse_value(schema).expect("JSON"));
        let meant = json!({"type": "object", "properties": {"city": {"type": "string"}, "size": {"type": "integer"}}});
        assert_eq!(find(r#"{"city": "string", "size": "integer"}"#), Some(meant));
        for schema in [r#"{"type": "object"}"#, r#"{"title": "City"}"#, r#"{"x": {}}"#, "{}", "true"] {
            assert_eq!(find(schema), None, "{schema}");
        }
    }

    #[test]
    fn every_wrong_type_is_found_at_its_place() {
        let schema = r#"{"type": "objekt", "properties": {"a": {"type": "txt"}, "b/c": {"items": {"type": ["int", "null"]}},
            "d": {"minLength": -1}}}"#;
        let problems = list_schema_problems(&parse_value(schema).expect("JSON"));
        let mut places: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
        places.sort_unstable();
        let expected = ["/properties/a/type", "/properties/b~1c/items/type/0", "/properties/d/minLength", "/type"];
        assert_eq!(places, expected, "{problems:#?}");
        let reference = parse_value(r##"{"properties": {"v": {"$ref": "#/$defs/none"}}}"##).expect("JSON");
        assert_eq!(list_schema_problems(&reference).len(), 1);
    }
}
