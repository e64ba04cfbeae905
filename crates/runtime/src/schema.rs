//! Validation of values against JSON Schemas.

use flowloom_core::value::{Map, Value};

/// Maximum number of validation errors reported for one value.
const MAX_VALIDATION_ERRORS: usize = 5;

/// The reasons why `value` does not match `schema`; `None` if it does, or if the schema is not valid.
pub fn validation_errors(schema: &Value, value: &Value) -> Option<String> {
    let is_empty = schema.as_map().is_none_or(Map::is_empty);
    if is_empty {
        return None;
    }
    let (schema, value) = (serde_json::to_value(schema).ok()?, serde_json::to_value(value).ok()?);
    let validator = jsonschema::validator_for(&schema).ok()?;
    let complaints: Vec<_> = validator
        .iter_errors(&value)
        .take(MAX_VALIDATION_ERRORS)
        .map(|error| match error.instance_path().to_string() {
            path if path.is_empty() => error.to_string(),
            path => format!("{path}: {error}"),
        })
        .collect();
    (!complaints.is_empty()).then(|| complaints.join("; "))
}

/// The reason why `schema` is not a valid JSON Schema. External references are not fetched.
pub fn find_schema_error(schema: &Value) -> Option<String> {
    let read = match serde_json::to_value(schema) {
        Ok(read @ (serde_json::Value::Object(_) | serde_json::Value::Bool(_))) => read,
        _ => return Some(format!("it is {}, not an object", schema.kind_name())),
    };
    jsonschema::validator_for(&read).err().map(|error| error.to_string())
}
