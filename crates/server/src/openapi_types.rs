//! Types in the OpenAPI document that generated clients need: objects with any fields, and one type for each
//! response.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::openapi_parameters::complete_path_parameters;

/// A problem of a definition, as `flowloom check --json` reports it.
#[derive(Serialize, ToSchema)]
#[schema(as = Diagnostic)]
pub(crate) struct DiagnosticSchema {
    /// The problem.
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
    /// The effect of an edit that solves it.
    fix: Option<Value>,
    /// Whether `check --fix` applies the edit (`safe`), or only a person can decide (`suggestion`).
    applicability: Option<String>,
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

/// Completes the types of all operations and schemas.
pub(crate) fn complete_types(document: &mut Value) {
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            complete_path_parameters(path, method, operation);
            let responses = operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
            responses.for_each(|(_, response)| keep_one_type(response));
        }
    }
    open_objects(document);
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
                "requestBody": {"content": {"application/json": {"schema": {"type": ["object", "null"]}}}},
                "responses": {"200": {"description": "It ended", "content": {"application/json": {}, "text/event-stream": {}}}},
            }},
            "/api/v1/blocks/{id}": {"get": {}},
        }});
        complete_types(&mut document);
        let run = &document["paths"]["/api/v1/runs/{id}"]["post"];
        assert_eq!(run["responses"]["200"]["content"], json!({"application/json": {}}));
        assert_eq!(
            run["requestBody"]["content"]["application/json"]["schema"],
            json!({"type": ["object", "null"], "additionalProperties": {}})
        );
        let block = &document["paths"]["/api/v1/blocks/{id}"]["get"];
        assert!(block.get("responses").is_none(), "nothing is added that was not there");
    }
}
