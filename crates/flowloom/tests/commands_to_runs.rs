//! Commands to runs over HTTP and from the terminal: each takes effect exactly once, whichever process receives it.

mod support;

use std::io::{BufRead as _, BufReader};
use std::sync::Barrier;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace, exit_code, send_signal, stderr_text, two_calls_flow, write_posting_pipeline};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

/// Number of runs whose answer races with their suspension.
const RACED_RUNS: usize = 20;

/// Number of answers that race for one question.
const RACED_ANSWERS: usize = 100;

/// Two workspaces that share a Postgres database and have a workflow that asks; `None` if none is available.
fn create_shared_workspaces(config: &str) -> Option<(Workspace, Workspace)> {
    let database = test_postgres::TestDatabase::create_database()?;
    let config = format!("database = \"{}\"\nlease_ms = 600000\n{ECHO_CONFIG}{config}", database.url);
    Some((create_workspace(&config), create_workspace(&config)))
}

fn create_workspace(config: &str) -> Workspace {
    let place = Workspace::new(config);
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    place
}

/// Starts a run and waits until it asks.
fn start_asking_run(server: &RunningServer) -> String {
    let asked = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"})).json();
    assert_eq!(asked["status"], "waiting", "{asked}");
    asked["run_id"].as_str().expect("an id").to_owned()
}

fn send_answer(server: &RunningServer, run: &str, key: &str, value: &str) -> HttpAnswer {
    let body = json!({"value": value}).to_string();
    let headers = ["Content-Type: application/json", &format!("Idempotency-Key: {key}")];
    server.send_and_read("POST", &format!("/api/v1/runs/{run}/answer?wait=60"), &headers, &body)
}

fn count_events(server: &RunningServer, run: &str, name: &str) -> usize {
    let events = server.stream(&format!("/api/v1/runs/{run}/events"), &[]);
    events.filter(|line| *line == format!("event: {name}")).count()
}

#[test]
fn an_answer_at_the_moment_of_suspension_takes_effect_at_the_other_server() {
    let Some((one, two)) = create_shared_workspaces("") else { return };
    let (first, second) = (RunningServer::start(&one, &[]), RunningServer::start(&two, &[]));
    for n in 0..RACED_RUNS {
        let (asking, answering) = if n % 2 == 0 { (&first, &second) } else { (&second, &first) };
        let run = start_asking_run(asking);
        let answered = send_answer(answering, &run, "once", "yes");
        assert_eq!((answered.status, &answered.json()["status"]), (200, &json!("succeeded")), "{answered:?}");
    }
}

fn race_answers(servers: &[&RunningServer]) {
    let run = start_asking_run(servers[0]);
    let start = Barrier::new(RACED_ANSWERS);
    let answers: Vec<HttpAnswer> = std::thread::scope(|scope| {
        let (run, start) = (&run, &start);
        let senders: Vec<_> = (0..RACED_ANSWERS)
            .map(|n| {
                scope.spawn(move || {
                    start.wait();
                    send_answer(servers[n % servers.len()], run, &format!("key-{n}"), "yes")
                })
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().expect("an answer")).collect()
    });
    let accepted = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.status == 409 && answer.error_code() == "FL1208").count();
    let others: Vec<_> =
        answers.iter().filter(|answer| answer.status != 200 && answer.error_code() != "FL1208").collect();
    assert_eq!((accepted, refused), (1, RACED_ANSWERS - 1), "{others:#?}");
    assert_eq!(count_events(servers[0], &run, "answered"), 1);
}

#[test]
fn one_of_a_hundred_answers_counts_on_sqlite() {
    let place = create_workspace(ECHO_CONFIG);
    race_answers(&[&RunningServer::start(&place, &[])]);
}

#[test]
fn one_of_a_hundred_answers_counts_on_postgres() {
    let Some((one, two)) = create_shared_workspaces("") else { return };
    race_answers(&[&RunningServer::start(&one, &[]), &RunningServer::start(&two, &[])]);
}

