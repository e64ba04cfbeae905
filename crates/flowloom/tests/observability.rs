//! Observability of a server: traces, logs and metrics.

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace};

#[test]
fn an_ended_run_is_a_trace_at_the_collector() {
    let collector = TestServer::start();
    let place = Workspace::with_hello(&format!("[telemetry]\notlp = \"http://{}\"\n", collector.address));
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "a secret wish"})).json();
    collector.wait_for_requests("/v1/traces", 1);
    let body = collector.last_body("/v1/traces");
    for output in [
        "invoke_workflow hello",
        "chat scripted:echo",
        "gen_ai.usage.input_tokens",
        run["run_id"].as_str().expect("an id"),
    ] {
        assert!(body.contains(output), "{output} is not in {body}");
    }
    assert!(!body.contains("wish"), "prompts are not exported");
    assert!(
        collector.last_head("/v1/traces").contains("application/x-protobuf"),
        "{}",
        collector.last_head("/v1/traces")
    );
}

#[test]
fn logs_are_lines_of_json() {
    // Without this setting, the registry could log a warning at any time.
    let place = Workspace::with_hello("[embeddings]\nmodel = \"none\"\n");
    let arguments = ["serve", ".", "--bind", "127.0.0.1:0", "--log", "json"];
    let mut child = place.build_command(&arguments).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    let serving = next();
    assert_eq!((&serving["message"], &serving["level"]), (&json!("serving"), &json!("INFO")), "{serving}");
    let address = serving["address"].as_str().expect("an address").to_owned();
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    std::io::Write::write_all(&mut stream, format!("GET /nowhere HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .expect("sent");
    let call = next();
    assert_eq!(
        (&call["message"], &call["path"], &call["status"]),
        (&json!("call"), &json!("/nowhere"), &json!(404)),
        "{call}"
    );
    assert!(call["ms"].is_number() && call["timestamp"].is_string(), "{call}");
    support::send_signal(&child, "-TERM");
    assert_eq!(next()["message"], "stopped");
    assert!(child.wait().expect("ended").success());
}

#[test]
fn figures_count_what_is_there() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"}));
    let figures = server.get("/metrics").body;
    for line in
        ["flowloom_runs{status=\"succeeded\"} 1", "flowloom_oldest_unfinished_seconds 0", "flowloom_runs_live 0"]
    {
        assert!(figures.lines().any(|found| found == line), "{line} is not in {figures}");
    }
    assert!(figures.contains("\nflowloom_journal_bytes "), "{figures}");
}
