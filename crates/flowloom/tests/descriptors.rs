//! A process with few file descriptors: work waits for them instead of failing.

mod support;

use std::time::Duration;

use serde_json::json;
use support::http::RunningServer;
use support::{TestServer, Workspace, two_calls_flow};

/// Number of concurrent runs, more than the server has descriptors.
const RUNS: usize = 100;

#[test]
fn no_run_fails_for_lack_of_descriptors() {
    let world = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "POST", "/slow"));
    let server = RunningServer::start_with_files(&place, 64);
    let start = || {
        let started = server.post("/api/v1/runs", &json!({"workflow": "flow"}));
        assert_eq!(started.status, 202, "{started:?}");
        started.json()["run_id"].as_str().expect("an id").to_owned()
    };
    let runs: Vec<String> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..RUNS).map(|_| scope.spawn(start)).collect();
        starting.into_iter().map(|run| run.join().expect("started")).collect()
    });
    // Calls hold all descriptors that they may use, and the server still answers.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(server.get("/health/ready").status, 200);
    world.release_slow();
    for run in &runs {
        let shown = server.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({})).json();
        assert_eq!(shown["status"], "succeeded", "{shown}");
    }
    assert_eq!(world.request_count("/slow") as usize, RUNS, "no request is sent twice");
}