#[test]
fn a_repeated_command_is_the_same_command() {
    let place = create_workspace(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let run = start_asking_run(&server);
    assert_eq!(send_answer(&server, &run, "my key", "yes").status, 200);
    let again = send_answer(&server, &run, "my key", "yes");
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("succeeded")), "{again:?}");
    let other = send_answer(&server, &run, "my key", "no");
    assert_eq!((other.status, other.error_code().as_str()), (409, "FL1506"), "{other:?}");
    let late = send_answer(&server, &run, "another key", "yes");
    assert_eq!((late.status, late.error_code().as_str()), (409, "FL1208"), "{late:?}");
    let command = server.get(&format!("/api/v1/runs/{run}/commands/my%20key")).json();
    assert_eq!((&command["action"], &command["outcome"]), (&json!("answer"), &json!("applied")), "{command}");
    assert!(command["decided_at"].as_u64() >= command["sent_at"].as_u64(), "{command}");
    assert_eq!(server.get(&format!("/api/v1/runs/{run}/commands/none")).status, 404);
    assert_eq!(count_events(&server, &run, "answered"), 1);
}

/// A server whose run has a POST in flight when it is killed; its successor reclaims the run, which is then uncertain.
fn leave_uncertain(world: &TestServer, place: &Workspace) -> (RunningServer, String) {
    place.write("flow.json", &two_calls_flow(world, "POST", "/slow"));
    let mut server = RunningServer::start(place, &[]);
    let started = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    world.wait_for_requests("/slow", 1);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    let server = RunningServer::start(place, &[]);
    let run = started["run_id"].as_str().expect("an id").to_owned();
    let mut events = server.stream(&format!("/api/v1/runs/{run}/events"), &[]);
    assert!(events.any(|line| line == "event: run_suspended"));
    (server, run)
}

fn resolve(server: &RunningServer, run: &str, query: &str) -> (u16, Value) {
    let body = json!({"path": "/two", "how": "resend"});
    let resolved = server.post(&format!("/api/v1/runs/{run}/resolve{query}"), &body);
    (resolved.status, resolved.json())
}

#[test]
fn a_decision_that_is_carried_out_is_not_refused() {
    let database = test_postgres::TestDatabase::create_database();
    let database = database.iter().map(|it| format!("database = \"{}\"\nlease_ms = 500\n", it.url));
    for database in database.chain([String::new()]) {
        let world = TestServer::start();
        let config = format!("{database}recovery_interval_ms = 50\n{ECHO_CONFIG}{}", world.egress_config());
        let place = create_workspace(&config);
        let (server, run) = leave_uncertain(&world, &place);
        let (status, body) = resolve(&server, &run, "");
        assert_eq!((status, &body["status"]), (200, &json!("running")), "{body}");
        let (status, body) = resolve(&server, &run, "");
        assert_eq!((status, &body["code"]), (409, &json!("FL1208")), "{body}");
        world.wait_for_requests("/slow", 2);
        world.release_slow();
        let ended = server.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({})).json();
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert_eq!(world.request_count("/slow"), 2);
    }
}

