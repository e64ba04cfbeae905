//! Following runs: continuing streamed text after a lost connection, runs of other workers, and clients that do not
//! read.

mod support;

use std::io::Read as _;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::model::StreamingModel;
use support::{TestServer, Workspace};

const STEP_LIST: &str = r#"{"id": "step", "name": "step", "description": "d", "steps": [
  {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Say {{input}}"}]}"#;

/// The text of a client, assembled from deltas by their offsets.
#[derive(Default)]
struct ReceivedText(Vec<char>);

impl ReceivedText {
    /// Reads lines of a stream until the text has the given length or the stream ends.
    fn read_deltas(&mut self, lines: impl Iterator<Item = String>, length: usize) {
        for line in lines {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let data: Value = serde_json::from_str(data).expect("JSON");
            if let (Some(offset), Some(text)) = (data["offset"].as_u64(), data["text"].as_str()) {
                if offset == 0 {
                    self.0.clear();
                }
                assert_eq!(offset as usize, self.0.len(), "no gaps, no duplicates: {data}");
                self.0.extend(text.chars());
            }
            if self.0.len() >= length {
                return;
            }
        }
    }

    fn equals(&self, text: &str) -> bool {
        self.0.iter().collect::<String>() == text
    }
}

#[test]
fn after_a_lost_connection_the_text_continues() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("step.json", STEP_LIST);
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "step", "inputs": "hi"})).json();
    let path = format!("/api/v1/runs/{}/events?deltas=true", run["run_id"].as_str().expect("an id"));
    let mut text = ReceivedText::default();
    model.send_piece("Grüße ");
    text.read_deltas(server.stream(&path, &[]), 6);
    assert!(text.equals("Grüße "));
    // The client is disconnected now, while the model continues.
    model.send_piece("an ");
    let mut other = ReceivedText::default();
    other.read_deltas(server.stream(&path, &["Last-Event-ID: 3"]), 9);
    model.send_piece("alle 🎉");
    let lines = server.stream(&path, &["Last-Event-ID: 3"]);
    text.read_deltas(lines, 15);
    assert!(text.equals("Grüße an alle 🎉"));
    model.end_answer();
    let last: Vec<String> = server.stream(&path, &[]).collect();
    assert!(last.iter().any(|line| line == "event: done"), "{last:?}");
    let run = server.get(path.split("/events").next().expect("a path")).json();
    assert_eq!(run["output"], "Grüße an alle 🎉");
}

#[test]
fn the_answer_in_a_markdown_workflow_is_streamed() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write(
        "poem.mdx",
        "<Loop as=\"all\" until={$.index === 1}>\n\nWrite.\n\n<GenText as=\"poem\" model=\"test:m\" />\n\n</Loop>\n",
    );
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "poem"})).json();
    let path = format!("/api/v1/runs/{}/events?deltas=true", run["run_id"].as_str().unwrap_or_else(|| panic!("{run}")));
    let mut text = ReceivedText::default();
    model.send_piece("Roses ");
    text.read_deltas(server.stream(&path, &[]), 6);
    assert!(text.equals("Roses "), "before the answer has ended");
    model.send_piece("are red.");
    let mut all = ReceivedText::default();
    let mut lines = server.stream(&path, &[]);
    all.read_deltas(lines.by_ref(), 14);
    assert!(all.equals("Roses are red."));
    // The pieces of an answer are sent only while it grows; its event replaces them.
    model.end_answer();
    assert!(lines.any(|line| line == "event: done"));
    let ended = server.get(path.split("/events").next().expect("a path")).json();
    assert!(ended["output"].as_str().is_some_and(|output| output.contains("Roses are red.")), "{ended}");
}

#[test]
fn a_run_of_another_process_is_followed() {
    let slow = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", slow.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    let server = RunningServer::start(&place, &[]);
    let other = place.start(&["run", "flow.json", "--json"]);
    slow.wait_for_requests("/slow", 1);
    let id = server.get("/api/v1/runs").json()["items"][0]["run_id"].as_str().expect("a run").to_owned();
    let mut lines = server.stream(&format!("/api/v1/runs/{id}/events"), &[]);
    // Reads up to the pending request, which is released only afterwards.
    let received: Vec<String> = lines.by_ref().take_while(|line| !line.contains("/slow")).collect();
    assert!(received.iter().any(|line| line == "event: run_created"), "{received:?}");
    slow.release_slow();
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line == "event: run_finished"), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("\"status\":\"succeeded\"")), "{rest:?}");
    let ids = received.iter().chain(&rest).filter_map(|line| line.strip_prefix("id: ")?.parse::<u64>().ok());
    let ids: Vec<u64> = ids.collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    assert!(other.wait_with_output().expect("it ended").status.success());
}

