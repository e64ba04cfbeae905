//! Child runs that wait: their parent runs show it, and a command to either run takes effect exactly once.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, send_signal, stderr_text, two_calls_flow};

/// Path of the question in a run of [`ask_workflow`] that is two levels below.
const INNER_QUESTION: &str = "/inner/run~1/subject";

/// A step list with one step, which calls a function.
fn calling_steps(id: &str, step: &str, function: &str) -> String {
    json!({"id": id, "name": id, "steps": [{"name": step, "functionId": function, "mode": "sequential",
        "promptTemplate": "tea", "outputVar": "out", "errorMode": "fail"}]})
    .to_string()
}

/// A workspace in which `outer` calls `middle`, which calls `inner`, which asks a person.
fn create_nested_workspace(config: &str) -> Workspace {
    let functions = "[functions.\"my::inner\"]\nworkflow = \"inner.json\"\n\
        [functions.\"my::middle\"]\nworkflow = \"middle.json\"\n";
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{config}{functions}"));
    place.write("inner.json", include_str!("../../../examples/steps/ask-a-person.json"));
    place.write("middle.json", &calling_steps("middle", "inner", "my::inner"));
    place.write("outer.json", &calling_steps("outer", "middle", "my::middle"));
    place
}

/// A workspace in which `outer` calls `middle`, which calls `inner`, which sends two requests to a path of `world`.
fn create_sending_workspace(world: &TestServer, method: &str, path: &str) -> Workspace {
    let place = create_nested_workspace(&world.egress_config());
    place.write("inner.json", &two_calls_flow(world, method, path));
    place
}

/// The runs of a workspace by the ids of their workflows.
fn run_id(place: &Workspace, name: &str) -> String {
    let (_, runs) = place.run_json(&["runs"]);
    let run = runs.as_array().expect("a list").iter().find(|run| run["name"] == name);
    run.unwrap_or_else(|| panic!("no {name} in {runs}"))["run_id"].as_str().expect("an id").to_owned()
}

fn statuses(place: &Workspace) -> Vec<String> {
    let (_, runs) = place.run_json(&["runs"]);
    let status = |run: &Value| run["status"].as_str().expect("a status").to_owned();
    runs.as_array().expect("a list").iter().map(status).collect()
}

#[test]
fn the_parent_of_a_waiting_run_waits_and_either_can_be_answered() {
    let outer_path = format!("/middle/run~1{INNER_QUESTION}");
    for (name, path) in [("outer", outer_path.as_str()), ("middle", INNER_QUESTION), ("Ask a person", "/subject")] {
        let place = create_nested_workspace("");
        let started = place.run(&["run", "outer.json"]);
        assert_eq!(exit_code(&started), 4, "{}", stderr_text(&started));
        assert!(stderr_text(&started).contains(&format!("{outer_path} asks: What")), "{}", stderr_text(&started));
        assert_eq!(statuses(&place), ["waiting"; 3]);
        let run = run_id(&place, name);
        let (_, shown) = place.run_json(&["show", &run]);
        assert_eq!(shown["status"], "waiting", "{shown}");
        let (code, ended) = place.run_json(&["answer", &run, "tea", "--path", path]);
        assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{name}: {ended}");
        assert_eq!(statuses(&place), ["succeeded"; 3]);
        for run in ["outer", "middle", "Ask a person"] {
            assert_eq!(exit_code(&place.run(&["replay", &run_id(&place, run)])), 0, "{run}");
        }
    }
}

