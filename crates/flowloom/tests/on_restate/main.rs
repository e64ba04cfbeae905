//! Runs on a real Restate server: starting, watching, answering and retrying work as without it, and a killed worker
//! loses nothing.

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod features;
mod workers;

use std::time::Duration;

use cluster::Cluster;
use serde_json::{Value, json};
use support::http::RunningServer;
use support::model::StreamingModel;
use support::{TestServer, Workspace, exit_code, send_signal, stderr_text, two_calls_flow};
use test_restate::free_addresses;

/// Settings under which abandoned runs are found quickly.
pub(crate) const CONFIG: &str = "default_model = \"scripted:echo\"\nrecovery_interval_ms = 50\n";

/// The events of the last run, without times and ids.
pub(crate) fn read_events(place: &Workspace) -> Vec<Value> {
    let log = place.run(&["logs", "last", "--json"]);
    let strip = |mut event: Value| {
        for key in ["run", "at"] {
            event.as_object_mut().expect("an object").remove(key);
        }
        // The configuration differs by the engine only.
        if let Some(data) = event.get_mut("data").and_then(Value::as_object_mut) {
            data.remove("project");
        }
        event
    };
    let events: Vec<Value> = serde_json::from_slice(&log.stdout).expect("JSON");
    events.into_iter().map(strip).collect()
}

pub(crate) const ASK: &str = r#"{"id": "ask", "name": "ask", "description": "d", "steps": [
  {"name": "subject", "functionId": "human::ask", "mode": "sequential", "errorMode": "fail",
   "promptTemplate": "About what?", "outputVar": "subject"},
  {"name": "poem", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
   "promptTemplate": "A poem about {{subject}}", "outputVar": "poem"}]}"#;

pub(crate) const HELLO: &str = r#"{"id": "hello", "name": "hello", "description": "d", "steps": [
  {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Say hello"}]}"#;

#[test]
fn a_run_in_the_terminal_looks_as_on_the_built_in_engine() {
    let Some(cluster) = Cluster::start("") else { return };
    let built_in = Workspace::new(CONFIG);
    let mut seen = Vec::new();
    for place in [&built_in, &cluster.place] {
        place.write("hello.json", HELLO);
        place.write("ask.json", ASK);
        let output = place.run(&["run", "hello.json"]);
        assert_eq!((exit_code(&output), String::from_utf8_lossy(&output.stdout).trim()), (0, "LLM(Say hello)"));
        let hello = read_events(place);
        let (exit, waiting) = place.run_json(&["run", "ask.json"]);
        assert_eq!((exit, &waiting["status"]), (4, &json!("waiting")), "{waiting}");
        let (exit, answered) = place.run_json(&["answer", "last", "rain"]);
        assert_eq!((exit, &answered["output"]), (0, &json!("LLM(A poem about rain)")), "{answered}");
        let replayed = place.run(&["replay", "last"]);
        assert_eq!(exit_code(&replayed), 0, "{}", stderr_text(&replayed));
        seen.push((hello, read_events(place)));
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_waiting_run_is_cancelled_and_retried() {
    let Some(cluster) = Cluster::start("") else { return };
    let place = &cluster.place;
    place.write("ask.json", ASK);
    assert_eq!(exit_code(&place.run(&["run", "ask.json"])), 4);
    let cancelled = place.run(&["cancel", "last"]);
    assert_eq!(exit_code(&cancelled), 0, "{}", stderr_text(&cancelled));
    let (_, shown) = place.run_json(&["show", "last"]);
    assert_eq!(shown["status"], "cancelled", "{shown}");
    // Twice, because each reopening is a workflow of its own.
    for _ in 0..2 {
        let (exit, retried) = place.run_json(&["retry", "last", "--from", "/subject"]);
        assert_eq!((exit, &retried["status"]), (4, &json!("waiting")), "{retried}");
        assert_eq!(exit_code(&place.run(&["cancel", "last"])), 0);
    }
    assert_eq!(place.run_json(&["retry", "last", "--from", "/subject"]).0, 4);
    let (exit, answered) = place.run_json(&["answer", "last", "snow"]);
    assert_eq!((exit, &answered["output"]), (0, &json!("LLM(A poem about snow)")), "{answered}");
}

#[test]
fn a_command_that_no_worker_applies_is_stored_and_says_so() {
    let Some(mut cluster) = Cluster::start("") else { return };
    cluster.place.write("ask.json", ASK);
    assert_eq!(exit_code(&cluster.place.run(&["run", "ask.json"])), 4);
    cluster.kill_workers();
    let sent = cluster.place.run(&["answer", "last", "rain"]);
    assert_eq!(exit_code(&sent), 7, "{}", stderr_text(&sent));
    assert!(stderr_text(&sent).contains("is stored, but no worker has applied it"), "{}", stderr_text(&sent));
    // The command itself applies a cancellation.
    let cancelled = cluster.place.run(&["cancel", "last"]);
    assert_eq!(exit_code(&cancelled), 0, "{}", stderr_text(&cancelled));
    assert_eq!(cluster.place.run_json(&["show", "last"]).1["status"], "cancelled");
}

#[test]
fn a_server_starts_and_streams_runs_of_workers() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.place.write("hello.json", HELLO);
    cluster.place.write("ask.json", ASK);
    let server = RunningServer::start(&cluster.place, &[]);
    let ended = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"})).json();
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!("LLM(Say hello)")), "{ended}");
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask"})).json();
    assert_eq!(run["status"], "waiting", "{run}");
    let id = run["run_id"].as_str().expect("an id");
    let answered =
        server.post(&format!("/api/v1/runs/{id}/answer?wait=60"), &json!({"path": "/subject", "value": "fog"}));
    assert!(answered.status < 300, "{answered:?}");
    let lines: Vec<String> = server.stream(&format!("/api/v1/runs/{id}/events"), &[]).collect();
    let names: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names.last(), Some(&"done"), "{names:?}");
    assert_eq!(names.iter().filter(|name| **name == "run_finished").count(), 1, "{names:?}");
}

