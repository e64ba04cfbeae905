//! The presentation of a run: each step with its request and its result, in the terminal and over HTTP.

mod support;

use std::process::Stdio;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::model::StreamingModel;
use support::{TestServer, Workspace, exit_code, stderr_text};

fn stdout_of(place: &Workspace, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    assert_eq!(exit_code(&output), 0, "{arguments:?}: {}", stderr_text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A workspace with a flow that calls an API and a model, and whose prompt has two references without a value.
fn place_with_flow(server: &TestServer) -> Workspace {
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    let flow = json!({"name": "report", "steps": [
        {"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}},
        {"type": "apiCall", "config": {"url": format!("http://{}/weather", server.address), "method": "POST",
            "headers": [{"key": "X-Token", "value": "${secret.TOKEN}"}], "bodyType": "json", "body": "{\"city\": \"${city}\"}",
            "responseVariable": "weather"}},
        {"type": "llmInstruction", "config": {"instruction": "Tell me of ${weather.path}, ${weather.wind} and ${cty}.",
            "resultVariable": "letter"}},
    ]});
    place.write("report.json", &flow.to_string());
    place
}

fn run_report(place: &Workspace) -> String {
    let output = place
        .build_command(&["run", "report.json"])
        .env("FLOWLOOM_SECRET_TOKEN", "hunter2-hunter2")
        .output()
        .expect("it runs");
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
    stderr_text(&output)
}

#[test]
fn a_run_shows_what_its_steps_sent_and_received() {
    let server = TestServer::start();
    let place = place_with_flow(&server);
    let progress = run_report(&place);
    assert!(progress.contains("! /letter  ${weather.wind} has no value; weather has path"), "{progress}");
    assert!(progress.contains("! /letter  ${cty} has no value; the variables are city, weather"), "{progress}");

    let short = stdout_of(&place, &["show", "last"]);
    assert!(
        short.contains(&format!("  in    POST http://{}/weather {{\"city\":\"Oslo\"}}", server.address)),
        "{short}"
    );
    assert!(short.contains("  in    Tell me of /weather, ${weather.wind} and ${cty}.\n"), "{short}");
    assert!(short.contains("  out   LLM(Tell me of /weather"), "{short}");
    assert!(short.contains("  ! ${cty} has no value"), "{short}");
    let details: Vec<&str> = short.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(!details.is_empty() && details.iter().all(|line| line.chars().count() <= 80), "{short}");

    let full = stdout_of(&place, &["show", "last", "/weather"]);
    assert!(full.contains("\"x-token\": \"${secret.TOKEN}\"") && !full.contains("hunter2"), "{full}");
    assert!(full.contains(r#""body": "{\"city\":\"Oslo\"}""#), "{full}");
    assert!(!full.contains("Tell me"), "one step: {full}");

    let wrong = place.run(&["show", "last", "/nothing"]);
    assert!(stderr_text(&wrong).contains("the run has no step /nothing; its steps are "), "{}", stderr_text(&wrong));
    let replayed = stdout_of(&place, &["replay", "last"]);
    assert!(replayed.contains("no divergence"), "{replayed}");
}

#[test]
fn an_answer_that_was_cut_off_is_reported() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    let ask = json!({"type": "llmInstruction", "config": {"instruction": "Say a wish", "resultVariable": "wish"}});
    place.write("wish.json", &json!({"name": "wish", "steps": [ask]}).to_string());
    let running = place.build_command(&["run", "wish.json"]).stderr(Stdio::piped()).spawn().expect("it starts");
    model.send_piece("I wish");
    model.cut_answer();
    let progress = stderr_text(&running.wait_with_output().expect("it ends"));
    let warning = "the answer was cut off at its maximum number of tokens";
    assert!(progress.contains(&format!("! /wish  {warning}\n")), "{progress}");
    let shown = stdout_of(&place, &["show", "last"]);
    assert!(shown.contains(&format!("  ! {warning}\n")), "{shown}");
    let (_, shown) = place.run_json(&["show", "last"]);
    assert_eq!(shown["steps"][0]["warnings"], json!([warning]), "{shown}");
    let api = RunningServer::start(&place, &[]);
    let run = shown["run_id"].as_str().expect("an id");
    assert_eq!(api.get(&format!("/api/v1/runs/{run}")).json()["steps"][0]["warnings"], json!([warning]));
}

#[test]
fn what_the_author_asked_is_shown_before_what_the_format_adds() {
    let place = Workspace::new("");
    place.write("a.mdx", "Say hello to Ada.\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n");
    assert_eq!(exit_code(&place.run(&["run", "a.mdx"])), 0);
    let short = stdout_of(&place, &["show", "last"]);
    assert!(short.contains("  in    Say hello to Ada.\n"), "{short}");
    let full = stdout_of(&place, &["show", "last", "-v"]);
    assert!(full.contains("[system] ") && full.contains("[user] Say hello to Ada."), "{full}");
}

#[test]
fn the_api_returns_the_same_steps() {
    let server = TestServer::start();
    let place = place_with_flow(&server);
    run_report(&place);
    let (_, shown) = place.run_json(&["show", "last"]);
    let step = shown["steps"].as_array().expect("steps").iter().find(|step| step["path"] == "/letter").cloned();
    let warnings = step.expect("the step")["warnings"].clone();
    assert_eq!(warnings.as_array().map(Vec::len), Some(2), "{warnings}");

    let api = RunningServer::start(&place, &[]);
    let run = shown["run_id"].as_str().expect("an id");
    let steps = api.get(&format!("/api/v1/runs/{run}/steps?path=/letter")).json();
    let step = &steps["steps"][0];
    assert_eq!(steps["steps"].as_array().map(Vec::len), Some(1), "{steps}");
    assert_eq!((&step["warnings"], &step["kind"]), (&warnings, &json!("generate")));
    let message = &step["requests"][0]["request"]["messages"][0]["content"];
    assert_eq!(message, "Tell me of /weather, ${weather.wind} and ${cty}.");
    assert_eq!(step["prompt"], "Tell me of ${weather.path}, ${weather.wind} and ${cty}.");
    let all = api.get(&format!("/api/v1/runs/{run}/steps")).json();
    assert!(all["steps"].as_array().is_some_and(|steps| steps.len() > 1), "{all}");
    assert_eq!(api.get(&format!("/api/v1/runs/{run}/steps?path=/none")).status, 404);
    let after = api.get(&format!("/api/v1/runs/{run}/variables")).json();
    assert_eq!(
        (&after["variables"]["city"], &after["variables"]["weather"]["path"]),
        (&json!("Oslo"), &json!("/weather"))
    );
    let before = api.get(&format!("/api/v1/runs/{run}/variables?at=1")).json();
    assert_eq!(before["variables"]["weather"], json!(null), "{before}");
    assert_eq!(api.get("/api/v1/runs/none/variables").status, 404);
    let detail = api.get(&format!("/api/v1/runs/{run}")).json();
    let step =
        detail["steps"].as_array().and_then(|steps| steps.iter().find(|step| step["path"] == "/letter")).cloned();
    assert_eq!(step.map(|step| step["warnings"].clone()), Some(warnings));
}

#[test]
fn a_run_is_followed_and_logged() {
    let slow = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", slow.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    let mut running = place.start(&["run", "flow.json"]);
    slow.wait_for_requests("/slow", 1);
    let following = place.start(&["logs", "last", "--follow"]);
    slow.release_slow();
    assert!(running.wait().expect("ended").success());
    let log = following.wait_with_output().expect("it ends");
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let kinds: Vec<&str> = log.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"run_created"), Some(&"run_finished")), "{log}");
    assert_eq!(log, stdout_of(&place, &["logs", "last"]), "the same events, each once");
    assert!(stdout_of(&place, &["show", "last", "--follow"]).contains("succeeded"), "it has ended");
}

#[test]
fn a_waiting_run_shows_how_it_continues() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let question = json!({"id": "q", "name": "q", "steps": [{"name": "s", "functionId": "human::ask", "mode": "sequential",
        "errorMode": "fail", "promptTemplate": "Which town?"}]});
    place.write("q.json", &question.to_string());
    assert_eq!(exit_code(&place.run(&["run", "q.json", "--input", "/dev/null"])), 4);
    let shown = place.run(&["show", "last"]);
    let advice = String::from_utf8_lossy(&shown.stdout);
    assert!(advice.contains("Which town?") && advice.contains(" answer "), "{advice}");
}

#[test]
fn an_id_can_be_shortened_at_both_ends() {
    let place = Workspace::with_hello("");
    assert_eq!(exit_code(&place.run(&["run", "hello.json", "-i", "input=x"])), 0);
    let (_, runs) = place.run_json(&["runs"]);
    let id = runs[0]["run_id"].as_str().expect("an id").to_owned();
    for name in [&id[..13], &id[id.len() - 8..], &id] {
        let (_, shown) = place.run_json(&["show", name]);
        assert_eq!(shown["run_id"], Value::from(id.as_str()), "{name}");
    }
    assert_eq!(exit_code(&place.run(&["show", "%%%%"])), 2, "a pattern is no name");
}
