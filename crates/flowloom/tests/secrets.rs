//! Secrets go only to the hosts, users and workflows that the configuration binds them to, and never into records.

mod support;

use base64::Engine as _;
use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace, exit_code, stderr_text};

/// The values of the secrets of these tests.
const SHOP: &str = "shop-4f1c99-canary";
const OTHER: &str = "other-77aa01-canary";

/// A flow that sends a secret to a path of the receiver.
fn sending_flow(receiver: &TestServer, secret: &str, path: &str) -> Value {
    let url = format!("http://{}{path}", receiver.address);
    json!({"name": "Send", "description": "d", "steps": [{"type": "apiCall", "config": {"url": url, "method": "GET",
        "headers": [{"key": "x-key", "value": format!("${{secret.{secret}}}")}], "responseVariable": "reply"}}]})
}

fn create_workspace(receiver: &TestServer, secrets: &str) -> Workspace {
    Workspace::new(&format!("default_model = \"scripted:echo\"\n{}{secrets}", receiver.egress_config()))
}

fn start_server(place: &Workspace) -> RunningServer {
    RunningServer::start_with(place, &[], &[("FLOWLOOM_SECRET_SHOP", SHOP), ("FLOWLOOM_SECRET_OTHER", OTHER)])
}

/// A client with a key of a user.
struct Tenant<'a> {
    server: &'a RunningServer,
    key: String,
}

impl<'a> Tenant<'a> {
    fn new(place: &Workspace, server: &'a RunningServer, user: &str) -> Tenant<'a> {
        let made = place.run(&["keys", "create", "--name", user, "--user", user, "--scopes", "run,read,write"]);
        let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim());
        Tenant { server, key }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> HttpAnswer {
        self.server.send_and_read(method, path, &[&self.key, "Content-Type: application/json"], &body.to_string())
    }

    /// Stores a flow and runs it.
    fn run_flow(&self, flow: &Value) -> Value {
        let stored = self.send("PUT", "/api/v1/workflows/mine", flow);
        assert!((200..300).contains(&stored.status), "{stored:?}");
        self.send("POST", "/api/v1/runs?wait=60", &json!({"workflow": "mine", "inputs": {}})).json()
    }
}

#[test]
fn a_user_cannot_send_a_secret_that_does_not_list_them() {
    let receiver = TestServer::start();
    let bound = format!("[secrets.SHOP]\nhosts = [\"{}\"]\nusers = [\"ann\"]\n", receiver.address);
    let place = create_workspace(&receiver, &bound);
    place.write("own.json", &sending_flow(&receiver, "SHOP", "/own").to_string());
    let key = place.run(&["keys", "create", "--name", "first"]);
    assert_eq!(exit_code(&key), 0, "{}", stderr_text(&key));
    let server = start_server(&place);
    let (ann, bob) = (Tenant::new(&place, &server, "ann"), Tenant::new(&place, &server, "bob"));

    let stolen = bob.run_flow(&sending_flow(&receiver, "SHOP", "/steal"));
    assert_eq!(stolen["error"]["code"], "FL1039", "{stolen}");
    let unbound = ann.run_flow(&sending_flow(&receiver, "OTHER", "/steal"));
    assert_eq!(unbound["error"]["code"], "FL1039", "{unbound}");
    assert_eq!(receiver.request_count("/steal"), 0);

    let listed = ann.run_flow(&sending_flow(&receiver, "SHOP", "/listed"));
    assert_eq!(listed["status"], "succeeded", "{listed}");
    assert!(receiver.last_head("/listed").contains(SHOP));

    // The operator's own flow uses the secret on behalf of everyone.
    let own = bob.send("POST", "/api/v1/runs?wait=60", &json!({"workflow": "own", "inputs": {}})).json();
    assert_eq!(own["status"], "succeeded", "{own}");
    assert!(receiver.last_head("/own").contains(SHOP));
}

#[test]
fn a_workflow_that_a_user_calls_as_a_function_has_no_more_rights() {
    let receiver = TestServer::start();
    let config = format!(
        "[functions.\"my::send\"]\nworkflow = \"own.json\"\n[secrets.SHOP]\nhosts = [\"{}\"]\nusers = [\"ann\"]\n",
        receiver.address
    );
    let place = create_workspace(&receiver, &config);
    place.write("own.json", &sending_flow(&receiver, "SHOP", "/own").to_string());
    assert_eq!(exit_code(&place.run(&["keys", "create", "--name", "first"])), 0);
    let server = start_server(&place);
    let steps = json!({"id": "mine", "name": "mine", "description": "d", "steps": [
        {"name": "s", "functionId": "my::send", "mode": "sequential", "errorMode": "fail", "promptTemplate": "x"}]});
    let refused = Tenant::new(&place, &server, "bob").run_flow(&steps);
    assert_eq!((&refused["status"], receiver.request_count("/own")), (&json!("failed"), 0), "{refused}");
    let listed = Tenant::new(&place, &server, "ann").run_flow(&steps);
    assert_eq!((&listed["status"], receiver.request_count("/own")), (&json!("succeeded"), 1), "{listed}");
}

#[test]
fn a_secret_is_not_sent_to_another_host() {
    let (receiver, other) = (TestServer::start(), TestServer::start());
    let config = format!(
        "[egress]\nallow = [\"{}\", \"{}\"]\n[secrets.SHOP]\nhosts = [\"{}\"]\n",
        receiver.address, other.address, receiver.address
    );
    let place = Workspace::new(&config);
    let run = |receiver: &TestServer| {
        place.write("send.json", &sending_flow(receiver, "SHOP", "/sent").to_string());
        place.build_command(&["run", "send.json"]).env("FLOWLOOM_SECRET_SHOP", SHOP).output().expect("it runs")
    };
    assert_eq!(exit_code(&run(&receiver)), 0);
    assert_eq!(receiver.request_count("/sent"), 1);
    let denied = run(&other);
    assert_eq!(exit_code(&denied), 1);
    assert!(stderr_text(&denied).contains("it is bound to"), "{}", stderr_text(&denied));
    assert_eq!(other.request_count("/sent"), 0);
}

#[test]
fn a_secret_that_a_server_returns_encoded_is_not_recorded() {
    let receiver = TestServer::start();
    let place = create_workspace(&receiver, "");
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("user:{OTHER}"));
    let hex: String = OTHER.bytes().map(|byte| format!("{byte:02x}")).collect();
    // The receiver returns the path. The requests do not use the secret that is in it.
    for (name, path) in [("plain", OTHER), ("base64", encoded.as_str()), ("hex", hex.as_str())] {
        let flow = sending_flow(&receiver, "SHOP", &format!("/{path}"));
        place.write(&format!("{name}.json"), &flow.to_string());
    }
    let server = start_server(&place);
    for (name, path) in [("plain", OTHER), ("base64", encoded.as_str()), ("hex", hex.as_str())] {
        let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": name, "inputs": {}})).json();
        assert_eq!(run["status"], "succeeded", "{run}");
        let events = server.get(&format!("/api/v1/runs/{}/events", run["run_id"].as_str().expect("an id"))).body;
        let finished = events.lines().find(|line| line.contains("\"step_finished\"")).expect("the step finished");
        assert!(finished.contains("${secret.OTHER}"), "{name}: {events}");
        let middle = &path[8..path.len() - 4];
        assert!(!finished.contains(middle) && !run["output"].to_string().contains(middle), "{name}: {events}");
    }
}

