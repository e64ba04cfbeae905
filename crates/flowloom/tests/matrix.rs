//! Calls every route with no key, a wrong key, a revoked key, a key without the required scope, and another user's key.
//! The routes come from the OpenAPI document, so a new route without an entry here fails.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{Workspace, exit_code};

/// Operations that require no key (a hook has its own secret). All others must require one.
const OPEN_OPERATIONS: [&str; 8] =
    ["call_hook", "health", "is_live", "is_ready", "explain_code", "describe", "docs", "docs_part"];

/// An operation of the OpenAPI document.
struct ApiOperation {
    id: String,
    method: String,
    path: String,
    /// The required scope; `None` if no key is required.
    scope: Option<String>,
    has_body: bool,
}

fn list_operations(description: &Value) -> Vec<ApiOperation> {
    let items = description["paths"].as_object().expect("paths").iter();
    let all = items.flat_map(|(path, item)| item.as_object().expect("operations").iter().map(move |one| (path, one)));
    let operation = |(path, (method, one)): (&String, (&String, &Value))| ApiOperation {
        id: one["operationId"].as_str().expect("an id").to_owned(),
        method: method.to_uppercase(),
        path: path.clone(),
        scope: one["security"][0]["key"][0].as_str().map(str::to_owned),
        has_body: one.get("requestBody").is_some(),
    };
    all.map(operation).collect()
}

/// A server with API keys.
struct KeyedServer {
    place: Workspace,
    server: RunningServer,
}

impl KeyedServer {
    /// Calls an operation on the object `id`. The body is minimal, because authentication precedes reading it.
    fn call_operation(&self, operation: &ApiOperation, key: Option<&str>, id: &str) -> HttpAnswer {
        let key = key.map(|key| format!("Authorization: Bearer {key}"));
        let mut headers: Vec<&str> = key.iter().map(String::as_str).collect();
        if operation.has_body {
            headers.push("Content-Type: application/json");
        }
        let parts = operation.path.split('/').map(|part| if part.starts_with('{') { id } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        self.server.send_and_read(
            &operation.method,
            &path,
            &headers,
            if operation.has_body { request_body(operation) } else { "" },
        )
    }
}

/// A body that the operation accepts.
fn request_body(operation: &ApiOperation) -> &'static str {
    match operation.id.as_str() {
        "answer_run" => r#"{"value": "yes"}"#,
        "send_message" | "chat" => r#"{"message": "hi"}"#,
        "save_run_test" => r#"{"file": "test.json"}"#,
        "resolve_run" => r#"{"path": "/s", "how": "fail"}"#,
        _ => "{}",
    }
}

fn create_key(place: &Workspace, arguments: &[&str]) -> String {
    let output = place.run(&[&["keys", "create", "--name", "test"], arguments].concat());
    assert_eq!(exit_code(&output), 0);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Scopes that do not include the given one.
fn insufficient_scopes(scope: &str) -> &'static str {
    match scope {
        "read" => "run",
        "run" => "read,write",
        "write" => "read,run",
        _ => "read,run,write",
    }
}

#[test]
fn every_route_asks_for_a_key_that_allows_it() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let ann = create_key(&place, &["--user", "ann"]);
    let revoked = create_key(&place, &["--user", "ann"]);
    let (_, keys) = place.run_json(&["keys", "list"]);
    let last =
        keys.as_array().and_then(|keys| keys.last()).and_then(|key| key["id"].as_str()).expect("a key").to_owned();
    assert_eq!(exit_code(&place.run(&["keys", "revoke", &last])), 0);
    let small = |scope: &str| create_key(&place, &["--user", "ann", "--scopes", insufficient_scopes(scope)]);
    let smaller = [small("read"), small("run"), small("write"), small("admin")];
    let server = RunningServer::start(&place, &[]);
    let world = KeyedServer { place, server };
    let operations = list_operations(&world.server.get("/openapi.json").json());
    let ids: std::collections::BTreeSet<&str> = operations.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids.len(), operations.len(), "each operation has an id of its own");
    let run = start_waiting_run(&world, &ann);
    for operation in &operations {
        let id = &operation.id;
        let Some(scope) = &operation.scope else {
            assert!(
                OPEN_OPERATIONS.contains(&id.as_str()),
                "{id} requires no key; if that is intended, add it to the open operations"
            );
            assert!(id == "call_hook" || world.call_operation(operation, None, "x").status != 401, "{id}");
            continue;
        };
        let refused = |key: Option<&str>| {
            let reply = world.call_operation(operation, key, &run);
            (reply.status, reply.error_code())
        };
        assert_eq!(refused(None), (401, "FL1501".to_owned()), "{id} without a key");
        assert_eq!(refused(Some("fl_nobody")), (401, "FL1502".to_owned()), "{id} with a wrong key");
        assert_eq!(refused(Some(&revoked)), (401, "FL1502".to_owned()), "{id} with a revoked key");
        let scopes = ["read", "run", "write", "admin"];
        let small = scopes.iter().position(|one| one == scope).map(|index| &smaller[index]).expect("a scope");
        assert_eq!(refused(Some(small)), (403, "FL1503".to_owned()), "{id} needs {scope}");
        // The rejected requests had no effect.
        assert_eq!(run_status(&world, &ann, &run), "waiting", "{id}");
    }
    drop(world.place);
}

