//! The description of the routes, completed: what every operation can answer beside what it says of itself.

use std::collections::HashMap;

use axum::http::{Method, StatusCode};
use flowloom_app::keys::Scope;
use serde_json::{Value, json};

use crate::openai;

/// Answers that operations share: when they can happen, their status, and what they mean.
const SHARED: [(When, &str, &str); 12] = [
    (When::Given, "400", "A parameter or the body cannot be read"),
    (When::Secured, "401", "The call needs a key, or names one that is not known"),
    (When::Secured, "403", "The key does not allow this, or the call comes from another site"),
    (When::Always, "403", "The call comes from another site"),
    (When::Posted, "408", "The body took too long"),
    (When::Posted, "413", "The body is too large"),
    (When::Posted, "415", "The body is not application/json"),
    (When::Posted, "422", "What was sent is refused"),
    (When::Secured, "429", "Too many calls, or too many runs under way"),
    (When::Secured, "500", "The database failed"),
    (When::Secured, "503", "The database is locked"),
    (When::Posted, "507", "The disk is full"),
];

/// Routes of a system whose errors look as its clients expect them.
const OWN_ERRORS: &str = "/api/agent-flows";

/// Operations that can give an answer.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// Those with a parameter.
    Given,
    /// Those that take a body or change something.
    Posted,
    /// Those that need a key.
    Secured,
}

/// The scope that each operation asks for, by path and method. What the description says is what holds.
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

/// Completes a description.
pub(crate) fn complete(mut document: Value) -> Value {
    document["components"]["securitySchemes"] = json!({
        "key": {"type": "http", "scheme": "bearer", "description": "A key of `flowloom keys create`. The names in `security` are the scopes that an operation asks for."}
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
            response["description"] = reason.unwrap_or("An answer").into();
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
