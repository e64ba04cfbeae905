//! Error codes that only the complete program produces, each provoked once.

mod support;

use serde_json::{Value, json};
use support::{TestServer, Workspace, exit_code, stderr_text};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

fn steps_json(id: &str, function: &str, prompt: &str) -> String {
    let step = json!({
        "name": "s", "functionId": function, "mode": "sequential", "errorMode": "fail", "promptTemplate": prompt,
    });
    json!({"id": id, "name": "W", "description": "d", "steps": [step]}).to_string()
}

fn error_code(result: &Value) -> &str {
    result["error"]["code"].as_str().unwrap_or_default()
}

#[test]
fn a_server_that_refuses() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", server.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&server, "GET", "/status/404"));
    let (exit, result) = place.run_json(&["run", "flow.json"]);
    assert_eq!((exit, error_code(&result)), (1, "FL1001"), "{result}");
}

#[test]
fn a_step_that_was_broken_from_the_start() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write(
        "flow.json",
        r#"{"name": "x", "description": "d", "steps": [
  {"type": "apiCall", "config": {"url": "https://example.test/", "method": "GET", "headers": null}}]}"#,
    );
    let (exit, result) = place.run_json(&["run", "flow.json"]);
    assert_eq!((exit, error_code(&result)), (1, "FL1034"), "{result}");
}

#[test]
fn a_workflow_that_does_not_exist() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("w.json", &steps_json("w", "workflow::run", r#"{"workflowId": "nobody"}"#));
    let (exit, result) = place.run_json(&["run", "w.json"]);
    assert_eq!((exit, error_code(&result)), (1, "FL1026"), "{result}");
}

#[test]
fn a_workflow_that_calls_itself() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("self.json", &steps_json("self", "workflow::run", r#"{"workflowId": "self"}"#));
    place.write("create.json", &steps_json("create", "workflow::create", "{{input}}"));
    let (created, result) = place.run_json(&["run", "create.json", "--input", "self.json"]);
    assert_eq!(created, 0, "{result}");
    let (exit, result) = place.run_json(&["run", "self.json"]);
    assert_eq!((exit, error_code(&result)), (1, "FL1104"), "{result}");
}

/// Runs a workflow that starts itself twice, whatever happens to the runs that it starts.
fn run_multiplying_workflow(limits: &str) -> Value {
    let place = Workspace::new(&format!("{ECHO_CONFIG}[limits]\n{limits}\n"));
    let step = |name: &str| {
        json!({"name": name, "functionId": "workflow::run", "mode": "fanout", "errorMode": "skip",
            "promptTemplate": "{\"workflowId\": \"twice\"}"})
    };
    let twice = json!({"id": "twice", "name": "twice", "description": "d", "steps": [step("a"), step("b")]});
    place.write("twice.json", &twice.to_string());
    place.write("create.json", &steps_json("create", "workflow::create", "{{input}}"));
    let (created, result) = place.run_json(&["run", "create.json", "--input", "twice.json"]);
    assert_eq!(created, 0, "{result}");
    let (exit, result) = place.run_json(&["run", "twice.json"]);
    assert_eq!(exit, if limits.starts_with("child") { 5 } else { 1 }, "{result}");
    let (_, runs) = place.run_json(&["runs", "--limit", "1000"]);
    let statuses = runs.as_array().into_iter().flatten().map(|run| run["status"].clone()).collect::<Vec<_>>();
    assert!(statuses.len() < 100 && !statuses.contains(&json!("running")), "{statuses:?}");
    result
}

#[test]
fn a_workflow_that_multiplies() {
    let result = run_multiplying_workflow("child_runs = 5");
    assert_eq!(error_code(&result), "FL1105", "{result}");
}

#[test]
fn no_step_skips_the_limit_of_the_depth() {
    let result = run_multiplying_workflow("subflow_depth = 4");
    assert_eq!(error_code(&result), "FL1104", "{result}");
}

#[test]
fn a_model_without_a_price_under_a_money_budget() {
    let place = Workspace::new("");
    place.write("w.json", &steps_json("w", "agent::chat", "Hi"));
    let arguments = ["run", "w.json", "--model", "openai:a-model-without-a-price", "--budget", "usd=1", "--json"];
    let output = place.build_command(&arguments).env("OPENAI_API_KEY", "sk-none").output().expect("it runs");
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((exit_code(&output), error_code(&result)), (5, "FL1112"), "{result}");
}

#[test]
fn wrong_use() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("w.json", &steps_json("w", "agent::chat", "Hi"));
    for arguments in
        [&["run", "w.json", "--as", "prose"][..], &["run", "w.json", "--budget", "tea=1"], &["explain", "7"]]
    {
        let output = place.run(arguments);
        assert_eq!(
            (exit_code(&output), stderr_text(&output).contains("FL1402")),
            (2, true),
            "{}",
            stderr_text(&output)
        );
    }
    assert_eq!(exit_code(&place.run(&["run", "w.json"])), 0);
    let output = place.run(&["answer", "last", "yes"]);
    assert_eq!((exit_code(&output), stderr_text(&output).contains("FL1208")), (2, true), "{}", stderr_text(&output));
}

#[test]
fn a_database_that_another_program_holds() {
    let place = Workspace::new(ECHO_CONFIG);
    assert_eq!(exit_code(&place.run(&["keys", "list"])), 0);
    let files = std::fs::read_dir(place.path("data")).expect("the folder").flatten().map(|entry| entry.path());
    let file = files.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "db")).expect("the database");
    let other = rusqlite::Connection::open(file).expect("it opens");
    other.execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE").expect("locked");
    let output = place.run(&["runs"]);
    assert_eq!((exit_code(&output), stderr_text(&output).contains("FL1306")), (1, true), "{}", stderr_text(&output));
}