/// Starts a run of Ann's that waits.
fn start_waiting_run(world: &KeyedServer, key: &str) -> String {
    let headers = [&format!("Authorization: Bearer {key}"), "Content-Type: application/json"];
    let body = json!({"workflow": "ask-a-person", "inputs": "tea"}).to_string();
    let run = world.server.send_and_read("POST", "/api/v1/runs?wait=60", &headers, &body).json();
    run["run_id"].as_str().expect("an id").to_owned()
}

/// Sends a command to a run whose id is that of the run.
fn send_command(world: &KeyedServer, key: &str, run: &str) {
    let headers = [&*format!("Authorization: Bearer {key}"), &*format!("Idempotency-Key: {run}")];
    let sent = world.server.send_and_read("POST", &format!("/api/v1/runs/{run}/resume"), &headers, "");
    assert_eq!(sent.status, 200, "{sent:?}");
}

fn run_status(world: &KeyedServer, key: &str, run: &str) -> String {
    let headers = [format!("Authorization: Bearer {key}")];
    let run = world.server.send_and_read("GET", &format!("/api/v1/runs/{run}"), &[&headers[0]], "").json();
    run["status"].as_str().expect("a status").to_owned()
}

/// Ann's objects and ids that do not exist, by route prefix.
fn create_objects(world: &KeyedServer, ann: &str) -> Vec<(&'static str, String, &'static str)> {
    let call = |method: &str, path: &str, body: Value| {
        let headers = [&format!("Authorization: Bearer {ann}"), "Content-Type: application/json"];
        let reply = world.server.send_and_read(method, path, &headers, &body.to_string());
        assert!((200..300).contains(&reply.status), "{method} {path}: {reply:?}");
        reply.json()
    };
    let steps = json!({"id": "mine", "name": "n", "description": "d", "steps": []});
    call("PUT", "/api/v1/workflows/mine", steps);
    let part = json!({"name": "n", "description": "d", "category": "process", "execution_type": "llm",
        "prompt_template": "x", "input_schema": {}, "output_schema": {}});
    for kind in ["blocks", "agents", "tools"] {
        call("PUT", &format!("/api/v1/{kind}/mine"), part.clone());
    }
    call("PUT", "/api/v1/schedules/mine", json!({"workflow": "mine", "cron": "0 0 1 1 *"}));
    call("PUT", "/api/v1/hooks/mine", json!({"workflow": "mine"}));
    call("POST", "/api/agent-flows/save", json!({"name": "f", "uuid": "myflow", "config": {"steps": []}}));
    let node = json!({"id": "n1", "block_id": "notify_push", "inputs": {"title": "t", "body": "b"}});
    call("POST", "/api/pipelines", json!({"id": "mypipe", "name": "p", "nodes": [node], "edges": []}));
    let execution = call("POST", "/api/pipelines/mypipe/run", json!({}))["run_id"].as_str().expect("an id").to_owned();
    let notification = call("GET", "/api/notifications", Value::Null)[0]["id"].to_string();
    let node = json!({"id": "n", "workflowId": "mygraph", "nodeType": "AGENT", "nodeName": "A", "agentId": "mine"});
    let graph = json!({"id": "mygraph", "name": "g", "entrypointNodeId": "n", "nodes": [node], "edges": []});
    call("PUT", "/api/v1/workflows/mygraph", graph);
    call("POST", "/api/v1/threads/mygraph/mygraph?wait=60", json!({"message": "hi"}));
    let nobody = "01a1fe67-b4e7-7263-b0a5-000000000000";
    let named = |place, id: &str, none| (place, id.to_owned(), none);
    let run = start_waiting_run(world, ann);
    send_command(world, ann, &run);
    vec![
        ("/api/v1/runs/", run, nobody),
        ("/api/v1/executions/", execution.clone(), nobody),
        ("/api/executions/", execution, nobody),
        named("/v1/models/", "mine", "none"),
        (
            "/v1/responses/",
            format!("resp_{}", start_waiting_run(world, ann)),
            "resp_01a1fe67-b4e7-7263-b0a5-000000000000",
        ),
        named("/api/v1/workflows/", "mine", "none"),
        named("/api/v1/blocks/", "mine", "none"),
        named("/api/blocks/", "mine", "none"),
        named("/api/v1/agents/", "mine", "none"),
        named("/api/v1/tools/", "mine", "none"),
        named("/api/v1/schedules/", "mine", "none"),
        named("/api/v1/hooks/", "mine", "none"),
        named("/api/v1/threads/", "mygraph", "nograph"),
        named("/api/v1/memory/", "ann", "eve"),
        named("/api/memory/", "ann", "eve"),
        named("/api/agent-flows/", "myflow", "noflow"),
        named("/api/pipelines/", "mypipe", "nopipe"),
        ("/api/v1/notifications/", notification.clone(), "7777"),
        ("/api/notifications/", notification, "7777"),
    ]
}

