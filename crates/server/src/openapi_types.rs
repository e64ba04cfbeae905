//! Types in the OpenAPI document that generated clients need: objects with any fields, ids with their patterns, and one
//! type for each response.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A problem of a definition, as `flowloom check --json` reports it.
#[derive(Serialize, ToSchema)]
#[schema(as = Diagnostic)]
pub(crate) struct DiagnosticSchema {
    /// What is wrong.
    message: String,
    /// The error code, for example `FL0608`.
    code: Option<String>,
    /// `error` or `warning`.
    severity: Option<String>,
    /// Path of the file.
    file: Option<String>,
    /// Line, from 1.
    line: Option<u64>,
    /// Column, from 1.
    column: Option<u64>,
    /// First byte of the place.
    start: Option<u64>,
    /// Length of the place, in bytes.
    length: Option<u64>,
    /// How to fix it.
    help: Option<String>,
    /// The edit that `check --fix` applies.
    fix: Option<Value>,
}

/// A definition to store: an object of any format, or several files.
#[derive(Serialize, ToSchema)]
#[schema(as = SyncItem)]
pub(crate) struct SyncItemSchema {
    /// Id of the workflow.
    id: String,
    /// Path of the entry file in `files`.
    entry: String,
    /// File contents by path.
    files: std::collections::BTreeMap<String, String>,
}

/// Pattern of the ids of stored definitions.
const DEFINITION_ID_PATTERN: &str = "^[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,255}$";

/// Routes whose parameter `id` is the id of a stored definition, when the method changes it.
const DEFINITION_ROUTES: [&str; 6] = [
    "/api/v1/workflows/{id}",
    "/api/v1/blocks/{id}",
    "/api/v1/agents/{id}",
    "/api/v1/tools/{id}",
    "/api/blocks/{id}",
    "/api/pipelines/{id}",
];

/// Start of the routes whose parameter `id` is the id of a run.
const RUN_ROUTES: &str = "/api/v1/runs/{id}";

/// Completes the types of all operations and schemas.
pub(crate) fn complete_types(document: &mut Value) {
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            add_id_pattern(path, method, operation);
            let responses = operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
            responses.for_each(|(_, response)| keep_one_type(response));
        }
    }
    open_objects(document);
}

/// Adds the pattern of an id to the parameter.
fn add_id_pattern(path: &str, method: &str, operation: &mut Value) {
    let schema = if path.starts_with(RUN_ROUTES) {
        json!({"type": "string", "format": "uuid"})
    } else if DEFINITION_ROUTES.contains(&path) && matches!(method, "put" | "delete") {
        json!({"type": "string", "pattern": DEFINITION_ID_PATTERN})
    } else {
        return;
    };
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten();
    parameters.filter(|parameter| parameter["name"] == "id").for_each(|parameter| parameter["schema"] = schema.clone());
}

/// Describes a stream of events that replaces a JSON response in words: a client has one type for each response.
fn keep_one_type(response: &mut Value) {
    let Some(content) = response.get_mut("content").and_then(Value::as_object_mut) else { return };
    if content.len() < 2 || content.remove("text/event-stream").is_none() {
        return;
    }
    let description = response["description"].as_str().unwrap_or_default();
    response["description"] = format!("{description}. If a stream is requested, server-sent events").into();
}

/// Lets objects without declared fields have any: generated clients take them for empty ones otherwise.
fn open_objects(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let is_object = map.get("type").is_some_and(|kind| {
                kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
            });
            let is_bare = !["properties", "additionalProperties", "allOf", "oneOf", "anyOf"]
                .iter()
                .any(|key| map.contains_key(*key));
            if is_object && is_bare {
                map.insert("additionalProperties".to_owned(), json!({}));
            }
            map.values_mut().for_each(open_objects);
        }
        Value::Array(items) => items.iter_mut().for_each(open_objects),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_client_gets_one_usable_type_for_each_body() {
        let mut document = json!({"paths": {
            "/api/v1/runs/{id}": {"post": {
                "parameters": [{"name": "id", "schema": {"type": "string"}}],
                "requestBody": {"content": {"application/json": {"schema": {"type": ["object", "null"]}}}},
                "responses": {"200": {"description": "It ended", "content": {"application/json": {}, "text/event-stream": {}}}},
            }},
            "/api/v1/blocks/{id}": {
                "get": {"parameters": [{"name": "id", "schema": {"type": "string"}}]},
                "put": {"parameters": [{"name": "id", "schema": {"type": "string"}}]},
            },
        }});
        complete_types(&mut document);
        let run = &document["paths"]["/api/v1/runs/{id}"]["post"];
        assert_eq!(run["parameters"][0]["schema"]["format"], "uuid");
        assert_eq!(run["responses"]["200"]["content"], json!({"application/json": {}}));
        assert_eq!(
            run["requestBody"]["content"]["application/json"]["schema"],
            json!({"type": ["object", "null"], "additionalProperties": {}})
        );
        let block = &document["paths"]["/api/v1/blocks/{id}"];
        assert_eq!(block["put"]["parameters"][0]["schema"]["pattern"], DEFINITION_ID_PATTERN);
        assert!(block["get"].get("responses").is_none(), "nothing is added that was not there");
        assert_eq!(block["get"]["parameters"][0]["schema"], json!({"type": "string"}), "reading refuses no id");
    }
}