#[test]
fn text_from_a_worker_arrives_before_the_answer_has_ended() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let model = StreamingModel::start();
    let Some(mut cluster) = Cluster::create("") else { return };
    let (url, restate) = (&database.url, cluster.restate.ingress());
    let config = format!("database = \"{url}\"\n{}[engine]\nrestate = \"{restate}\"\n", model.config());
    cluster.place.write("flowloom.toml", &config);
    cluster.place.write("hello.json", HELLO);
    cluster.start_worker();
    let server = RunningServer::start(&cluster.place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "hello"})).json();
    let path = format!("/api/v1/runs/{}/events?deltas=true", run["run_id"].as_str().expect("an id"));
    let mut lines = server.stream(&path, &[]);
    for piece in ["Hello, ", "world"] {
        model.send_piece(piece);
        let text = format!("\"text\":\"{piece}\"");
        assert!(lines.any(|line| line.starts_with("data: ") && line.contains(&text)), "{piece:?} has not come");
    }
    model.end_answer();
    assert!(lines.any(|line| line.contains("\"output\":\"Hello, world\"")), "no output");
}

#[test]
fn a_killed_workers_run_is_continued_by_another_one() {
    let world = TestServer::start();
    let Some(mut cluster) = Cluster::start(&world.egress_config()) else { return };
    cluster.place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let started = cluster.place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    cluster.kill_workers();
    cluster.start_worker();
    world.wait_for_requests("/slow", 2);
    world.release_slow();
    let ended = started.wait_with_output().expect("it ends");
    assert_eq!(exit_code(&ended), 0, "{}", stderr_text(&ended));
    assert_eq!(world.request_count("/first"), 1, "a finished step is not repeated");
}

#[test]
fn ctrl_c_stops_following_and_the_worker_continues() {
    let world = TestServer::start();
    let Some(cluster) = Cluster::start(&world.egress_config()) else { return };
    cluster.place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let started = cluster.place.start(&["run", "flow.json", "--json"]);
    world.wait_for_requests("/slow", 1);
    send_signal(&started, "-INT");
    let stopped = started.wait_with_output().expect("it ends");
    let printed = stderr_text(&stopped);
    assert!(exit_code(&stopped) == 130 && printed.contains("the run stays with Restate"), "{printed}");
    let summary: Value = serde_json::from_slice(&stopped.stdout).expect("JSON");
    assert_eq!(summary["status"], "running", "{summary}");
    world.release_slow();
    let shown = cluster.place.run(&["show", "last", "--follow"]);
    assert_eq!(exit_code(&shown), 0, "{}", stderr_text(&shown));
    assert_eq!(cluster.place.run_json(&["show", "last"]).1["status"], "succeeded");
    assert_eq!(world.request_count("/slow"), 1, "nothing was sent again");
}