#[test]
fn an_uncertain_effect_makes_every_run_around_it_uncertain() {
    let world = TestServer::start();
    let place = create_sending_workspace(&world, "POST", "/slow");
    let mut child = place.start(&["run", "outer.json"]);
    world.wait_for_requests("/slow", 1);
    send_signal(&child, "-9");
    child.wait().expect("gone");
    let outer = run_id(&place, "outer");
    let (code, shown) = place.run_json(&["resume", &outer]);
    assert_eq!((code, &shown["status"]), (6, &json!("uncertain")), "{shown}");
    assert_eq!(statuses(&place), ["uncertain"; 3]);
    assert_eq!(world.request_count("/slow"), 1, "nothing is sent without a decision");
    world.release_slow();
    // The path of the step that waits has one uncertain effect in it.
    let (code, ended) = place.run_json(&["resolve", &outer, "/middle", "--resend"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!(world.request_count("/slow"), 2);
    assert_eq!(statuses(&place), ["succeeded"; 3]);
}

#[test]
fn a_model_never_sees_an_uncertain_effect() {
    let world = TestServer::start();
    let place = Workspace::new("");
    place.write(
        "agent.json",
        &json!({"agentId": "helper", "systemPrompt": "You help.", "tools": ["calls"], "maxToolCalls": 1}).to_string(),
    );
    place.write("calls.json", &two_calls_flow(&world, "POST", "/slow"));
    let script = json!({"default": {"text": "Done.", "tool_calls": [{"name": "two_calls", "arguments": {}}]}});
    let answers = place.write("answers.json", &script.to_string());
    let config = format!("default_model = \"scripted:{}\"\n{}", answers.display(), world.egress_config());
    place.write("flowloom.toml", &config);
    let mut child = place.start(&["run", "agent.json", "-i", "message=Send it"]);
    world.wait_for_requests("/slow", 1);
    send_signal(&child, "-9");
    child.wait().expect("gone");
    let agent = run_id(&place, "helper");
    let (code, shown) = place.run_json(&["resume", &agent]);
    assert_eq!((code, &shown["status"]), (6, &json!("uncertain")), "{shown}");
    let (_, shown) = place.run_json(&["show", &agent]);
    let events = shown["events"].as_array().expect("events");
    let suspended = events.iter().find(|event| event["event"] == "child_suspended").expect("child_suspended");
    let path = format!(
        "{}/run~1{}",
        suspended["path"].as_str().expect("a path"),
        suspended["data"]["open"][0]["path"].as_str().expect("a path")
    );
    world.release_slow();
    let (code, ended) = place.run_json(&["resolve", &agent, &path, "--resend"]);
    assert_eq!((code, &ended["output"]), (0, &json!("Done.")), "{ended}");
    assert_eq!(world.request_count("/slow"), 2);
}

#[test]
fn the_end_of_a_run_cancels_its_child_runs() {
    let place = create_nested_workspace("");
    assert_eq!(exit_code(&place.run(&["run", "outer.json"])), 4);
    assert_eq!(exit_code(&place.run(&["cancel", &run_id(&place, "outer")])), 0);
    assert_eq!(statuses(&place), ["cancelled"; 3]);
}

#[test]
fn a_cancelled_child_run_fails_its_step() {
    let place = create_nested_workspace("");
    assert_eq!(exit_code(&place.run(&["run", "outer.json"])), 4);
    assert_eq!(exit_code(&place.run(&["cancel", &run_id(&place, "Ask a person")])), 0);
    let mut ended = statuses(&place);
    ended.sort();
    assert_eq!(ended, ["cancelled", "failed", "failed"]);
}

/// A function that is a workflow is described to models by the inputs of that workflow: for the run, and for a client
/// that follows its record.
#[test]
fn a_run_whose_model_may_call_a_workflow_has_a_record_that_can_be_followed() {
    let place = create_nested_workspace("");
    let agent = json!({"agentId": "helper", "systemPrompt": "You help.", "tools": ["my::inner", "my::flow"]});
    let variables = json!([{"name": "topic", "value": "tea"}]);
    let flow = json!({"name": "Flow", "steps": [{"type": "start", "config": {"variables": variables}}]});
    place.write("flow.json", &flow.to_string());
    let config = std::fs::read_to_string(place.path("flowloom.toml")).expect("written");
    place.write("flowloom.toml", &format!("{config}[functions.\"my::flow\"]\nworkflow = \"flow.json\"\n"));
    place.write("agent.json", &agent.to_string());
    let (code, ended) = place.run_json(&["run", "agent.json", "-i", "message=hi"]);
    assert_eq!(code, 0, "{ended}");
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
    assert_eq!(exit_code(&place.run(&["test", "record", "last", "--as", "tests/helper.json"])), 0);
    let tested = place.run(&["test"]);
    assert_eq!(exit_code(&tested), 0, "{}", stderr_text(&tested));
}

#[test]
fn a_fork_asks_before_its_child_runs_send_again() {
    let world = TestServer::start();
    let place = create_sending_workspace(&world, "POST", "/fast");
    assert_eq!(exit_code(&place.run(&["run", "outer.json"])), 0);
    let sent = world.request_count("/fast");
    let (code, fork) = place.run_json(&["fork", "last", "--at", "/middle"]);
    assert_eq!((code, &fork["status"]), (6, &json!("uncertain")), "{fork}");
    assert_eq!(world.request_count("/fast"), sent, "nothing is sent without a decision");
    let (code, agreed) = place.run_json(&["fork", &run_id(&place, "outer"), "--at", "/middle", "--yes"]);
    assert_eq!((code, &agreed["status"]), (0, &json!("succeeded")), "{agreed}");
}

#[test]
fn a_limit_that_a_child_run_reaches_ends_the_runs_around_it() {
    let world = TestServer::start();
    let place = create_sending_workspace(&world, "GET", "/fast");
    let skipping = |id: &str, step: &str, function: &str| {
        calling_steps(id, step, function).replace("\"errorMode\":\"fail\"", "\"errorMode\":\"skip\"")
    };
    place.write("middle.json", &skipping("middle", "inner", "my::inner"));
    place.write("outer.json", &skipping("outer", "middle", "my::middle"));
    let (code, ended) = place.run_json(&["run", "outer.json", "--budget", "steps=1"]);
    assert_eq!((code, &ended["status"]), (5, &json!("budget_exceeded")), "{ended}");
}

/// The usage of a run, as `show` prints it.
fn read_usage(place: &Workspace, name: &str) -> Value {
    place.run_json(&["show", &run_id(place, name)]).1["usage"].clone()
}

/// The usage of a child run counts in the runs around it although it failed, and a retry does not count it again.
#[test]
fn the_usage_of_a_failed_child_run_counts_once_in_its_parent_run() {
    let world = TestServer::start();
    let place = create_nested_workspace(&world.egress_config());
    let url = format!("http://{}/status/500", world.address);
    let steps = json!([
        {"type": "start", "config": {"variables": []}},
        {"type": "llmInstruction", "config": {"instruction": "tea", "resultVariable": "said"}},
        {"type": "apiCall", "config": {"url": url, "method": "GET", "headers": [], "responseVariable": "read"}},
    ]);
    place.write("inner.json", &json!({"name": "inner", "description": "d", "steps": steps}).to_string());
    let (code, ended) = place.run_json(&["run", "outer.json"]);
    assert_eq!((code, &ended["status"]), (1, &json!("failed")), "{ended}");
    let once = read_usage(&place, "inner");
    assert!(once["input_tokens"].as_u64() > Some(0), "{once}");
    let around = || [read_usage(&place, "middle"), read_usage(&place, "outer")];
    assert_eq!(around(), [once.clone(), once.clone()]);

    let (code, ended) = place.run_json(&["retry", &run_id(&place, "outer")]);
    assert_eq!((code, &ended["status"]), (1, &json!("failed")), "{ended}");
    assert_eq!(world.request_count("/status/500"), 2);
    assert_eq!(around(), [once.clone(), once]);
    assert_eq!(exit_code(&place.run(&["replay", &run_id(&place, "outer")])), 0);
}

/// The time limit of a run ends its child runs, which a retry of the run continues.
#[test]
fn a_run_that_times_out_can_be_retried_with_its_child_runs() {
    let world = TestServer::start();
    let place = create_sending_workspace(&world, "GET", "/slow");
    let (code, ended) = place.run_json(&["run", "outer.json", "--budget", "time=2s"]);
    assert_eq!((code, &ended["status"]), (124, &json!("timed_out")), "{ended}");
    // The time of the child runs ends at the same moment, so that either their own limit or their parent run ends them.
    let ended = statuses(&place);
    assert!(ended.iter().all(|status| ["cancelled", "timed_out"].contains(&status.as_str())), "{ended:?}");
    world.release_slow();
    let (code, ended) = place.run_json(&["retry", &run_id(&place, "outer")]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
}

#[test]
fn a_retry_begins_at_a_step_of_the_run_itself() {
    let place = create_nested_workspace("");
    let outer = place.run_json(&["run", "outer.json"]).1;
    let ended = place.run_json(&["answer", outer["run_id"].as_str().expect("an id"), "tea"]);
    assert_eq!(ended.0, 0, "{}", ended.1);
    for path in ["/middle/run~1/inner", "/middle/run~1/nothing"] {
        let refused = place.run(&["retry", "last", "--from", path]);
        assert_eq!(exit_code(&refused), 2, "{}", stderr_text(&refused));
        assert!(stderr_text(&refused).contains("/middle"), "{}", stderr_text(&refused));
    }
}

/// Starts a run that waits for its child run.
fn start_waiting_run(server: &RunningServer) -> String {
    let asked = server.post("/api/v1/runs?wait=60", &json!({"workflow": "outer", "inputs": "tea"})).json();
    assert_eq!(asked["status"], "waiting", "{asked}");
    asked["run_id"].as_str().expect("an id").to_owned()
}

/// The open question of a run, as the API lists it.
fn open_question(server: &RunningServer, run: &str) -> Value {
    let shown = server.get(&format!("/api/v1/runs/{run}")).json();
    let mut steps = shown["steps"].as_array().expect("steps").iter();
    steps.rfind(|step| step["run"].is_string()).cloned().unwrap_or_else(|| panic!("no question in {shown}"))
}

#[test]
fn a_child_run_is_answered_at_another_server() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let config = format!("database = \"{}\"\nlease_ms = 600000\n", database.url);
    let (one, two) = (create_nested_workspace(&config), create_nested_workspace(&config));
    let (first, second) = (RunningServer::start(&one, &[]), RunningServer::start(&two, &[]));
    for n in 0..10 {
        let (asking, answering) = if n % 2 == 0 { (&first, &second) } else { (&second, &first) };
        let run = start_waiting_run(asking);
        let question = open_question(answering, &run);
        assert_eq!(question["phase"], "waiting", "{question}");
        let target = if n % 3 == 0 { run.as_str() } else { question["run"].as_str().expect("a run") };
        let headers = ["Content-Type: application/json", "Idempotency-Key: once"];
        let answer = |value: &str| {
            let body = json!({"value": value}).to_string();
            answering.send_and_read("POST", &format!("/api/v1/runs/{target}/answer?wait=60"), &headers, &body)
        };
        let answered = answer("tea");
        assert_eq!(answered.status, 200, "{answered:?}");
        let again = answer("tea");
        assert_eq!(again.status, 200, "{again:?}");
        let command = asking.get(&format!("/api/v1/runs/{target}/commands/once")).json();
        assert_eq!((&command["action"], &command["outcome"]), (&json!("answer"), &json!("applied")), "{command}");
        let ended = answering.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({})).json();
        assert_eq!(ended["status"], "succeeded", "{ended}");
    }
}

#[test]
fn a_cancelled_run_ends_its_child_runs_on_a_server() {
    let place = create_nested_workspace("");
    let server = RunningServer::start(&place, &[]);
    let run = start_waiting_run(&server);
    let question = open_question(&server, &run);
    let cancelled = server.post(&format!("/api/v1/runs/{run}/cancel"), &json!({}));
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")), "{cancelled:?}");
    let child = question["run"].as_str().expect("a run");
    assert_eq!(server.get(&format!("/api/v1/runs/{child}")).json()["status"], "cancelled");
}

/// `workflow::run` is a function like one with `workflow`: its child run is uncertain, then waits, and the parent run shows it.
#[test]
fn a_workflow_that_a_step_runs_can_be_uncertain_and_ask() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("recovery_interval_ms = 100\n{}", world.egress_config()));
    let step = |name: &str, function: &str, prompt: &str| {
        json!({"name": name, "functionId": function, "mode": "sequential", "promptTemplate": prompt, "outputVar": name,
            "errorMode": "fail"})
    };
    let request = json!({"url": format!("http://{}/slow", world.address), "method": "POST", "body": "x"}).to_string();
    let steps = [step("send", "tool::http_request", &request), step("ask", "human::ask", "What?")];
    let call = json!({"workflowId": "inner", "input": "x"}).to_string();
    let mut server = RunningServer::start(&place, &[]);
    for (id, steps) in [("inner", &steps[..]), ("outer", &[step("run", "workflow::run", &call)])] {
        let body = json!({"id": id, "name": id, "steps": steps}).to_string();
        let kind = ["Content-Type: application/json"];
        let stored = server.send_and_read("PUT", &format!("/api/v1/workflows/{id}"), &kind, &body);
        assert_eq!(stored.status, 201, "{stored:?}");
    }
    let started = server.post("/api/v1/runs", &json!({"workflow": "outer", "inputs": "x"})).json();
    let run = started["run_id"].as_str().expect("an id").to_owned();
    world.wait_for_requests("/slow", 1);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    let server = RunningServer::start(&place, &[]);
    let uncertain = server.post(&format!("/api/v1/runs/{run}/resume?wait=20"), &json!({})).json();
    assert_eq!(uncertain["status"], "uncertain", "{uncertain}");
    world.release_slow();
    let target = format!("/api/v1/runs/{run}/resolve?wait=20");
    let waiting = server.post(&target, &json!({"path": "/run/run~1/send", "how": "resend"})).json();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let ended = server.post(&format!("/api/v1/runs/{run}/answer?wait=20"), &json!({"value": "sea"})).json();
    assert_eq!((&ended["status"], world.request_count("/slow")), (&json!("succeeded"), 2), "{ended}");
}

