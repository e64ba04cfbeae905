//! Which worker drives a run: one of the same database, project and version, wherever it is.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use serde_json::json;
use test_restate::free_addresses;

use crate::cluster::Cluster;
use crate::support::http::RunningServer;
use crate::support::{TestServer, exit_code, stderr_text, two_calls_flow};
use crate::{ASK, HELLO};

#[test]
fn a_worker_of_another_database_does_not_lose_a_run() {
    let Some(cluster) = Cluster::start("") else { return };
    let other = cluster.add_place("");
    other.write("hello.json", HELLO);
    let refused = other.run(&["run", "hello.json"]);
    let printed = stderr_text(&refused);
    assert!(exit_code(&refused) == 1 && printed.contains("FL1309") && printed.contains("database"), "{printed}");
    assert_eq!(other.run_json(&["show", "last"]).1["status"], "queued");
    let [address] = free_addresses();
    let _worker = cluster.spawn_worker(&other, &["--listen", &address.to_string()], &[]);
    let (exit, resumed) = other.run_json(&["resume", "last"]);
    assert_eq!((exit, &resumed["output"]), (0, &json!("LLM(Say hello)")), "{resumed}");
}

#[test]
fn databases_may_use_an_address_one_after_the_other() {
    let Some(cluster) = Cluster::start("") else { return };
    let other = cluster.add_place("");
    let places = [&cluster.place, &other];
    places.iter().for_each(|place| drop(place.write("ask.json", ASK)));
    assert_eq!(exit_code(&cluster.place.run(&["run", "ask.json"])), 4);
    let [address] = free_addresses();
    let listen = ["--listen", &address.to_string(), "--url", &format!("http://{address}")];
    let own = cluster.spawn_worker(&cluster.place, &listen, &[]);
    drop(own);
    let _worker = cluster.spawn_worker(&other, &listen, &[]);
    assert_eq!(exit_code(&other.run(&["run", "ask.json"])), 4);
    let _own = cluster.spawn_worker(&cluster.place, &[], &[]);
    for place in places {
        let (exit, answered) = place.run_json(&["answer", "last", "rain"]);
        assert_eq!((exit, &answered["output"]), (0, &json!("LLM(A poem about rain)")), "{answered}");
    }
}

#[test]
fn databases_do_not_share_an_address_at_the_same_time() {
    let Some(cluster) = Cluster::start("") else { return };
    let other = cluster.add_place("");
    let refused = other.run(&["worker", "--admin", &cluster.restate.admin(), "--listen", &cluster.address]);
    let printed = stderr_text(&refused);
    assert!(
        exit_code(&refused) != 0 && printed.contains("another version, database, project or configuration"),
        "{printed}"
    );
}

#[test]
fn a_workflow_that_was_killed_with_restates_tools_is_replaced() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.place.write("ask.json", ASK);
    for _ in 0..2 {
        assert_eq!(exit_code(&cluster.place.run(&["run", "ask.json"])), 4);
        assert!(cluster.restate.kill_invocations() > 0, "nothing was killed");
        let (exit, answered) = cluster.place.run_json(&["answer", "last", "rain"]);
        assert_eq!((exit, &answered["output"]), (0, &json!("LLM(A poem about rain)")), "{answered}");
    }
}

#[test]
fn a_worker_leaves_the_runs_of_other_projects_alone() {
    let Some(cluster) = Cluster::start("project = \"a\"") else { return };
    let other = cluster.add_place("project = \"b\"");
    other.write("hello.json", HELLO);
    let data = cluster.place.path("data").display().to_string();
    let refused = other.run(&["--data-dir", &data, "run", "hello.json"]);
    let printed = stderr_text(&refused);
    assert!(exit_code(&refused) == 1 && printed.contains("FL1309") && printed.contains("project"), "{printed}");
    let [address] = free_addresses();
    let _worker = cluster.spawn_worker(&other, &["--data-dir", &data, "--listen", &address.to_string()], &[]);
    let resumed = other.run(&["--data-dir", &data, "resume", "last"]);
    assert_eq!(exit_code(&resumed), 0, "{}", stderr_text(&resumed));
}