#[test]
fn variables_of_blocks_are_not_recorded() {
    let receiver = TestServer::start();
    let place = create_workspace(&receiver, "[sandbox]\nenv = [\"SERPER_API_KEY\"]\n");
    // The receiver returns the path.
    place.write("flow.json", &sending_flow(&receiver, "SHOP", &format!("/{OTHER}")).to_string());
    let server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_SECRET_SHOP", SHOP), ("SERPER_API_KEY", OTHER)]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "flow", "inputs": {}})).json();
    assert_eq!(run["status"], "succeeded", "{run}");
    let events = server.get(&format!("/api/v1/runs/{}/events", run["run_id"].as_str().expect("an id"))).body;
    let finished = events.lines().find(|line| line.contains("\"step_finished\"")).expect("the step finished");
    assert!(finished.contains("${secret.SERPER_API_KEY}") && !finished.contains(OTHER), "{finished}");
}

#[test]
fn a_pipeline_sends_secrets_in_requests_only() {
    let receiver = TestServer::start();
    let place = create_workspace(&receiver, "");
    let url = format!("http://{}/called?q={{{{secret.SHOP}}}}", receiver.address);
    let headers = json!({"Authorization": "Bearer {{secret.SHOP}}"});
    let node = json!({"id": "call", "block_id": "http_request",
        "inputs": {"url": url, "method": "POST", "headers": headers, "body": "{\"key\": \"{{secret.OTHER}}\"}"}});
    let pipeline = |node: &Value| json!({"id": "p", "name": "p", "nodes": [node], "edges": []});
    place.write("send.json", &pipeline(&node).to_string());
    let run = |file: &str| {
        let mut command = place.build_command(&["run", file, "--json"]);
        command.env("FLOWLOOM_SECRET_SHOP", SHOP).env("FLOWLOOM_SECRET_OTHER", OTHER);
        command.output().expect("it runs")
    };
    let sent = run("send.json");
    assert_eq!(exit_code(&sent), 0, "{}", stderr_text(&sent));
    let path = format!("/called?q={SHOP}");
    assert_eq!(receiver.request_count(&path), 1);
    assert!(receiver.last_head(&path).contains(&format!("Bearer {SHOP}")), "{}", receiver.last_head(&path));
    assert_eq!(receiver.last_body(&path), format!("{{\"key\": \"{OTHER}\"}}"));
    assert!(!String::from_utf8_lossy(&sent.stdout).contains("canary"));

    let block = json!({"id": "echo", "name": "Echo", "description": "d", "category": "process",
        "execution_type": "python", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "output_schema": {"type": "object", "properties": {}}, "source_code": "def execute(inputs, context):\n    return inputs\n"});
    let python = json!({"id": "n", "block_id": "echo", "inputs": {"text": "{{secret.SHOP}}"}});
    let mut whole = pipeline(&python);
    whole["blocks"] = json!([block]);
    place.write("python.json", &whole.to_string());
    let refused = run("python.json");
    assert_eq!(exit_code(&refused), 2, "{}", stderr_text(&refused));
    let output = String::from_utf8_lossy(&refused.stdout).into_owned() + &stderr_text(&refused);
    assert!(output.contains("FL0115"), "{output}");
}

#[test]
fn code_that_is_sent_needs_the_scope_write() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let made = place.run(&["keys", "create", "--name", "k", "--user", "ann", "--scopes", "run,read"]);
    let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim());
    let server = RunningServer::start(&place, &[]);
    let pipeline = json!({"pipeline": {"id": "p", "name": "p", "nodes": [], "edges": []}});
    for path in ["/api/pipeline/run", "/api/pipeline/run/stream"] {
        let headers = [key.as_str(), "Content-Type: application/json"];
        let refused = server.send_and_read("POST", path, &headers, &pipeline.to_string());
        assert_eq!((refused.status, refused.error_code().as_str()), (403, "FL1503"), "{path}: {refused:?}");
    }
}
