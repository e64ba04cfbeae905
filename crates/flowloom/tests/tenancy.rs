//! The requests of one tenant neither stop the server nor take from others, and ends with the key that allowed it.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};

const JSON_TYPE: &str = "Content-Type: application/json";
const ACCEPT_BOTH: &str = "Accept: application/json, text/event-stream";

/// More than the sessions that one user may open.
const MANY_SESSIONS: usize = 260;

/// A key of a user with some scopes, as a header.
fn create_key(place: &Workspace, user: &str, scopes: &str) -> Key {
    let (code, made) = place.run_json(&["keys", "create", "--name", user, "--user", user, "--scopes", scopes]);
    assert_eq!(code, 0, "{made}");
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    Key { id: text("id"), header: format!("Authorization: Bearer {}", text("key")) }
}

struct Key {
    id: String,
    header: String,
}

impl Key {
    fn send(&self, server: &RunningServer, method: &str, path: &str, body: &Value) -> HttpAnswer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        server.send_and_read(method, path, &[JSON_TYPE, ACCEPT_BOTH, &self.header], &body)
    }
}

/// They reveal what other users spend, and how their runs end.
#[test]
fn metrics_are_for_whoever_is_responsible_for_all_users() {
    let place = Workspace::new("");
    let ann = create_key(&place, "ann", "read,run,write");
    let (_, made) = place.run_json(&["keys", "create", "--name", "prometheus", "--scopes", "read"]);
    let all =
        Key { id: String::new(), header: format!("Authorization: Bearer {}", made["key"].as_str().expect("a key")) };
    let server = RunningServer::start(&place, &[]);
    let read = |key: &Key| key.send(&server, "GET", "/metrics", &Value::Null);
    let refused = read(&ann);
    assert_eq!((refused.status, refused.error_code()), (403, "FL1503".to_owned()), "{refused:?}");
    assert!(refused.body.contains("this key acts for ann; use one without a user to read the figures"), "{refused:?}");
    assert_eq!(read(&all).status, 200);
}

/// A schema whose references branch `depth` times.
fn branching_schema(depth: usize) -> Value {
    let next = |at: usize| json!({"$ref": format!("#/$defs/d{}", at + 1)});
    let branches = (0..depth).map(|at| (format!("d{at}"), json!({"anyOf": [next(at), next(at)]})));
    let mut definitions: serde_json::Map<String, Value> = branches.collect();
    definitions.insert(format!("d{depth}"), json!({"type": "number"}));
    json!({"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}})
}

#[test]
fn a_schema_whose_references_branch_stops_nobody() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": branching_schema(60)}});
    let asked = json!({"model": "hello", "messages": [{"role": "user", "content": "{\"a\": \"x\"}"}], "response_format": format});
    let answer = server.post("/v1/chat/completions", &asked);
    assert!(answer.status >= 400 && answer.body.contains("too complex"), "{answer:?}");
    let block = json!({"id": "b", "name": "B", "description": "d", "execution_type": "python", "use_when": "x", "tags": [],
        "examples": [], "input_schema": branching_schema(60), "output_schema": {"type": "object", "properties": {}},
        "source_code": "async def execute(inputs, context):\n    return {}\n"});
    let pipeline =
        json!({"id": "p", "name": "p", "nodes": [{"id": "n", "block_id": "b", "inputs": {"a": "x"}}], "edges": []});
    let answer = server.post("/api/pipeline/run", &json!({"pipeline": pipeline, "blocks": [block], "user_id": "ann"}));
    assert!(answer.body.contains("too complex"), "{answer:?}");
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn calls_and_sessions_end_with_their_key() {
    let slow = TestServer::start();
    let place = Workspace::new(&slow.egress_config());
    place.write("calls.json", &two_calls_flow(&slow, "GET", "/slow"));
    let key = create_key(&place, "ann", "run,read");
    let server = RunningServer::start(&place, &[]);
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let session = key.send(&server, "POST", "/mcp", &initialize);
    let session = session.head.lines().find(|line| line.starts_with("mcp-session-id: ")).expect("a session").to_owned();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let body = json!({"workflow": "calls", "inputs": {}}).to_string();
            server.send_and_read("POST", "/api/v1/runs?wait=60", &[JSON_TYPE, &key.header], &body)
        });
        let stream = scope
            .spawn(|| server.stream("/mcp", &["Accept: text/event-stream", &key.header, &session]).collect::<Vec<_>>());
        slow.wait_for_requests("/slow", 1);
        let revoked = place.run(&["keys", "revoke", &key.id]);
        assert_eq!(exit_code(&revoked), 0, "{}", stderr_text(&revoked));
        let answer = waiting.join().expect("an answer");
        assert_eq!((answer.status, answer.error_code()), (401, "FL1502".to_owned()), "{answer:?}");
        drop(stream.join().expect("the stream ends"));
    });
    slow.release_slow();
}

#[test]
fn one_user_does_not_take_all_sessions() {
    let place = Workspace::with_hello("");
    let (ann, bob) = (create_key(&place, "ann", "run,read"), create_key(&place, "bob", "read"));
    let server = RunningServer::start(&place, &[]);
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let opened: Vec<u16> = (0..MANY_SESSIONS).map(|_| bob.send(&server, "POST", "/mcp", &initialize).status).collect();
    assert_eq!((opened[0], opened.last()), (200, Some(&429)));
    assert_eq!(ann.send(&server, "POST", "/mcp", &initialize).status, 200);
}

#[test]
fn asking_for_the_head_needs_the_same_scope_and_starts_nothing() {
    let place = Workspace::with_hello("");
    let (runs, writes) = (create_key(&place, "ann", "run"), create_key(&place, "bob", "write,run,read"));
    let server = RunningServer::start(&place, &[]);
    assert_eq!(runs.send(&server, "HEAD", "/api/v1/audit?limit=1", &Value::Null).status, 403);
    assert_eq!(writes.send(&server, "HEAD", "/api/v1/runs", &Value::Null).status, 200);
    assert_eq!(writes.send(&server, "HEAD", "/api/create-agent/stream?intent=x", &Value::Null).status, 405);
    let twice = [JSON_TYPE, &runs.header, &writes.header];
    assert_eq!(server.send_and_read("GET", "/api/v1/runs", &twice, "").status, 400);
}

#[test]
fn ids_are_checked_also_for_many_workflows_at_once() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let steps = json!({"name": "x", "steps": [{"name": "a", "functionId": "agent::chat", "mode": "sequential",
        "promptTemplate": "x", "errorMode": "fail"}]});
    for id in ["", "../../evil", "a\nb", "con\u{0}"] {
        let item = json!({"id": id, "entry": "x.json", "files": {"x.json": steps.to_string()}});
        let kind = [JSON_TYPE];
        let answer = server.send_and_read("PUT", "/api/v1/workflows", &kind, &json!({"items": [item]}).to_string());
        assert_eq!((answer.status, answer.error_code()), (400, "FL1505".to_owned()), "{id:?}: {answer:?}");
    }
}
