//! Whether a JSON Schema of a definition is valid.

use flowloom_core::value::Value;

/// The reason why a value is not a valid JSON Schema; `None` for a valid one and for `null`. External references are not
/// fetched.
pub(crate) fn find_schema_problem(schema: &Value) -> Option<String> {
    let parsed = match schema {
        Value::Null => return None,
        Value::Map(_) | Value::Bool(_) => serde_json::to_value(schema).map_err(|error| error.to_string()),
        other => Err(format!("it is {}, not an object", other.kind_name())),
    };
    let built = parsed.and_then(|schema| jsonschema::validator_for(&schema).map_err(|error| error.to_string()));
    built.err()
}