#[test]
fn a_decision_counts_for_one_dispatch() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "POST", "/slow"));
    let kill_after = |arguments: &[&str], requests| {
        let mut child = place.start(arguments);
        world.wait_for_requests("/slow", requests);
        send_signal(&child, "-9");
        child.wait().expect("gone");
        let (code, shown) = place.run_json(&["resume", "last"]);
        assert_eq!((code, &shown["status"]), (6, &json!("uncertain")), "{shown}");
        assert_eq!(world.request_count("/slow"), requests, "nothing is sent without a decision");
    };
    kill_after(&["run", "flow.json"], 1);
    kill_after(&["resolve", "last", "/two", "--resend"], 2);
    kill_after(&["resolve", "last", "/two", "--resend"], 3);
    world.release_slow();
    let (code, ended) = place.run_json(&["resolve", "last", "/two", "--resend"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!(world.request_count("/slow"), 4);
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
}

#[test]
fn a_post_to_a_host_that_recognises_repetitions_is_sent_again() {
    let world = TestServer::start();
    let host = format!("[egress.\"{}\"]\nidempotency_key = true\n", world.address);
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}{host}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "POST", "/slow"));
    let mut child = place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    send_signal(&child, "-9");
    child.wait().expect("gone");
    world.release_slow();
    let (code, ended) = place.run_json(&["resume", "last"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    let keys = world.idempotency_keys("/slow");
    assert!(keys.len() == 2 && keys[0] == keys[1] && !keys[0].is_empty(), "{keys:?}");
    place.write("flowloom.toml", &format!("{ECHO_CONFIG}[egress]\nalow = []\n"));
    let refused = place.run(&["run", "flow.json"]);
    assert!(
        stderr_text(&refused).contains("there is no setting `alow`; did you mean `allow`?"),
        "{}",
        stderr_text(&refused)
    );
}

#[test]
fn a_stored_answer_is_applied_by_the_next_resume() {
    let place = create_workspace(ECHO_CONFIG);
    assert_eq!(place.run_json(&["run", "ask.json"]).0, 4);
    let stored = place.run(&["answer", "last", "yes", "--no-resume"]);
    assert_eq!(exit_code(&stored), 0, "{}", stderr_text(&stored));
    assert!(stderr_text(&stored).contains("flowloom resume"), "{}", stderr_text(&stored));
    let (code, ended) = place.run_json(&["resume", "last"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
}

#[test]
fn an_uncertain_request_of_a_block_suspends_the_run() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", world.egress_config()));
    write_posting_pipeline(&world, &place);
    let mut child = place.start(&["run", "p.json"]);
    world.wait_for_requests("/slow", 1);
    send_signal(&child, "-9");
    child.wait().expect("gone");
    world.release_slow();
    let (code, shown) = place.run_json(&["resume", "last"]);
    assert_eq!((code, &shown["status"]), (6, &json!("uncertain")), "{shown}");
    let shown = place.run_json(&["show", "last"]).1;
    let events = shown["events"].as_array().expect("events");
    let uncertain = events.iter().find(|event| event["event"] == "step_uncertain").expect("an uncertain step");
    assert_eq!(uncertain["path"], "/nodes~1/n1/http~1");
    // The block has the path of the only uncertain effect in it, too.
    let (code, ended) = place.run_json(&["resolve", "last", "/nodes~1/n1", "--resend"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!(world.request_count("/slow"), 2);
}

#[test]
fn ctrl_c_leaves_the_run_interrupted() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    for (n, name) in [(1, "-INT"), (2, "-TERM")] {
        let child = place.start(&["run", "flow.json", "--json"]);
        world.wait_for_requests("/slow", n);
        send_signal(&child, name);
        let output = child.wait_with_output().expect("it ended");
        assert_eq!(exit_code(&output), 130, "{}", stderr_text(&output));
        let printed: Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!((&printed["status"], &printed["error"]["code"]), (&json!("interrupted"), &json!("FL1209")));
        let run = printed["run_id"].as_str().expect("an id");
        for hint in [format!("flowloom resume {run}"), format!("flowloom cancel {run}")] {
            assert!(stderr_text(&output).contains(&hint), "{}", stderr_text(&output));
        }
        let (shown, listed) = (place.run_json(&["show", run]).1, place.run_json(&["runs"]).1);
        assert_eq!((&shown["status"], &listed[0]["status"]), (&json!("interrupted"), &json!("interrupted")));
    }
    assert_eq!(exit_code(&place.run(&["cancel", "last"])), 0);
    world.release_slow();
    let first = place.run_json(&["runs"]).1[1]["run_id"].as_str().expect("an id").to_owned();
    let (code, ended) = place.run_json(&["resume", &first]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!(world.request_count("/first"), 2, "finished steps are not repeated");
}

#[test]
fn a_second_signal_stops_a_server_at_once() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let mut server = RunningServer::start(&place, &[]);
    let started = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    world.wait_for_requests("/slow", 1);
    send_signal(&server.child, "-TERM");
    // Its run would have ten seconds after the first signal.
    while server.child.try_wait().expect("readable").is_none() {
        send_signal(&server.child, "-TERM");
        std::thread::yield_now();
    }
    assert_eq!(server.child.wait().expect("gone").code(), Some(130));
    world.release_slow();
    let (code, ended) = place.run_json(&["resume", started["run_id"].as_str().expect("an id")]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
}

/// A command waits for the database after the first signal, so that its run is released, and does not after the second.
#[test]
fn a_second_signal_ends_a_command_at_once() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let mut child = place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    let other = rusqlite::Connection::open(place.path("data/flowloom.db")).expect("it opens");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    while child.try_wait().expect("readable").is_none() {
        send_signal(&child, "-INT");
        std::thread::yield_now();
    }
    other.execute_batch("ROLLBACK").expect("released");
    assert_eq!(child.wait().expect("gone").code(), Some(130));
    world.release_slow();
    let (code, ended) = place.run_json(&["resume", "last"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
}

/// The commands that talk and plan leave their run behind as `run` does.
#[test]
fn signals_leave_the_runs_of_other_commands_interrupted() {
    let world = TestServer::start();
    let model = format!("[providers.slow]\nbase_url = \"http://{}/slow\"\n", world.address);
    let place = Workspace::new(&format!("default_model = \"slow:m\"\n{model}{}", world.egress_config()));
    place.write("helper.json", r#"{"agentId": "helper", "systemPrompt": "h", "tools": [], "maxToolCalls": 2}"#);
    let commands: [&[&str]; 3] = [
        &["chat", "helper.json", "--message", "hi"],
        &["agent", "helper.json", "--message", "hi"],
        &["new", "Shout hello", "--yes"],
    ];
    let mut requests = 0;
    for command in commands {
        for signal in ["-INT", "-TERM"] {
            let child = place.start(command);
            requests += 1;
            world.wait_for_requests("/slow/chat/completions", requests);
            send_signal(&child, signal);
            let output = child.wait_with_output().expect("it ended");
            let printed = stderr_text(&output);
            assert_eq!(exit_code(&output), 130, "{command:?} {signal}: {printed}");
            assert!(
                printed.contains("flowloom resume") && printed.contains("flowloom cancel"),
                "{command:?}: {printed}"
            );
            let (_, runs) = place.run_json(&["runs"]);
            assert_eq!(runs[0]["status"], "interrupted", "{command:?} {signal}: {runs}");
            assert_eq!(exit_code(&place.run(&["cancel", "last"])), 0);
        }
    }
}

/// The run gives its lease up only when nothing writes to it any more, and a stop before a question is not lost.
#[test]
fn a_stop_in_the_middle_of_short_steps_leaves_the_run_interrupted() {
    let place = Workspace::new(ECHO_CONFIG);
    let looped = json!({"name": "l", "functionId": "agent::chat", "mode": "loop", "promptTemplate": "go {{iteration}}",
        "until": "never", "maxIterations": 400});
    let question = json!({"name": "q", "functionId": "human::ask", "mode": "sequential", "promptTemplate": "ok?"});
    place.write("w.json", &json!({"name": "W", "description": "d", "steps": [looped, question]}).to_string());
    for round in 0..8 {
        let mut child = place.start(&["run", "w.json", "-i", "input=x", "--events"]);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let started = lines.by_ref().take(20 + 9 * round).last();
        assert!(started.is_some_and(|line| line.is_ok()));
        send_signal(&child, "-INT");
        // The pipe stays open until the end.
        lines.for_each(drop);
        let output = child.wait_with_output().expect("it ended");
        let shown = stderr_text(&output);
        assert_eq!(exit_code(&output), 130, "{round}: {shown}");
        assert!(shown.contains("error[FL1209]"), "{round}: {shown}");
        assert_eq!(place.run_json(&["runs", "--limit", "1"]).1[0]["status"], "interrupted");
    }
}
