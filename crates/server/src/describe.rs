//! Completes the OpenAPI document: adds the responses that every operation can return.

use std::collections::HashMap;

use axum::http::{Method, StatusCode};
use flowloom_app::keys::Scope;
use serde_json::{Value, json};

use crate::public_url::PublicUrl;
use crate::{openai, openapi_types};

/// Shared responses: the condition, the status and the description.
const SHARED_RESPONSES: [(ResponseCondition, &str, &str); 14] = [
    (ResponseCondition::HasInput, "400", "A parameter or the body is malformed"),
    (ResponseCondition::Always, "400", "A header is given more than once, or the address is malformed"),
    (ResponseCondition::NamesUser, "404", "The key belongs to another user"),
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
    /// Operations that require a key, with a parameter that names a user.
    NamesUser,
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

/// Start of the routes that refuse query parameters that they do not have.
const STRICT_PREFIX: &str = "/api/v1/";

/// Starts of the routes among them that ignore unknown ones, as their original system does.
const LENIENT_PREFIXES: [&str; 2] = ["/api/v1/executions", "/api/v1/notifications"];

/// The methods of routes without any query parameter, by path. Requests with one are refused. Routes that have some refuse
/// others themselves.
pub(crate) fn collect_bare_methods(document: &Value) -> HashMap<String, Vec<Method>> {
    let has_query = |operation: &Value| {
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.any(|parameter| parameter["in"] == "query")
    };
    let read_method = |(method, operation): (&String, &Value)| {
        (!has_query(operation)).then(|| Method::from_bytes(method.to_uppercase().as_bytes()).ok())?
    };
    let items = document["paths"].as_object().into_iter().flatten();
    items
        .filter(|(path, _)| path.starts_with(STRICT_PREFIX))
        .filter(|(path, _)| !LENIENT_PREFIXES.iter().any(|prefix| path.starts_with(prefix)))
        .map(|(path, item)| (path.clone(), item.as_object().into_iter().flatten().filter_map(read_method).collect()))
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

fn names_user(operation: &Value) -> bool {
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.any(|parameter| parameter["name"] == "user" || parameter["name"] == "user_id")
}

fn add_responses(path: &str, method: &str, operation: &mut Value) {
    let applies = |when| match when {
        ResponseCondition::Always => true,
        ResponseCondition::HasInput => operation.get("parameters").is_some() || operation.get("requestBody").is_some(),
        ResponseCondition::ChangesState => method != "get" && method != "delete",
        ResponseCondition::RequiresKey => operation["security"][0]["key"].is_array(),
        ResponseCondition::NamesUser => operation["security"][0]["key"].is_array() && names_user(operation),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_routes() -> Value {
        let (_, document) = crate::routes::build_routes();
        complete_document(serde_json::to_value(document).expect("JSON"), None)
    }

    /// The operations of a document, each with its path and its method.
    fn list_operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
        let items = document["paths"].as_object().into_iter().flatten();
        items.flat_map(|(path, item)| {
            let operations = item.as_object().into_iter().flatten();
            operations.map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
    }

    #[test]
    fn what_the_guard_and_the_keys_refuse_is_described() {
        let document = describe_routes();
        for (name, operation) in list_operations(&document) {
            let responses = &operation["responses"];
            assert!(responses["400"].is_object(), "{name} refuses repeated headers");
            let has_key = operation["security"][0]["key"].is_array();
            assert!(!(has_key && names_user(operation)) || responses["404"].is_object(), "{name} names a user");
            assert!(!has_key || responses["503"].is_object(), "{name} reads keys");
        }
        assert!(document["paths"]["/hooks/{id}"]["post"]["responses"]["503"].is_object(), "hooks are read");
    }

    #[test]
    fn routes_without_parameters_are_known() {
        let bare = collect_bare_methods(&describe_routes());
        let is_bare = |path: &str, method: &Method| bare.get(path).is_some_and(|methods| methods.contains(method));
        assert!(is_bare("/api/v1/caller", &Method::GET) && is_bare("/api/v1/keys", &Method::POST));
        for (path, method) in [
            ("/api/v1/hooks", Method::GET),
            ("/api/v1/runs", Method::POST),
            // Their original systems, and OpenAI's clients, send parameters of their own.
            ("/api/v1/notifications/{id}", Method::GET),
            ("/api/workflows", Method::GET),
            ("/v1/models", Method::GET),
        ] {
            assert!(!is_bare(path, &method), "{method} {path}");
        }
    }
}
