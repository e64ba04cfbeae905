//! Conversations over HTTP: one turn at a time across processes, and no duplicate messages.

mod support;

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::model::StreamingModel;
use support::{Workspace, exit_code, stderr_text};

/// A graph with one agent.
fn graph_json() -> Value {
    json!({"id": "g", "name": "g", "entrypointNodeId": "n", "edges": [],
        "nodes": [{"id": "n", "workflowId": "g", "nodeType": "AGENT", "nodeName": "Ann", "agentId": "ann"}]})
}

#[test]
fn a_turn_that_another_process_drives_is_waited_for() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("g.json", &graph_json().to_string());
    let server = RunningServer::start(&place, &[]);
    let thread = "/api/v1/threads/g/default";
    let started = server.post(thread, &json!({"message": "hello"}));
    assert_eq!(started.status, 202, "{started:?}");

    let mut chat = place.build_command(&["chat", "g.json"]);
    let mut chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    chat.stdin.take().expect("open").write_all(b"me too\n").expect("read");
    let refused = chat.wait_with_output().expect("it ends");
    assert!(stderr_text(&refused).contains("FL1202"), "{}", stderr_text(&refused));

    model.send_piece("Yes?");
    model.end_answer();
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    server.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({}));
    assert_eq!(server.get(thread).json()["messages"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_reply_is_said_once() {
    let place = Workspace::new("");
    let route = json!({"text": "", "tool_calls": [{"name": "router", "arguments": {"next_node": "human_handoff"}}]});
    let answers = place.write("answers.json", &json!({"default": route}).to_string());
    place.write("flowloom.toml", &format!("default_model = \"scripted:{}\"\n", answers.display()));
    place.write("helpdesk.json", include_str!("../../../examples/graph/helpdesk.json"));
    let server = RunningServer::start(&place, &[]);
    let say = |text: &str, key: &str| {
        let (kind, key) = ("Content-Type: application/json", format!("Idempotency-Key: {key}"));
        let body = json!({"message": text}).to_string();
        server.send_and_read("POST", "/api/v1/threads/helpdesk/t?wait=60", &[kind, &key], &body)
    };
    // The model always hands over to a person.
    let asked = say("I want to sue you", "a").json();
    assert_eq!(asked["status"], "waiting", "{asked}");
    let replied = say("We call back", "b").json();
    assert_eq!((&replied["status"], &replied["run_id"]), (&json!("waiting"), &asked["run_id"]), "{replied}");
    assert_eq!(say("We call back", "b").json(), replied);
    assert_eq!(say("Another thing", "b").status, 409);
    let said = server.get("/api/v1/threads/helpdesk/t").json();
    assert_eq!(said["messages"].as_array().map(Vec::len), Some(2), "{said}");
}

#[test]
fn a_stream_ends_when_its_key_is_revoked() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("g.json", &graph_json().to_string());
    let made = place.run(&["keys", "create", "--name", "test"]);
    let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim());
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "g", "inputs": {"message": "hello"}}).to_string();
    let started = server.send_and_read("POST", "/api/v1/runs", &[&key, "Content-Type: application/json"], &body);
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    let mut events = server.stream(&format!("/api/v1/runs/{run}/events"), &[&key]);
    assert!(events.any(|line| line == "event: step_started"), "the stream is open");

    let id = place.run_json(&["keys", "list"]).1[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(exit_code(&place.run(&["keys", "revoke", &id])), 0);
    let rest: Vec<String> = events.collect();
    assert!(!rest.iter().any(|line| line == "event: done"), "the run continues: {rest:?}");
}