/// The configuration under which a run may reach the loopback of the worker must be that of its start.
#[test]
fn a_worker_leaves_the_runs_of_other_configurations_alone() {
    let world = TestServer::start();
    let Some(cluster) = Cluster::start(&world.egress_config()) else { return };
    let strict = cluster.add_place("");
    strict.write("flow.json", &two_calls_flow(&world, "GET", "/second"));
    let data = cluster.place.path("data").display().to_string();
    let server = RunningServer::start_with(&strict, &["--data-dir", &data], &[]);
    let started = server.post("/api/v1/runs?wait=3", &json!({"workflow": "flow"}));
    assert_eq!((started.status, &started.json()["status"]), (202, &json!("queued")), "{started:?}");
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    let shown = strict.run(&["--data-dir", &data, "show", &run]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("no worker of Restate has begun the run"), "{shown}");
    assert_eq!(world.request_count("/first") + world.request_count("/second"), 0);
    // The operator continues it under the configuration of the worker.
    let resumed = cluster.place.run(&["resume", &run]);
    assert_eq!(exit_code(&resumed), 0, "{}", stderr_text(&resumed));
    assert_eq!(world.request_count("/second"), 1);
}

#[test]
fn a_start_that_restate_does_not_know_yet_is_no_error() {
    let Some(mut cluster) = Cluster::create("") else { return };
    cluster.place.write("hello.json", HELLO);
    let server = RunningServer::start(&cluster.place, &[]);
    let started = server.post("/api/v1/runs?wait=0.5", &json!({"workflow": "hello"}));
    assert_eq!((started.status, &started.json()["status"]), (202, &json!("queued")), "{started:?}");
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    assert!(started.head.contains(&format!("location: /api/v1/runs/{run}")), "{started:?}");
    cluster.start_worker();
    let ended = server.follow_to_end(&run);
    assert_eq!(ended["output"], "LLM(Say hello)", "{ended}");
}

#[test]
fn a_queued_run_is_cancelled_without_a_worker() {
    let world = TestServer::start();
    let Some(mut cluster) = Cluster::create(&world.egress_config()) else { return };
    cluster.place.write("flow.json", &two_calls_flow(&world, "POST", "/second"));
    let server = RunningServer::start(&cluster.place, &[]);
    let start = || {
        let started = server.post("/api/v1/runs?wait=0.1", &json!({"workflow": "flow"}));
        assert_eq!((started.status, &started.json()["status"]), (202, &json!("queued")), "{started:?}");
        started.json()["run_id"].as_str().expect("an id").to_owned()
    };
    let (by_call, by_command) = (start(), start());
    let cancelled = server.post(&format!("/api/v1/runs/{by_call}/cancel?wait=60"), &json!({}));
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")), "{cancelled:?}");
    let cancelled = cluster.place.run(&["cancel", &by_command]);
    assert_eq!(exit_code(&cancelled), 0, "{}", stderr_text(&cancelled));
    cluster.start_worker();
    let ended = server.post("/api/v1/runs?wait=60", &json!({"workflow": "flow"})).json();
    assert_eq!(ended["status"], "succeeded", "{ended}");
    for run in [by_call, by_command] {
        assert_eq!(server.get(&format!("/api/v1/runs/{run}")).json()["status"], "cancelled");
    }
    assert_eq!(world.request_count("/first"), 1, "of the run that was not cancelled");
}

/// The load balancer of workers may open only when one of them is ready.
#[test]
fn a_worker_registers_when_restate_reaches_it() {
    let Some(cluster) = Cluster::create("") else { return };
    cluster.place.write("hello.json", HELLO);
    let [own, balancer] = free_addresses().map(|address| address.to_string());
    let url = format!("http://{balancer}");
    let worker = cluster.spawn_unregistered(&cluster.place, &["--listen", &own, "--url", &url], &[]);
    worker.wait_for_text("cannot reach this worker at");
    let _second = cluster.spawn_worker(&cluster.place, &["--listen", &balancer, "--url", &url], &[]);
    worker.wait_for_text("Driving the runs of");
    let (exit, ran) = cluster.place.run_json(&["run", "hello.json"]);
    assert_eq!((exit, &ran["output"]), (0, &json!("LLM(Say hello)")), "{ran}");
}

