//! Completes the OpenAPI document: adds the responses that every operation can return.

use std::collections::HashMap;

use axum::http::{Method, StatusCode};
use flowloom_app::keys::Scope;
use serde_json::{Value, json};

use crate::public_url::PublicUrl;
use crate::{openai, openapi_types};

/// Shared responses: the condition, the status and the description.
const SHARED_RESPONSES: [(ResponseCondition, &str, &str); 12] = [
    (ResponseCondition::HasInput, "400", "A parameter or the body is malformed"),
    (ResponseCondition::RequiresKey, "401", "The API key is missing or unknown"),
    (ResponseCondition::RequiresKey, "403", "The key lacks the required scope, or the request comes from another site"),
    (ResponseCondition::Always, "403", "The request comes from another site"),
    (ResponseCondition::ChangesState, "408", "The body was not received in time"),
    (ResponseCondition::ChangesState, "413", "The body is too large"),
    (ResponseCondition::ChangesState, "415", "The body is not application/json"),
    (ResponseCondition::ChangesState, "422", "The request was rejected"),
    (ResponseCondition::RequiresKey, "429", "Too many requests, or too many concurrent runs"),
    (ResponseCondition::RequiresKey, "500", "The database failed"),
    (ResponseCondition::RequiresKey, "503", "The database is locked or cannot be reached"),
    (ResponseCondition::ChangesState, "507", "The disk is full"),
];

/// Routes of an original system whose errors keep the form that its clients expect.
const AGENT_FLOWS_ROUTES: &str = "/api/agent-flows";

/// Condition under which an operation can return a response.
#[derive(Clone, Copy)]
enum ResponseCondition {
    Always,
    /// Operations with a parameter or a body.
    HasInput,
    /// Operations that accept a body or change something.
    ChangesState,
    /// Operations that require a key.
    RequiresKey,
}

/// The scope that each operation requires, by path and method. The OpenAPI document is the authority.
pub(crate) fn collect_scopes(document: &Value) -> HashMap<String, Vec<(Method, Vec<Scope>)>> {
    let scope = |(method, operation): (&String, &Value)| {
        let names = operation["security"][0]["key"].as_array()?.iter().filter_map(Value::as_str);
        let scopes: Vec<_> = names.filter_map(|name| Scope::parse(name).ok()).flatten().collect();
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).ok()?;
        (!scopes.is_empty()).then_some((method, scopes))
    };
    let items = document["paths"].as_object().into_iter().flatten();
    items
        .map(|(path, item)| (path.clone(), item.as_object().into_iter().flatten().filter_map(scope).collect()))
        .collect()
}

/// Completes an OpenAPI document, for clients that reach the server at `public_url`.
pub(crate) fn complete_document(mut document: Value, public_url: Option<&PublicUrl>) -> Value {
    if let Some(public_url) = public_url {
        document["servers"] = json!([{"url": public_url.to_text()}]);
    }
    document["components"]["securitySchemes"] = json!({
        "key": {"type": "http", "scheme": "bearer", "description": "An API key created with `flowloom keys create`. The names in `security` are the scopes that an operation requires."}
    });
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        let operations = item.as_object_mut().into_iter().flatten();
        operations.for_each(|(method, operation)| add_responses(path, method, operation));
    }
    openapi_types::complete_types(&mut document);
    document
}

fn add_responses(path: &str, method: &str, operation: &mut Value) {
    let applies = |when| match when {
        ResponseCondition::Always => true,
        ResponseCondition::HasInput => operation.get("parameters").is_some() || operation.get("requestBody").is_some(),
        ResponseCondition::ChangesState => method != "get" && method != "delete",
        ResponseCondition::RequiresKey => operation["security"][0]["key"].is_array(),
    };
    let shared: Vec<_> = SHARED_RESPONSES.iter().filter(|(when, ..)| applies(*when)).collect();
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
            response["content"] = match path.starts_with(openai::names::ROUTE_PREFIX) {
                true => json!({"application/json": {"schema": {"$ref": "#/components/schemas/OpenAiError"}}}),
                false => json!({"application/problem+json": problem}),
            };
            if path.starts_with(AGENT_FLOWS_ROUTES) {
                response["content"]["application/json"] = json!({});
            }
        }
    }
    responses.sort_keys();
}
