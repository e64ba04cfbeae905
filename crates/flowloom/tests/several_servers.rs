//! Several processes on one database: one finishes the runs of another, and none writes events without the lease.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, send_signal, stderr_text, two_calls_flow};

/// A server with a short recovery interval.
const FAST_RECOVERY_CONFIG: &str = "default_model = \"scripted:echo\"\nrecovery_interval_ms = 50\n";

/// A lease that expires during the test but can be renewed on a busy machine, and one that does not expire.
const SHORT_LEASE_MS: u64 = 2_000;
const LONG_LEASE_MS: u64 = 600_000;

/// Two workspaces that share a Postgres database; `None` if none is available.
fn create_shared_workspaces(world: &TestServer, lease_ms: u64) -> Option<(Workspace, Workspace)> {
    let database = test_postgres::TestDatabase::create_database()?;
    let config = format!(
        "database = \"{}\"\nlease_ms = {lease_ms}\n{FAST_RECOVERY_CONFIG}{}",
        database.url,
        world.egress_config()
    );
    let place = || {
        let place = Workspace::new(&config);
        place.write("flow.json", &two_calls_flow(world, "GET", "/slow"));
        place
    };
    Some((place(), place()))
}

fn start_run(server: &RunningServer) -> String {
    let started = server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    assert_eq!(started.status, 202, "{started:?}");
    started.json()["run_id"].as_str().expect("an id").to_owned()
}

/// Waits for the end of a run and returns it.
fn wait_for_end(server: &RunningServer, run: &str) -> Value {
    server.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({})).json()
}

/// The events of a finished run, without gaps and duplicates.
fn read_events(server: &RunningServer, run: &str) -> Vec<Value> {
    let lines = server.stream(&format!("/api/v1/runs/{run}/events"), &[]);
    let data = lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let events: Vec<Value> = data.filter(|event| event["seq"].is_u64()).collect();
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    events
}

fn count_events(events: &[Value], name: &str) -> usize {
    events.iter().filter(|event| event["event"] == name).count()
}

/// The server whose start came second has lost nothing.
#[test]
fn one_call_at_two_servers_raises_no_alarm() {
    let world = TestServer::start();
    let Some((one, other)) = create_shared_workspaces(&world, LONG_LEASE_MS) else { return };
    for place in [&one, &other] {
        place.write("flow.json", &two_calls_flow(&world, "GET", "/quick"));
    }
    let servers = [RunningServer::start(&one, &[]), RunningServer::start(&other, &[])];
    let body = json!({"workflow": "flow"}).to_string();
    for round in 0..20 {
        let key = format!("Idempotency-Key: round-{round}");
        let headers = ["Content-Type: application/json", key.as_str()];
        let runs: Vec<Value> = std::thread::scope(|scope| {
            let send = |server: &RunningServer| server.send_and_read("POST", "/api/v1/runs?wait=30", &headers, &body);
            let calls: Vec<_> = servers.iter().map(|server| scope.spawn(move || send(server))).collect();
            calls.into_iter().map(|call| call.join().expect("an answer").json()["run_id"].clone()).collect()
        });
        assert_eq!(runs[0], runs[1]);
    }
    for server in &servers {
        assert!(!server.read_log().contains("lost the lease"), "{}", server.read_log());
        assert!(server.get("/metrics").body.contains("flowloom_leases_lost_total 0"));
    }
}

#[test]
fn a_killed_servers_runs_are_finished_by_another() {
    let world = TestServer::start();
    let Some((one, two)) = create_shared_workspaces(&world, SHORT_LEASE_MS) else { return };
    let (mut first, second) = (RunningServer::start(&one, &[]), RunningServer::start(&two, &[]));
    let runs: Vec<String> = (0..3).map(|_| start_run(&first)).collect();
    world.wait_for_requests("/slow", 3);
    first.child.kill().expect("killed");
    first.child.wait().expect("gone");
    world.wait_for_requests("/slow", 6);
    world.release_slow();
    for run in &runs {
        let shown = wait_for_end(&second, run);
        assert_eq!((&shown["status"], &shown["output"]), (&json!("succeeded"), &json!("LLM(/slow)")), "{shown}");
        let events = read_events(&second, run);
        assert_eq!(
            (count_events(&events, "run_started"), count_events(&events, "run_finished")),
            (2, 1),
            "{events:#?}"
        );
    }
    assert_eq!(world.request_count("/first"), 3, "finished steps are not repeated");
}

