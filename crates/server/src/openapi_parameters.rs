//! The descriptions of path parameters in the OpenAPI document: the form of each id and name.

use serde_json::{Value, json};

/// Pattern of the ids under which definitions can be stored.
const STORED_ID_PATTERN: &str = "^[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,255}$";
/// Pattern of the ids of definitions, also of those in files: letters and digits of any script, and `-_.:`. Written
/// without classes of Unicode, which not every library of patterns knows.
const ID_PATTERN: &str = r"^[^\x00-,./;-@\[-^`{-\x7f][^\x00-,/;-@\[-^`{-\x7f]*$";
/// Pattern of the names of users: no slashes, and no blanks around it.
const USER_PATTERN: &str = r"^[^\x00-\x20\x7f/\\]([^\x00-\x1f\x7f/\\]*[^\x00-\x20\x7f/\\])?$";
/// Pattern of names that only lead to what exists.
const NAME_PATTERN: &str = r"^[^\x00-\x1f\x7f]+$";
/// Maximum length of the name of a user, in characters.
const MAX_USER_CHARS: u32 = 256;
/// Maximum length of a key of the memory, in bytes.
const MAX_KEY_BYTES: u32 = 1024;

/// Routes whose parameter `id` is the id of a stored definition, when the method changes it.
const DEFINITION_ROUTES: [&str; 6] = [
    "/api/v1/workflows/{id}",
    "/api/v1/blocks/{id}",
    "/api/v1/agents/{id}",
    "/api/v1/tools/{id}",
    "/api/blocks/{id}",
    "/api/pipelines/{id}",
];

/// Starts of the routes whose parameter `id` is the id of a definition.
const DEFINITION_PREFIXES: [&str; 6] =
    ["/api/v1/workflows/", "/api/v1/blocks/", "/api/v1/agents/", "/api/v1/tools/", "/api/blocks/", "/api/pipelines/"];

/// Starts of the routes whose parameter `id` is the id of a run.
const RUN_PREFIXES: [&str; 3] = ["/api/v1/runs/", "/api/v1/executions/", "/api/executions/"];

/// Adds the form of each parameter in the path of an operation.
pub(crate) fn complete_path_parameters(path: &str, method: &str, operation: &mut Value) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten();
    for parameter in parameters.filter(|parameter| parameter["in"] == "path") {
        if parameter["schema"]["type"] == "string" {
            let name = parameter["name"].as_str().unwrap_or_default();
            parameter["schema"] = describe_parameter(path, method, name);
        }
    }
}

fn describe_parameter(path: &str, method: &str, name: &str) -> Value {
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.starts_with(prefix));
    let is_changed = matches!(method, "put" | "delete") && DEFINITION_ROUTES.contains(&path);
    match name {
        "id" if starts_with(&RUN_PREFIXES) => json!({"type": "string", "format": "uuid"}),
        "id" if is_changed => json!({"type": "string", "pattern": STORED_ID_PATTERN}),
        "id" if starts_with(&DEFINITION_PREFIXES) => json!({"type": "string", "pattern": ID_PATTERN}),
        "workflow" | "uuid" | "thread" => json!({"type": "string", "pattern": ID_PATTERN}),
        "user" | "user_id" => json!({"type": "string", "pattern": USER_PATTERN, "maxLength": MAX_USER_CHARS}),
        "key" => json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_BYTES}),
        "code" => json!({"type": "string", "pattern": "^FL[0-9]{4}$"}),
        "file" => json!({"type": "string", "enum": ["docs.css", "docs.js"]}),
        _ => json!({"type": "string", "pattern": NAME_PATTERN}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_in_a_path_has_a_form() {
        let schema = |method: &str, path: &str, name: &str| {
            let parameter = json!({"name": name, "in": "path", "schema": {"type": "string"}});
            let mut operation = json!({"parameters": [parameter, {"name": "id", "in": "query", "schema": {}}]});
            complete_path_parameters(path, method, &mut operation);
            assert_eq!(operation["parameters"][1]["schema"], json!({}), "only parameters of the path");
            operation["parameters"][0]["schema"].clone()
        };
        assert_eq!(schema("get", "/api/v1/runs/{id}/events", "id")["format"], "uuid");
        assert_eq!(schema("put", "/api/v1/blocks/{id}", "id")["pattern"], STORED_ID_PATTERN);
        assert_eq!(schema("get", "/api/v1/blocks/{id}", "id")["pattern"], ID_PATTERN);
        assert_eq!(schema("get", "/api/v1/memory/{user}", "user")["maxLength"], MAX_USER_CHARS);
        assert_eq!(schema("get", "/v1/models/{id}", "id")["pattern"], NAME_PATTERN);
    }
}
