//! Completes the OpenAPI document: adds the responses that every operation can return.

use std::collections::HashMap;

use axum::http::{Method, StatusCode};
use flowloom_app::keys::Scope;
use serde_json::{Value, json};

use crate::openai;

/// Shared responses: the condition, the status and the description.
const SHARED: [(When, &str, &str); 12] = [
    (When::Given, "400", "A parameter or the body is malformed"),
    (When::Secured, "401", "The API key is missing or unknown"),
    (When::Secured, "403", "The key lacks the required scope, or the request comes from another site"),
    (When::Always, "403", "The request comes from another site"),
    (When::Posted, "408", "The body was not received in time"),
    (When::Posted, "413", "The body is too large"),
    (When::Posted, "415", "The body is not application/json"),
    (When::Posted, "422", "The request was rejected"),
    (When::Secured, "429", "Too many requests, or too many concurrent runs"),
    (When::Secured, "500", "The database failed"),
    (When::Secured, "503", "The database is locked"),
    (When::Posted, "507", "The disk is full"),
];

/// Routes of an original system whose errors keep the form that its clients expect.
const OWN_ERRORS: &str = "/api/agent-flows";

/// Condition under which an operation can return a response.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// Operations with a parameter or a body.
    Given,
    /// Operations that accept a body or change something.
    Posted,
    /// Operations that require a key.
    Secured,
}

/// The scope that each operation requires, by path and method. The OpenAPI document is the authority.
pub(crate) fn scopes(document: &Value) -> HashMap<String, Vec<(Method, Scope)>> {
    let scope = |(method, operation): (&String, &Value)| {
        let names = operation["security"][0]["key"][0].as_str()?;
        Some((Method::from_bytes(method.to_uppercase().as_bytes()).ok()?, Scope::parse(names).ok()?.pop()?))
    };
    let items = document["paths"].as_object().into_iter().flatten();
    items
        .map(|(path, item)| (path.clone(), item.as_object().into_iter().flatten().filter_map(scope).collect()))
        .collect()
}

/// Completes an OpenAPI document.
pub(crate) fn complete(mut document: Value) -> Value {
    document["components"]["securitySchemes"] = json!({
        "key": {"type": "http", "scheme": "bearer", "description": "An API key created with `flowloom keys create`. The names in `security` are the scopes that an operation requires."}
    });
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        let operations = item.as_object_mut().into_iter().flatten();
        operations.for_each(|(method, operation)| answers(path, method, operation));
    }
    document
}

fn answers(path: &str, method: &str, operation: &mut Value) {
    let applies = |when| match when {
        When::Always => true,
        When::Given => operation.get("parameters").is_some() || operation.get("requestBody").is_some(),
        When::Posted => method != "get" && method != "delete",
        When::Secured => operation["security"][0]["key"].is_array(),
    };
    let shared: Vec<_> = SHARED.iter().filter(|(when, ..)| applies(*when)).collect();
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (_, status, description) in shared {
        responses.entry(*status).or_insert_with(|| json!({"description": description}));
    }
    for (status, response) in responses.iter_mut() {
        let reason = StatusCode::from_bytes(status.as_bytes()).ok().and_then(|status| status.canonical_reason());
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = reason.unwrap_or("Response").into();
        }
        if status.as_str() >= "400" {
            let problem = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
            response["content"] = match path.starts_with(openai::names::ROUTES) {
                true => json!({"application/json": {"schema": {"$ref": "#/components/schemas/OpenAiError"}}}),
                false => json!({"application/problem+json": problem}),
            };
            if path.starts_with(OWN_ERRORS) {
                response["content"]["application/json"] = json!({});
            }
        }
    }
    responses.sort_keys();
}