#[test]
fn a_paused_server_that_wakes_late_writes_nothing() {
    let world = TestServer::start();
    let Some((one, two)) = create_shared_workspaces(&world, SHORT_LEASE_MS) else { return };
    let (first, second) = (RunningServer::start(&one, &[]), RunningServer::start(&two, &[]));
    let run = start_run(&first);
    world.wait_for_requests("/slow", 1);
    send_signal(&first.child, "-STOP");
    world.wait_for_requests("/slow", 2);
    // Both servers have the response now; the first reads it when it is resumed.
    world.release_slow();
    let shown = wait_for_end(&second, &run);
    assert_eq!(shown["status"], "succeeded", "{shown}");
    let before = read_events(&second, &run);
    send_signal(&first.child, "-CONT");
    assert_eq!(wait_for_end(&first, &run)["status"], "succeeded");
    let after = read_events(&first, &run);
    assert_eq!(before, after);
    assert_eq!((count_events(&after, "run_started"), count_events(&after, "run_finished")), (2, 1), "{after:#?}");
}

#[test]
fn what_is_asked_of_one_server_reaches_the_other() {
    let world = TestServer::start();
    let Some((one, two)) = create_shared_workspaces(&world, LONG_LEASE_MS) else { return };
    let (first, second) = (RunningServer::start(&one, &[]), RunningServer::start(&two, &[]));
    let run = start_run(&first);
    world.wait_for_requests("/slow", 1);
    let cancelled = second.post(&format!("/api/v1/runs/{run}/cancel?wait=60"), &json!({}));
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")), "{cancelled:?}");
    assert_eq!(count_events(&read_events(&second, &run), "cancel_requested"), 1);
    world.release_slow();
}

#[test]
fn events_are_followed_across_servers() {
    let world = TestServer::start();
    let Some((one, two)) = create_shared_workspaces(&world, LONG_LEASE_MS) else { return };
    let (first, second) = (RunningServer::start(&one, &[]), RunningServer::start(&two, &[]));
    let run = start_run(&first);
    world.wait_for_requests("/slow", 1);
    let mut lines = second.stream(&format!("/api/v1/runs/{run}/events"), &[]);
    assert!(lines.any(|line| line == "event: run_started"));
    world.release_slow();
    assert!(lines.any(|line| line == "event: run_finished"));
    assert!(lines.any(|line| line == "event: done"));
}

#[test]
fn a_server_takes_up_the_run_of_a_killed_command() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("{FAST_RECOVERY_CONFIG}{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let server = RunningServer::start(&place, &[]);
    let mut command = place.start(&["run", "flow.json"]);
    world.wait_for_requests("/slow", 1);
    send_signal(&command, "-9");
    command.wait().expect("gone");
    world.wait_for_requests("/slow", 2);
    world.release_slow();
    let (code, list) = place.run_json(&["runs"]);
    assert_eq!(code, 0);
    let run = list[0]["run_id"].as_str().or(list[0]["id"].as_str()).expect("an id").to_owned();
    assert_eq!(wait_for_end(&server, &run)["status"], "succeeded");
    assert_eq!(world.request_count("/first"), 1);
}

