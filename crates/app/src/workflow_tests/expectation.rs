//! The expectations of a test for a value.

use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::Value;
use flowloom_runtime::schema::validation_errors;
use serde::{Deserialize, Serialize};
use serde_json_path::JsonPath;

/// One expectation of a value. It holds one of the checks, and `jsonpath` selects the part of the value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The part of the value that is checked (RFC 9535); several matches are a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonpath: Option<String>,
    /// The value itself.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// Text that it contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// JSON Schema that it matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A question about it that a model must answer with yes. It is asked with `--live` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The model that is asked, instead of the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

fn deserialize_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Expectation {
    /// That a value is this one.
    pub(super) fn equal_to(value: Value) -> Expectation {
        Expectation { jsonpath: None, equals: Some(value), contains: None, schema: None, judge: None, model: None }
    }

    /// Expects this value from now on, if it expected a certain one.
    pub(super) fn accept_value(&mut self, value: &Value) {
        if self.equals.is_some() && self.jsonpath.is_none() {
            self.equals = Some(value.clone());
        }
    }

    /// Whether it has a check that needs no model.
    pub(super) fn is_checked_offline(&self) -> bool {
        self.equals.is_some() || self.contains.is_some() || self.schema.is_some()
    }

    /// The part of a value that is checked.
    pub(super) fn select_part(&self, value: &Value) -> Result<Value, String> {
        self.jsonpath.as_ref().map_or_else(|| Ok(value.clone()), |path| select_part(path, value))
    }

    /// Why a value differs from the expectation; `None` if it does not. `judge` is not checked.
    pub(super) fn find_mismatch(&self, value: &Value) -> Result<Option<Mismatch>, String> {
        let part = self.select_part(value)?;
        let mismatch = |message: String, expected: &Value| {
            let (mut wanted, mut found) = (to_text(expected), to_text(&part));
            if wanted == found {
                // A text and a value that is written like it.
                (wanted, found) = (render::to_json(expected), render::to_json(&part));
            }
            Some(Mismatch { message, expected: wanted, found })
        };
        if let Some(expected) = &self.equals
            && !expected.is_equal_to(&part)
        {
            return Ok(mismatch("the value is another one".to_owned(), expected));
        }
        if let Some(expected) = &self.contains
            && !to_text(&part).contains(expected)
        {
            return Ok(mismatch(format!("the text does not contain {expected:?}"), &expected.as_str().into()));
        }
        if let Some(schema) = &self.schema
            && let Some(problems) = validation_errors(schema, &part)
        {
            return Ok(mismatch(format!("the value does not match the schema: {problems}"), schema));
        }
        Ok(None)
    }
}

/// A value that differs from the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The difference.
    pub(super) message: String,
    /// The expectation.
    pub(super) expected: String,
    /// The actual value.
    pub(super) found: String,
}

fn select_part(path: &str, value: &Value) -> Result<Value, String> {
    let parsed = JsonPath::parse(path).map_err(|error| format!("the JSONPath {path:?} is not valid: {error}"))?;
    let json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    let found = parsed.query(&json).all();
    let to_value = |found: &serde_json::Value| serde_json::from_value(found.clone()).unwrap_or(Value::Null);
    let is_single = !path.contains(['*', '?', ':']) && !path.contains("..");
    Ok(match found.as_slice() {
        [] if is_single => return Err(format!("there is nothing at {path}")),
        [] => Value::Null,
        [one] => to_value(one),
        several => Value::list(several.iter().map(|found| to_value(found)).collect()),
    })
}

fn to_text(value: &Value) -> String {
    render::render_text(value, TextStyle::Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation(text: &str) -> Expectation {
        serde_json::from_str(text).expect("an expectation")
    }

    #[track_caller]
    fn check(text: &str, value: &str, expected: Option<&str>) {
        let value: Value = serde_json::from_str(value).expect("JSON");
        let found = expectation(text).find_mismatch(&value).expect("valid");
        assert_eq!(found.map(|found| found.message).as_deref(), expected, "{text}");
    }

    #[test]
    fn values_are_checked() {
        check(r#"{"equals": null}"#, "null", None);
        check(r#"{"equals": 1}"#, "2", Some("the value is another one"));
        check(r#"{"equals": {"a": [3, 1e2]}}"#, r#"{"a": [3.0, 100]}"#, None);
        check(r#"{"jsonpath": "$.a", "equals": 3}"#, r#"{"a": 3.0}"#, None);
        check(r#"{"jsonpath": "$.a", "equals": 3.0}"#, r#"{"a": 3}"#, None);
        check(r#"{"equals": 3}"#, r#""3""#, Some("the value is another one"));
        check(r#"{"schema": {"const": 3, "type": "integer"}}"#, "3.0", None);
        check(r#"{"jsonpath": "$[?@.n == 3].id", "equals": 7}"#, r#"[{"n": 3.0, "id": 7}]"#, None);
        check(r#"{"contains": "lamp"}"#, r#""a lamp""#, None);
        check(r#"{"contains": "lamp"}"#, r#""a boat""#, Some(r#"the text does not contain "lamp""#));
        check(r#"{"jsonpath": "$.items[*].id", "equals": [1, 2]}"#, r#"{"items": [{"id": 1}, {"id": 2}]}"#, None);
        check(r#"{"jsonpath": "$.items[0].id", "equals": 1}"#, r#"{"items": [{"id": 1}, {"id": 2}]}"#, None);
        check(r#"{"schema": {"type": "string"}}"#, r#""x""#, None);
    }

    #[test]
    fn wrong_expectations_are_errors() {
        assert!(expectation(r#"{"jsonpath": "a[", "equals": 1}"#).find_mismatch(&Value::Null).is_err());
    }
}