#[test]
fn a_child_run_keeps_the_definition_that_it_started_with() {
    let place = Workspace::new("default_model = \"scripted:echo\"\nrecovery_interval_ms = 100\n");
    let step = |name: &str, function: &str, prompt: &str| json!({"name": name, "functionId": function, "mode": "sequential", "promptTemplate": prompt, "errorMode": "fail"});
    let server = RunningServer::start(&place, &[]);
    let store = |id: &str, steps: Vec<Value>| {
        let body = json!({"id": id, "name": id, "steps": steps}).to_string();
        let kind = ["Content-Type: application/json"];
        let stored = server.send_and_read("PUT", &format!("/api/v1/workflows/{id}"), &kind, &body);
        assert!(matches!(stored.status, 200 | 201), "{stored:?}");
    };
    let call = json!({"workflowId": "inner", "input": "x"}).to_string();
    store("inner", vec![step("ask", "human::ask", "What?"), step("say", "agent::chat", "old {{input}}")]);
    store("outer", vec![step("run", "workflow::run", &call)]);
    let waiting = server.post("/api/v1/runs?wait=20", &json!({"workflow": "outer", "inputs": "x"})).json();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    store("inner", vec![step("ask", "human::ask", "Something else?"), step("say", "agent::chat", "new {{input}}")]);
    let run = waiting["run_id"].as_str().expect("an id");
    let ended = server.post(&format!("/api/v1/runs/{run}/answer?wait=20"), &json!({"value": "sea"})).json();
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert!(ended["output"].to_string().contains("old sea"), "{ended}");
}