/// Starts a run of a step list on one server, streams it on another one, and ends the answer only when its text has come there.
fn follow_text_of_another_server(model: &StreamingModel, first: &RunningServer, second: &RunningServer) {
    let run = first.post("/api/v1/runs", &json!({"workflow": "step", "inputs": "hi"})).json();
    let path = format!("/api/v1/runs/{}/events?deltas=true", run["run_id"].as_str().expect("an id"));
    model.send_piece("Grüße ");
    let mut text = ReceivedText::default();
    let mut lines = second.stream(&path, &[]);
    text.read_deltas(lines.by_ref(), 6);
    model.send_piece("an ");
    text.read_deltas(lines.by_ref(), 9);
    // One that comes later receives the text so far.
    let mut late = ReceivedText::default();
    let mut late_lines = second.stream(&path, &["Last-Event-ID: 3"]);
    late.read_deltas(late_lines.by_ref(), 9);
    let long = "alle 🎉".repeat(4_000);
    model.send_piece(&long);
    for (text, lines) in [(&mut text, &mut lines), (&mut late, &mut late_lines)] {
        text.read_deltas(lines.by_ref(), 9 + 24_000);
        assert!(text.equals(&format!("Grüße an {long}")));
    }
    model.end_answer();
    assert!(lines.any(|line| line == "event: done"));
}

#[test]
fn text_from_another_server_arrives_before_the_answer_has_ended() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let model = StreamingModel::start();
    let create_place = || {
        let place = Workspace::new(&format!("database = \"{}\"\n{}", database.url, model.config()));
        place.write("step.json", STEP_LIST);
        place
    };
    let (one, two) = (create_place(), create_place());
    let (first, second) = (RunningServer::start(&one, &[]), RunningServer::start(&two, &[]));
    follow_text_of_another_server(&model, &first, &second);
}

/// Peak memory of the server process, in MB.
fn peak_memory_mb(server: &RunningServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1024
}

#[test]
fn who_does_not_read_is_dropped_and_costs_little() {
    let slow = TestServer::start();
    let config =
        format!("default_model = \"scripted:echo\"\n{}[server]\nsend_timeout_ms = 300\n", slow.egress_config());
    let place = Workspace::new(&config);
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    place.write("step.json", STEP_LIST);
    let server = RunningServer::start(&place, &[]);
    // Its events have twenty megabytes, more than fits into the system's buffers.
    let step = |n: usize| json!({"name": format!("s{n}"), "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "{{input}}"});
    let steps: Vec<Value> = (0..20).map(step).collect();
    place.write("long.json", &json!({"id": "long", "name": "long", "description": "d", "steps": steps}).to_string());
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "long", "inputs": "x".repeat(1 << 20)})).json();
    let path = format!("/api/v1/runs/{}/events?deltas=true", run["run_id"].as_str().expect("an id"));
    let before = peak_memory_mb(&server);
    let mut deaf: Vec<_> = (0..16).map(|_| server.send("GET", &path, &[], "")).collect();
    // Other clients are still served.
    assert_eq!(server.post("/api/v1/runs?wait=60", &json!({"workflow": "step", "inputs": "hi"})).status, 200);
    // All of them are disconnected in the end.
    let is_over = || server.get("/metrics").body.contains("flowloom_followers 0\n");
    while !is_over() {}
    assert!(peak_memory_mb(&server) - before < 16 * 8, "{} MB more", peak_memory_mb(&server) - before);
    for stream in &mut deaf {
        let mut got = Vec::new();
        // The stream ends early, or fails because the connection was reset; it is never complete.
        let _ = stream.read_to_end(&mut got);
        assert!(!String::from_utf8_lossy(&got).contains("event: done"));
    }
}