#[test]
fn a_request_that_a_killed_worker_may_have_sent_is_uncertain() {
    let world = TestServer::start();
    let Some(mut cluster) = Cluster::start(&world.egress_config()) else { return };
    cluster.place.write("flow.json", &two_calls_flow(&world, "POST", "/slow"));
    let started = cluster.place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    cluster.kill_workers();
    cluster.start_worker();
    let ended = started.wait_with_output().expect("it waits");
    assert_eq!((exit_code(&ended), world.request_count("/slow")), (6, 1), "{}", stderr_text(&ended));
    world.release_slow();
    let (exit, resolved) = cluster.place.run_json(&["resolve", "last", "/two", "--resend"]);
    assert_eq!((exit, &resolved["status"]), (0, &json!("succeeded")), "{resolved}");
    assert_eq!(world.request_count("/slow"), 2, "it is sent again because someone asked for it");
}

#[test]
fn a_killed_restate_server_loses_no_run() {
    let world = TestServer::start();
    let Some(mut cluster) = Cluster::start(&world.egress_config()) else { return };
    cluster.place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let started = cluster.place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    cluster.restate.start_again();
    world.release_slow();
    let ended = started.wait_with_output().expect("it ends");
    assert_eq!(exit_code(&ended), 0, "{}", stderr_text(&ended));
    assert_eq!(world.request_count("/first"), 1, "a finished step is not repeated");
}

/// The worker lives, so it knows how the request ends, whenever that is and whichever worker continues the run.
#[test]
fn a_request_that_must_not_be_sent_twice_outlives_the_restate_server() {
    for ends_while_down in [true, false] {
        let world = TestServer::start();
        let Some(mut cluster) = Cluster::start(&world.egress_config()) else { return };
        cluster.place.write("flow.json", &two_calls_flow(&world, "POST", "/slow"));
        let started = cluster.place.start(&["run", "flow.json"]);
        world.wait_for_requests("/slow", 1);
        cluster.start_worker();
        cluster.restate.kill();
        if ends_while_down {
            world.release_slow();
        }
        cluster.restate.start_again();
        world.release_slow();
        let ended = started.wait_with_output().expect("it ends");
        assert_eq!(exit_code(&ended), 0, "{ends_while_down}: {}", stderr_text(&ended));
        assert_eq!((world.request_count("/first"), world.request_count("/slow")), (1, 1));
        assert_eq!(exit_code(&cluster.place.run(&["replay", "last"])), 0);
    }
}

/// Restate receives the start of the request, and the worker does not hear of it: nothing was sent.
#[test]
fn a_request_that_no_worker_has_sent_is_sent_when_restate_continues() {
    let world = TestServer::start();
    let Some(cluster) = Cluster::start(&world.egress_config()) else { return };
    let call = |path: &str, method: &str| {
        let url = format!("http://{}{path}", world.address);
        json!({"type": "apiCall", "config": {"url": url, "method": method, "headers": [], "bodyType": "json", "body": "{}"}})
    };
    let steps = [call("/slow", "GET"), call("/second", "POST")];
    cluster.place.write("flow.json", &json!({"name": "f", "description": "d", "steps": steps}).to_string());
    let started = cluster.place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    cluster.restate.hang();
    world.release_slow();
    // Longer than the worker waits for an answer to its ping.
    cluster.restate.pause(Duration::from_secs(17));
    let ended = started.wait_with_output().expect("it ends");
    assert_eq!(exit_code(&ended), 0, "{}", stderr_text(&ended));
    assert_eq!(world.request_count("/second"), 1);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let [nobody] = free_addresses();
    let place = Workspace::new(&format!("{CONFIG}[engine]\nrestate = \"http://{nobody}\"\n"));
    place.write("hello.json", HELLO);
    let output = place.run(&["run", "hello.json"]);
    let printed = stderr_text(&output);
    assert_eq!(exit_code(&output), 1, "{printed}");
    assert!(printed.contains("FL1309") && printed.contains(&nobody.to_string()), "{printed}");
}

#[test]
fn a_server_without_workers_is_named() {
    let Some(cluster) = Cluster::create("") else { return };
    cluster.place.write("hello.json", HELLO);
    let output = cluster.place.run(&["run", "hello.json"]);
    let printed = stderr_text(&output);
    assert_eq!(exit_code(&output), 1, "{printed}");
    assert!(printed.contains("FL1309") && printed.contains("flowloom worker"), "{printed}");
}

#[test]
fn a_wrong_engine_is_refused() {
    for (engine, problem) in [
        ("[engine]\nrestate = \"nowhere\"\n", "is not an address"),
        ("durability = \"memory\"\n[engine]\nrestate = \"http://127.0.0.1:1\"\n", "durability must not be memory"),
    ] {
        let place = Workspace::new(engine);
        place.write("hello.json", HELLO);
        let output = place.run(&["run", "hello.json"]);
        let printed = stderr_text(&output);
        assert!(exit_code(&output) == 2 && printed.contains("FL1401") && printed.contains(problem), "{printed}");
    }
}