/// After a change of the configuration, no worker drives the runs that were started before.
#[test]
fn a_run_of_another_configuration_can_be_cancelled_and_continued() {
    let world = TestServer::start();
    let Some(mut cluster) = Cluster::start(&world.egress_config()) else { return };
    cluster.place.write("ask.json", ASK);
    let ask = || {
        let (exit, asked) = cluster.place.run_json(&["run", "ask.json"]);
        assert_eq!(exit, 4, "{asked}");
        asked["run_id"].as_str().expect("an id").to_owned()
    };
    let [by_call, by_command, answered] = [ask(), ask(), ask()];
    cluster.kill_workers();
    let changed = cluster.add_place("");
    let data = cluster.place.path("data").display().to_string();
    let [address] = free_addresses();
    let _worker = cluster.spawn_worker(&changed, &["--data-dir", &data, "--listen", &address.to_string()], &[]);
    let server = RunningServer::start_with(&changed, &["--data-dir", &data], &[]);
    let cancelled = server.post(&format!("/api/v1/runs/{by_call}/cancel?wait=20"), &json!({}));
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")), "{cancelled:?}");
    let cancelled = changed.run(&["--data-dir", &data, "cancel", &by_command]);
    assert_eq!(exit_code(&cancelled), 0, "{}", stderr_text(&cancelled));
    let continued = changed.run(&["--data-dir", &data, "answer", &answered, "rain"]);
    assert_eq!(exit_code(&continued), 0, "{}", stderr_text(&continued));
    assert_eq!(server.get(&format!("/api/v1/runs/{answered}")).json()["status"], "succeeded");
}

#[test]
fn the_worker_reports_how_a_run_has_ended() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.place.write(
        "fail.json",
        r#"{"name": "fail", "steps": [{"name": "a", "functionId": "tool::file_read",
        "mode": "sequential", "promptTemplate": "missing.txt"}]}"#,
    );
    let server = RunningServer::start(&cluster.place, &[]);
    let started = server.post("/api/v1/runs", &json!({"workflow": "fail"}));
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(started.json()["interruption"], json!(null), "{started:?}");
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    cluster.wait_for_text("a run has failed");
    assert_eq!(server.get(&format!("/api/v1/runs/{run}")).json()["status"], "failed");
    // The server only follows it.
    assert!(!server.get("/metrics").body.contains("flowloom_runs_ended_total{"));
}

#[test]
fn a_run_without_a_worker_is_explained() {
    let Some(mut cluster) = Cluster::start("") else { return };
    cluster.place.write("hello.json", HELLO);
    assert_eq!(exit_code(&cluster.place.run(&["run", "hello.json"])), 0);
    cluster.kill_workers();
    let mut started = cluster.place.start(&["run", "hello.json"]);
    let mut printed = String::new();
    let mut lines = BufReader::new(started.stderr.take().expect("a pipe")).lines();
    while !printed.contains("no worker of Restate has begun the run") {
        printed = lines.next().expect("it goes on").expect("text");
    }
    cluster.start_worker();
    assert_eq!(lines.map_while(Result::ok).filter(|line| line.contains("no worker")).count(), 0);
    assert!(started.wait().expect("it ends").success());
}