#[test]
fn what_is_anothers_is_as_what_is_not_there() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let all = |user: &'static str| ["--scopes", "read,run,write", "--user", user];
    let (ann, bob) = (create_key(&place, &all("ann")), create_key(&place, &all("bob")));
    let server = RunningServer::start(&place, &[]);
    let world = KeyedServer { place, server };
    let objects = create_objects(&world, &ann);
    let operations = list_operations(&world.server.get("/openapi.json").json());
    let object = |operation: &ApiOperation| {
        let found = objects.iter().find(|(place, ..)| operation.path.starts_with(place));
        found.unwrap_or_else(|| panic!("{} has no object here", operation.id))
    };
    // Storing under an id that another user has creates an own object; memory is addressed by user.
    // Keys belong to administrators, and MCP servers to the configuration.
    let is_shared = |operation: &ApiOperation| {
        operation.scope.as_deref() == Some("admin") || operation.path.starts_with("/api/v1/servers/")
    };
    let names_one =
        |operation: &&ApiOperation| operation.path.contains('{') && operation.scope.is_some() && !is_shared(operation);
    let is_own = |operation: &ApiOperation| operation.method == "PUT" && !operation.path.contains("/memory/");
    for operation in operations.iter().filter(names_one).filter(|operation| !is_own(operation)) {
        let (_, id, none) = object(operation);
        let (theirs, absent) =
            (world.call_operation(operation, Some(&bob), id), world.call_operation(operation, Some(&bob), none));
        assert_eq!(theirs.status, 404, "{}: {theirs:?}", operation.id);
        let head = |reply: &HttpAnswer| {
            let varies = |line: &&str| {
                ["date:", "content-length:", "x-request-id:"].iter().any(|header| line.starts_with(header))
            };
            reply.head.lines().filter(|line| !varies(line)).collect::<String>()
        };
        assert_eq!(head(&theirs), head(&absent), "{}", operation.id);
        // The id is at the end of the message.
        assert_eq!(theirs.body.replace(&format!(" {id}\""), &format!(" {none}\"")), absent.body, "{}", operation.id);
    }
    // Ann's objects still exist.
    for operation in operations.iter().filter(names_one).filter(|operation| operation.method == "GET") {
        let (_, id, _) = object(operation);
        let hers = world.call_operation(operation, Some(&ann), id);
        assert_eq!(hers.status, 200, "{}: {hers:?}", operation.id);
    }
    drop(world.place);
}
