//! Questions with a time limit: a server continues their runs when no answer arrives, wherever the run is stored and
//! regardless of who started it.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

const CONFIG: &str = "default_model = \"scripted:echo\"\nrecovery_interval_ms = 50\n";

/// Long enough that the run is suspended before.
const LIMIT_MS: u64 = 1_500;

/// A step list that asks, and continues without an answer after `limit_ms`.
fn asking_steps(limit_ms: u64) -> Value {
    let step = |name: &str, function: &str, prompt: &str, error_mode: &str| json!({"name": name, "functionId": function, "mode": "sequential", "promptTemplate": prompt, "errorMode": error_mode});
    let mut ask = step("ask", "human::ask", "Which city?", "skip");
    ask["timeoutMs"] = limit_ms.into();
    ask["outputVar"] = "city".into();
    json!({"id": "ask", "name": "Ask", "steps": [ask, step("write", "agent::chat", "Write about {{city}}.", "fail")]})
}

fn create_workspace(config: &str, limit_ms: u64) -> Workspace {
    let place = Workspace::new(&format!("{config}{CONFIG}"));
    place.write("ask.json", &asking_steps(limit_ms).to_string());
    place
}

/// Starts a run that asks, and returns its id.
fn start_asking(server: &RunningServer, workflow: &str) -> String {
    let asked = server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": "x"})).json();
    asked["run_id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn assert_gave_up(ended: &Value) {
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert!(ended.to_string().contains("no answer within 1500 ms"), "{ended}");
}

#[test]
fn a_question_expires_on_every_store() {
    let database = test_postgres::TestDatabase::create_database();
    let postgres = database.iter().map(|it| format!("database = \"{}\"\n", it.url));
    for config in postgres.chain([String::new(), "durability = \"memory\"\n".to_owned()]) {
        let place = create_workspace(&config, LIMIT_MS);
        let server = RunningServer::start(&place, &[]);
        let run = start_asking(&server, "ask");
        assert_gave_up(&server.follow_to_end(&run));
    }
}

#[test]
fn a_question_of_a_child_run_expires() {
    let place = Workspace::new(CONFIG);
    let server = RunningServer::start(&place, &[]);
    let call = json!({"workflowId": "ask", "input": "x"}).to_string();
    let run = json!({"name": "run", "functionId": "workflow::run", "mode": "sequential", "promptTemplate": call, "errorMode": "fail"});
    let store = |id: &str, definition: Value| {
        let kind = ["Content-Type: application/json"];
        let stored = server.send_and_read("PUT", &format!("/api/v1/workflows/{id}"), &kind, &definition.to_string());
        assert_eq!(stored.status, 201, "{stored:?}");
    };
    store("ask", asking_steps(LIMIT_MS));
    store("outer", json!({"id": "outer", "name": "Outer", "steps": [run]}));
    let run = start_asking(&server, "outer");
    let ended = server.follow_to_end(&run);
    assert_eq!(ended["status"], "succeeded", "{ended}");
}

#[test]
fn a_server_continues_what_the_terminal_left_waiting() {
    let place = create_workspace("", LIMIT_MS);
    let left = place.run(&["run", "ask.json", "-i", "input=x"]);
    assert_eq!(exit_code(&left), 4, "{}", stderr_text(&left));
    let server = RunningServer::start(&place, &[]);
    let runs = server.get("/api/v1/runs").json();
    let run = runs["runs"][0]["run_id"].as_str().or(runs["items"][0]["run_id"].as_str()).expect("a run").to_owned();
    assert_gave_up(&server.follow_to_end(&run));
}

#[test]
fn a_question_says_when_it_expires_and_can_be_answered_before() {
    let place = create_workspace("", 3_600_000);
    let server = RunningServer::start(&place, &[]);
    let run = start_asking(&server, "ask");
    let waiting = server.get(&format!("/api/v1/runs/{run}")).json();
    assert!(waiting["steps"][0]["expires_at"].is_u64(), "{waiting}");
    let ended = server.post(&format!("/api/v1/runs/{run}/answer?wait=60"), &json!({"value": "Oslo"})).json();
    assert_eq!(ended["status"], "succeeded", "{ended}");
}
