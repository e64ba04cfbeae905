//! The fields that a response repeats from its request, as OpenAI's do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields of a request that its response repeats; null if they are absent.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct RepeatedFields {
    instructions: Value,
    max_output_tokens: Value,
    metadata: Value,
    parallel_tool_calls: Value,
    temperature: Value,
    text: Value,
    tool_choice: Value,
    tools: Value,
    top_p: Value,
    user: Value,
}

/// The fields of a request's body that its response repeats.
pub(crate) fn read_repeated_fields(body: &str) -> Map<String, Value> {
    let fields: RepeatedFields = serde_json::from_str(body).unwrap_or_default();
    match serde_json::to_value(fields) {
        Ok(Value::Object(mut fields)) => {
            fields.retain(|_, value| !value.is_null());
            fields
        }
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_response_has_is_repeated() {
        let body =
            r#"{"model": "m", "input": "hi", "metadata": {"a": "1"}, "temperature": 0.5, "user": null, "store": true}"#;
        let fields = Value::Object(read_repeated_fields(body));
        assert_eq!(fields, serde_json::json!({"metadata": {"a": "1"}, "temperature": 0.5}));
    }
}
