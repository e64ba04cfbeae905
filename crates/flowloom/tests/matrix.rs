//! Every route with no key, a wrong one, a revoked one, one of too small a scope, and one of another user. The routes are
//! those of the description, so that a new one without a row here fails.

mod support;

use serde_json::{Value, json};
use support::http::{Reply, Serving};
use support::{Place, exit};

/// Every operation that needs no key; a hook has a secret of its own. Whatever is not named here must ask for a key.
const OPEN: [&str; 7] = ["call_hook", "is_live", "is_ready", "explain_code", "describe", "docs", "docs_part"];

/// An operation of the description.
struct Operation {
    id: String,
    method: String,
    path: String,
    /// What its key must allow; `None` if it needs none.
    scope: Option<String>,
    has_body: bool,
}

fn operations(description: &Value) -> Vec<Operation> {
    let items = description["paths"].as_object().expect("paths").iter();
    let all = items.flat_map(|(path, item)| item.as_object().expect("operations").iter().map(move |one| (path, one)));
    let operation = |(path, (method, one)): (&String, (&String, &Value))| Operation {
        id: one["operationId"].as_str().expect("an id").to_owned(),
        method: method.to_uppercase(),
        path: path.clone(),
        scope: one["security"][0]["key"][0].as_str().map(str::to_owned),
        has_body: one.get("requestBody").is_some(),
    };
    all.map(operation).collect()
}

/// A server with keys.
struct World {
    place: Place,
    server: Serving,
}

impl World {
    /// Calls an operation on the object called `id`. Its body says nothing: who calls is asked before it is read.
    fn call(&self, operation: &Operation, key: Option<&str>, id: &str) -> Reply {
        let key = key.map(|key| format!("Authorization: Bearer {key}"));
        let mut headers: Vec<&str> = key.iter().map(String::as_str).collect();
        if operation.has_body {
            headers.push("Content-Type: application/json");
        }
        let parts = operation.path.split('/').map(|part| if part.starts_with('{') { id } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        self.server.call(&operation.method, &path, &headers, if operation.has_body { body(operation) } else { "" })
    }
}

/// A body that the operations on a run take.
fn body(operation: &Operation) -> &'static str {
    match operation.id.as_str() {
        "answer_run" => r#"{"value": "yes"}"#,
        "resolve_run" => r#"{"path": "/s", "how": "fail"}"#,
        _ => "{}",
    }
}

fn key(place: &Place, arguments: &[&str]) -> String {
    let output = place.run(&[&["keys", "create", "--name", "test"], arguments].concat());
    assert_eq!(exit(&output), 0);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Scopes that do not hold the one that is asked for.
fn too_small(scope: &str) -> &'static str {
    match scope {
        "read" => "run",
        "run" => "read,write",
        "write" => "read,run",
        _ => "read,run,write",
    }
}

#[test]
fn every_route_asks_for_a_key_that_allows_it() {
    let place = Place::new("default_model = \"scripted:echo\"\n");
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let (ann, bob) = (key(&place, &["--user", "ann"]), key(&place, &["--user", "bob"]));
    let revoked = key(&place, &["--user", "ann"]);
    let (_, keys) = place.json(&["keys", "list"]);
    let last =
        keys.as_array().and_then(|keys| keys.last()).and_then(|key| key["id"].as_str()).expect("a key").to_owned();
    assert_eq!(exit(&place.run(&["keys", "revoke", &last])), 0);
    let small = |scope: &str| key(&place, &["--user", "ann", "--scopes", too_small(scope)]);
    let smaller = [small("read"), small("run"), small("write"), small("admin")];
    let server = Serving::start(&place, &[]);
    let world = World { place, server };
    let operations = operations(&world.server.get("/openapi.json").json());
    let ids: std::collections::BTreeSet<&str> = operations.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids.len(), operations.len(), "each operation has an id of its own");
    let run = run_of(&world, &ann);
    for operation in &operations {
        let id = &operation.id;
        let Some(scope) = &operation.scope else {
            assert!(OPEN.contains(&id.as_str()), "{id} needs no key: is that meant?");
            assert!(id == "call_hook" || world.call(operation, None, "x").status != 401, "{id}");
            continue;
        };
        let refused = |key: Option<&str>| {
            let reply = world.call(operation, key, &run);
            (reply.status, reply.code())
        };
        assert_eq!(refused(None), (401, "FL1501".to_owned()), "{id} without a key");
        assert_eq!(refused(Some("fl_nobody")), (401, "FL1502".to_owned()), "{id} with a wrong key");
        assert_eq!(refused(Some(&revoked)), (401, "FL1502".to_owned()), "{id} with a revoked key");
        let scopes = ["read", "run", "write", "admin"];
        let small = scopes.iter().position(|one| one == scope).map(|index| &smaller[index]).expect("a scope");
        assert_eq!(refused(Some(small)), (403, "FL1503".to_owned()), "{id} needs {scope}");
        if operation.path.starts_with("/api/v1/runs/{id}") {
            let nobody = "01a1fe67-b4e7-7263-b0a5-000000000000";
            let (others, none) = (world.call(operation, Some(&bob), &run), world.call(operation, Some(&bob), nobody));
            assert_eq!((others.status, others.code()), (404, "FL1507".to_owned()), "{id} of another");
            let head = |reply: &Reply| reply.head.lines().filter(|line| !line.starts_with("date:")).collect::<String>();
            let same = |reply: &Reply| (head(reply), reply.body.replace(nobody, &run));
            assert_eq!(same(&others), same(&none), "{id} of another is as what is not there");
        }
        // Nothing of that had an effect.
        assert_eq!(status(&world, &ann, &run), "waiting", "{id}");
    }
    drop(world.place);
}

/// A run of Ann's that waits.
fn run_of(world: &World, key: &str) -> String {
    let headers = [&format!("Authorization: Bearer {key}"), "Content-Type: application/json"];
    let body = json!({"workflow": "ask-a-person", "inputs": "tea"}).to_string();
    let run = world.server.call("POST", "/api/v1/runs?wait=60", &headers, &body).json();
    run["run_id"].as_str().expect("an id").to_owned()
}

fn status(world: &World, key: &str, run: &str) -> String {
    let headers = [format!("Authorization: Bearer {key}")];
    let run = world.server.call("GET", &format!("/api/v1/runs/{run}"), &[&headers[0]], "").json();
    run["status"].as_str().expect("a status").to_owned()
}