#[test]
fn a_run_that_kills_every_server_is_left_alone() {
    let world = TestServer::start();
    // One server at a time, so that none loses its lease to another.
    let Some((one, two)) = create_shared_workspaces(&world, 500) else { return };
    let mut server = RunningServer::start(&one, &[]);
    let run = start_run(&server);
    for n in 1..=2 {
        world.wait_for_requests("/slow", n);
        server.child.kill().expect("killed");
        server.child.wait().expect("gone");
        server = RunningServer::start(if n % 2 == 0 { &one } else { &two }, &[]);
    }
    world.wait_for_requests("/slow", 3);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    let server = RunningServer::start(&one, &[]);
    let mut events = server.stream(&format!("/api/v1/runs/{run}/events"), &[]);
    assert!(events.any(|line| line == "event: run_suspended"));
    let list = server.get("/api/v1/runs?status=quarantined").json();
    assert_eq!(list["items"][0]["run_id"], run.as_str(), "{list}");
    assert!(server.get("/metrics").body.contains("flowloom_runs{status=\"quarantined\"} 1"));
    assert_eq!(world.request_count("/slow"), 3);
    // A person may resume it once more.
    world.release_slow();
    assert_eq!(wait_for_end(&server, &run)["status"], "succeeded");
}

#[test]
fn doctor_says_which_database_without_its_password() {
    let place = Workspace::new("");
    if let Some(database) = test_postgres::TestDatabase::create_database() {
        let url = database.url.replace("postgres@", "postgres:s3cret@");
        let report = place.run(&["doctor", "--database", &url]);
        let text = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(text.contains("Postgres 1") && text.contains("pgvector"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    place.write("flowloom.toml", "database = \"postgres://ann:s3cret@127.0.0.1:1/none\"\n");
    let report = place.run(&["doctor"]);
    let text = String::from_utf8_lossy(&report.stdout).into_owned() + &stderr_text(&report);
    assert!(text.contains("✗ database") && !text.contains("s3cret"), "{text}");
    let refused = place.run(&["runs"]);
    assert_eq!(exit_code(&refused), 1, "{}", stderr_text(&refused));
    assert!(
        stderr_text(&refused).contains("FL1307") && !stderr_text(&refused).contains("s3cret"),
        "{}",
        stderr_text(&refused)
    );
    place.write("flowloom.toml", "database = \"postgres://ann:s3cret@db\n");
    let broken = place.run(&["runs"]);
    assert!(exit_code(&broken) == 2 && !stderr_text(&broken).contains("s3cret"), "{}", stderr_text(&broken));
}

#[test]
fn a_server_that_is_stopped_gives_everything_up_at_once() {
    let world = TestServer::start();
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let place = Workspace::new(&format!(
        "database = \"{}\"\nlease_ms = {LONG_LEASE_MS}\n{FAST_RECOVERY_CONFIG}{}",
        database.url,
        world.egress_config()
    ));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/other"));
    let mut server = RunningServer::start(&place, &[]);
    let done = server.post("/api/v1/runs?wait=60", &json!({"workflow": "flow"}));
    assert_eq!(done.json()["status"], "succeeded", "{done:?}");
    send_signal(&server.child, "-TERM");
    assert!(server.child.wait().expect("it ended").success());
    assert_eq!(database.query_texts("select name from worker"), Vec::<String>::new());
}

/// Ends a server and waits until it is gone.
fn kill_server(mut server: RunningServer) {
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
}

#[test]
fn a_crash_loop_of_the_server_is_not_blamed_on_its_runs() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("{FAST_RECOVERY_CONFIG}{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let mut server = RunningServer::start(&place, &[]);
    let runs: Vec<String> = (0..20).map(|_| start_run(&server)).collect();
    world.wait_for_requests("/slow", 20);
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(100));
        kill_server(server);
        server = RunningServer::start(&place, &[]);
    }
    world.release_slow();
    for run in runs {
        let ended = wait_for_end(&server, &run);
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert_eq!(count_events(&read_events(&server, &run), "run_suspended"), 0);
    }
}

#[test]
fn a_run_that_ends_its_process_is_quarantined_and_no_other_is() {
    let world = TestServer::start();
    let functions = "[functions.\"poison::store\"]\nworkflow = \"inner.json\"\n";
    let place = Workspace::new(&format!("{FAST_RECOVERY_CONFIG}{}{functions}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "GET", "/slow"));
    let write_steps = |id: &str, name: &str, function: &str| {
        let step = json!({"name": name, "functionId": function, "mode": "sequential", "errorMode": "fail",
            "promptTemplate": "{{input}}"});
        let steps = json!({"id": id, "name": id, "description": "", "steps": [step]});
        place.write(&format!("{id}.json"), &steps.to_string());
    };
    write_steps("poison", "call", "poison::store");
    write_steps("inner", "store", "memory::set");
    // The program ends when it stores the memory of a run.
    let environment = [("FLOWLOOM_FAILPOINT", "memory_write_before")];
    let mut server = RunningServer::start_with(&place, &[], &environment);
    let healthy: Vec<String> = (0..2).map(|_| start_run(&server)).collect();
    world.wait_for_requests("/slow", 2);
    // The server may end before it responds.
    let start = json!({"workflow": "poison", "inputs": r#"{"key": "k", "value": 1}"#}).to_string();
    let _reply = server.send("POST", "/api/v1/runs", &["Content-Type: application/json"], &start);
    server.child.wait().expect("it ended");
    for life in 2..=3 {
        let mut command = place.build_command(&["serve", ".", "--bind", "127.0.0.1:0"]);
        let ended = command.envs(environment).output().expect("it started");
        assert!(ended.status.code().is_none(), "life {life}: {}", stderr_text(&ended));
    }
    let server = RunningServer::start_with(&place, &[], &environment);
    let list = loop {
        let list = server.get("/api/v1/runs?status=quarantined").json();
        if list["items"].as_array().is_some_and(|items| !items.is_empty()) {
            break list;
        }
    };
    assert_eq!((list["items"].as_array().map(Vec::len), &list["items"][0]["workflow"]), (Some(1), &json!("poison")));
    let run = list["items"][0]["run_id"].as_str().expect("an id");
    let shown = String::from_utf8_lossy(&place.run(&["show", run]).stdout).into_owned();
    let reason = "3 workers in a row died in the step /call/run~1/store";
    assert!(shown.contains(reason) && shown.contains(&format!("flowloom resume {run}")), "{shown}");
    let interruption = server.get(&format!("/api/v1/runs/{run}")).json()["interruption"].to_string();
    assert!(interruption.contains(reason), "{interruption}");
    let children = server.get("/api/v1/runs?status=interrupted").json();
    let reason = children["items"][0]["interruption"].to_string();
    assert!(reason.contains(run) && reason.contains("is quarantined"), "{children}");
    world.release_slow();
    for run in healthy {
        let ended = wait_for_end(&server, &run);
        assert_eq!(ended["status"], "succeeded", "{ended}");
    }
}

#[test]
fn a_question_expires_in_time_although_the_clock_was_set_back() {
    let place =
        Workspace::new(&format!("{FAST_RECOVERY_CONFIG}[functions.\"ask::person\"]\nworkflow = \"ask.json\"\n"));
    for (id, function, timeout_ms) in [("ask", "human::ask", 3000), ("outer", "ask::person", 600_000)] {
        let step = json!({"name": "q", "functionId": function, "mode": "sequential", "errorMode": "fail",
            "promptTemplate": "Which?", "timeoutMs": timeout_ms});
        place.write(&format!("{id}.json"), &json!({"id": id, "name": id, "steps": [step]}).to_string());
    }
    let mut server = RunningServer::start(&place, &[]);
    let run = |workflow: &str| {
        let started = server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": "x"})).json();
        assert_eq!(started["status"], "waiting", "{started}");
        started["run_id"].as_str().expect("an id").to_owned()
    };
    let runs = [run("ask"), run("outer")];
    server.child.kill().expect("killed");
    drop(server);
    let server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_CLOCK_OFFSET_MS", "-3600000")]);
    for run in runs {
        let ended = loop {
            let run = server.get(&format!("/api/v1/runs/{run}")).json();
            if run["status"] != "waiting" && run["status"] != "running" {
                break run;
            }
        };
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("FL1040")), "{ended}");
    }
}