#[test]
fn two_versions_serve_at_once() {
    let Some(cluster) = Cluster::start("") else { return };
    let place = &cluster.place;
    place.write("ask.json", ASK);
    let new_version = [("FLOWLOOM_ENGINE_SEMANTICS", "2")];
    let old_server = RunningServer::start_with(place, &["--data-dir", "data"], &[]);
    let ask = |server: &RunningServer| {
        let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask"})).json();
        assert_eq!(run["status"], "waiting", "{run}");
        run["run_id"].as_str().expect("an id").to_owned()
    };
    let answer = |server: &RunningServer, run: &str| {
        let body = json!({"path": "/subject", "value": "rain"});
        let answered = server.post(&format!("/api/v1/runs/{run}/answer?wait=60"), &body);
        assert!(answered.status == 200, "{answered:?}");
        assert_eq!(answered.json()["output"], "LLM(A poem about rain)", "{answered:?}");
    };
    let old_run = ask(&old_server);
    drop(old_server);
    let [address] = free_addresses();
    let _worker = cluster.spawn_worker(place, &["--listen", &address.to_string()], &new_version);
    let new_server = RunningServer::start_with(place, &[], &new_version);
    // The new server has the run of the old version continued by a worker of the old version.
    answer(&new_server, &old_run);
    let new_run = ask(&new_server);
    answer(&new_server, &new_run);
}

#[test]
fn a_worker_says_how_restate_reaches_it() {
    let Some(cluster) = Cluster::create("") else { return };
    let refused = cluster.place.run(&["worker", "--admin", &cluster.restate.admin(), "--listen", "0.0.0.0:0"]);
    let printed = stderr_text(&refused);
    assert!(exit_code(&refused) == 2 && printed.contains("--url"), "{printed}");
}

#[test]
fn runs_of_a_dead_address_continue_at_another() {
    let Some(mut cluster) = Cluster::start("") else { return };
    cluster.place.write("ask.json", ASK);
    assert_eq!(exit_code(&cluster.place.run(&["run", "ask.json"])), 4);
    let [address] = free_addresses();
    let worker = cluster.spawn_worker(&cluster.place, &["--listen", &address.to_string()], &[]);
    worker.wait_for_text("other workers have the address");
    cluster.kill_workers();
    worker.wait_for_text("no worker answers at");
    let (exit, answered) = cluster.place.run_json(&["answer", "last", "rain"]);
    assert_eq!((exit, &answered["output"]), (0, &json!("LLM(A poem about rain)")), "{answered}");
}

/// A worker that hangs accepts connections and answers none.
#[test]
fn runs_of_an_address_that_hangs_continue_at_another() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.place.write("hello.json", HELLO);
    let [address] = free_addresses();
    let hanging = cluster.spawn_worker(&cluster.place, &["--listen", &address.to_string()], &[]);
    hanging.send_signal("-STOP");
    cluster.wait_for_text("no worker answers at");
    let (exit, ran) = cluster.place.run_json(&["run", "hello.json"]);
    assert_eq!((exit, &ran["output"]), (0, &json!("LLM(Say hello)")), "{ran}");
}

#[test]
fn a_server_that_has_lost_its_data_learns_of_the_workers_again() {
    let Some(mut cluster) = Cluster::create("") else { return };
    cluster.place.write("hello.json", HELLO);
    let worker = cluster.spawn_worker(&cluster.place, &[], &[]);
    cluster.restate.start_empty();
    worker.wait_for_text("is registered again");
    // A follower that was refused asks again.
    let output = cluster.place.run(&["run", "hello.json"]);
    let output = if exit_code(&output) == 0 { output } else { cluster.place.run(&["resume", "last"]) };
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
}

#[test]
fn a_request_waits_no_longer_than_it_asks_for() {
    let Some(mut cluster) = Cluster::start("") else { return };
    cluster.place.write("ask.json", ASK);
    let server = RunningServer::start(&cluster.place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask"})).json();
    assert_eq!(run["status"], "waiting", "{run}");
    cluster.kill_workers();
    // The second time, a client already follows the run, and the first answer is stored.
    for (value, status) in [("rain", 202), ("snow", 409)] {
        let path = format!("/api/v1/runs/{}/answer?wait=1", run["run_id"].as_str().expect("an id"));
        let started = Instant::now();
        let answered = server.post(&path, &json!({"path": "/subject", "value": value}));
        assert_eq!(answered.status, status, "{answered:?}");
        // Without the limit of the request, a decision is waited for longer than that.
        assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    }
}
