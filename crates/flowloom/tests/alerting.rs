//! Metrics and lines of the log that alert an operator.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::Workspace;
use support::http::RunningServer;

fn new_step(name: &str, function: &str, prompt: &str) -> Value {
    json!({"name": name, "functionId": function, "mode": "sequential", "promptTemplate": prompt, "errorMode": "fail"})
}

fn write_steps(place: &Workspace, id: &str, step: &Value) {
    place.write(&format!("{id}.json"), &json!({"id": id, "name": id, "steps": [step]}).to_string());
}

fn start_server(config: &str) -> (Workspace, RunningServer) {
    let place = Workspace::new(&format!("{config}[functions.\"people::ask\"]\nworkflow = \"ask.json\"\n"));
    write_steps(&place, "ask", &new_step("q", "human::ask", "Which city?"));
    write_steps(&place, "outer", &new_step("run", "people::ask", "x"));
    write_steps(&place, "fetch", &new_step("get", "tool::http_request", "{\"url\": \"http://127.0.0.1:9/\"}"));
    let server = RunningServer::start(&place, &["--log", "json"]);
    (place, server)
}

fn start_and_wait(server: &RunningServer, workflow: &str) -> String {
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": "x"})).json();
    run["run_id"].as_str().expect("an id").to_owned()
}

/// The value of a series.
fn read_figure(server: &RunningServer, series: &str) -> Option<u64> {
    let figures = server.get("/metrics").body;
    let line = figures.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

/// Waits for a line of the log about a run.
fn find_log_line(server: &RunningServer, run: &str, message: &str) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let log = server.read_log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut fitting = lines.filter(|line| line["run"] == run && line["message"] == message);
        match fitting.next() {
            Some(line) => return line,
            None => assert!(Instant::now() < end, "no line {message:?} in {log}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_question_is_counted_and_logged_once() {
    let memory = "durability = \"memory\"\n";
    let postgres = test_postgres::TestDatabase::create_database().map(|it| format!("database = \"{}\"\n", it.url));
    for config in postgres.iter().map(String::as_str).chain(["", memory]) {
        let (_place, server) = start_server(&format!("{config}default_model = \"scripted:echo\"\n"));
        let (inner, outer) = (start_and_wait(&server, "ask"), start_and_wait(&server, "outer"));
        assert_eq!(read_figure(&server, "flowloom_open_questions"), Some(2), "{config}");
        let line = find_log_line(&server, &inner, "a run waits for a person");
        let facts = ["level", "workflow", "user", "path"].map(|field| line[field].as_str().unwrap_or_default());
        assert_eq!(facts, ["INFO", "ask", "local", "/q"], "{line}");
        find_log_line(&server, &outer, "a run waits for a person");
        std::thread::sleep(Duration::from_millis(1100));
        assert!(read_figure(&server, "flowloom_oldest_question_seconds") >= Some(1), "{config}");
        for run in [inner, outer] {
            let answered = server.post(&format!("/api/v1/runs/{run}/answer?wait=30"), &json!({"value": "Rome"}));
            assert_eq!(answered.json()["status"], "succeeded", "{answered:?}");
        }
        assert_eq!(read_figure(&server, "flowloom_open_questions"), Some(0), "{config}");
        assert_eq!(read_figure(&server, "flowloom_oldest_question_seconds"), Some(0), "{config}");
        let ended = |workflow: &str| {
            read_figure(&server, &format!("flowloom_runs_ended_total{{status=\"succeeded\",workflow=\"{workflow}\"}}"))
        };
        assert_eq!((ended("ask"), ended("outer")), (Some(1), Some(1)), "{config}");
    }
}

#[test]
fn a_failed_run_is_a_warning_and_is_counted() {
    let (_place, server) = start_server("");
    let run = start_and_wait(&server, "fetch");
    let line = find_log_line(&server, &run, "a run has failed");
    assert_eq!((&line["level"], &line["workflow"], &line["user"]), (&json!("WARN"), &json!("fetch"), &json!("local")));
    assert_eq!(read_figure(&server, "flowloom_runs_ended_total{status=\"failed\",workflow=\"fetch\"}"), Some(1));
    for counter in ["runs_reclaimed_total", "leases_lost_total", "database_outages_total"] {
        assert_eq!(read_figure(&server, &format!("flowloom_{counter}")), Some(0), "{counter}");
    }
    assert_eq!(read_figure(&server, "flowloom_ready"), Some(1));
    assert_eq!(read_figure(&server, "flowloom_database_up"), Some(1));
}
