//! A process with few file descriptors: work waits for them instead of failing.

mod support;

use std::time::Duration;

use serde_json::json;
use support::http::RunningServer;
use support::{TestServer, Workspace, two_calls_flow, write_posting_pipeline};

/// Number of concurrent runs, more than the server has descriptors.
const RUNS: usize = 100;

/// Number of concurrent runs with a Python block; their interpreters would use all descriptors.
const BLOCK_RUNS: usize = 20;

/// Starts `count` runs of a workflow at the same time, and returns their ids.
fn start_runs(server: &RunningServer, workflow: &str, count: usize) -> Vec<String> {
    let start = || {
        let started = server.post("/api/v1/runs", &json!({"workflow": workflow}));
        assert_eq!(started.status, 202, "{started:?}");
        started.json()["run_id"].as_str().expect("an id").to_owned()
    };
    std::thread::scope(|scope| {
        let starting: Vec<_> = (0..count).map(|_| scope.spawn(start)).collect();
        starting.into_iter().map(|run| run.join().expect("started")).collect()
    })
}

fn assert_all_succeed(server: &RunningServer, runs: &[String]) {
    for run in runs {
        let shown = server.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({})).json();
        assert_eq!(shown["status"], "succeeded", "{shown}");
    }
}

#[test]
fn no_run_fails_for_lack_of_descriptors() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "POST", "/slow"));
    let server = RunningServer::start_with_files(&place, 64);
    let runs = start_runs(&server, "flow", RUNS);
    // Calls hold all descriptors that they may use, and the server still answers.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(server.get("/health/ready").status, 200);
    world.release_slow();
    assert_all_succeed(&server, &runs);
    assert_eq!(world.request_count("/slow") as usize, RUNS, "no request is sent twice");
}

#[test]
fn python_blocks_leave_descriptors_to_others() {
    let world = TestServer::start();
    let place = Workspace::new(&world.egress_config());
    write_posting_pipeline(&world, &place);
    let server = RunningServer::start_with_files(&place, 64);
    let runs = start_runs(&server, "p", BLOCK_RUNS);
    world.wait_for_requests("/slow", 1);
    // The maximum number of interpreters has started, and the server still answers and takes its user for itself.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(server.get("/health/ready").status, 200);
    world.release_slow();
    assert_all_succeed(&server, &runs);
    assert_eq!(world.request_count("/slow") as usize, BLOCK_RUNS, "no request is sent twice");
}
