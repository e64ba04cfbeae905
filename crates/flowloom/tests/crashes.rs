//! The server is killed repeatedly under load, with a client following every run: no acknowledged run is lost, and no
//! client sees gaps or duplicates.

mod support;

use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use support::http::{RunningServer, follow_events};
use support::{TestServer, Workspace};

/// Number of runs that are started before each crash, and number of crashes.
const RUNS_PER_CRASH: usize = 16;
const CRASH_COUNT: usize = 3;

/// Follows a run through crashes of the server. Returns its events by sequence number.
fn follow_run(address: &str, run: &str) -> BTreeMap<u64, String> {
    let (mut received, mut last) = (BTreeMap::new(), 0);
    loop {
        let path = format!("/api/v1/runs/{run}/events");
        // Between a crash and the next start the server is unreachable, as for any client.
        let lines = follow_events(address, &path, last);
        let mut id = None;
        for line in lines {
            if let Some(number) = line.strip_prefix("id: ") {
                id = number.parse::<u64>().ok();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let Some(number) = id.take() else {
                    let done: Value = serde_json::from_str(data).expect("JSON");
                    assert_eq!(done["status"], "succeeded", "{run}");
                    return received;
                };
                assert_eq!(number, last + 1, "no gaps, no duplicates: {run}");
                last = number;
                received.insert(number, data.to_owned());
            }
        }
    }
}

#[test]
fn nothing_is_lost_when_the_server_dies_under_load() {
    let slow = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", slow.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    let mut server = RunningServer::start(&place, &[]);
    let address = server.address.clone();
    let mut followers = Vec::new();
    for crash in 1..=CRASH_COUNT {
        let (acknowledged, runs) = channel();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (acknowledged, server) = (acknowledged.clone(), &server);
                scope.spawn(move || {
                    for _ in 0..RUNS_PER_CRASH / 4 {
                        let run = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
                        acknowledged.send(run["run_id"].as_str().expect("an id").to_owned()).expect("heard");
                    }
                });
            }
        });
        drop(acknowledged);
        for run in runs {
            let address = address.clone();
            let name = run.clone();
            followers.push((run, std::thread::spawn(move || follow_run(&address, &name))));
        }
        // Some runs are at their second call, some at their first.
        slow.wait_for_requests("/slow", (crash * RUNS_PER_CRASH / 2) as u32);
        server.child.kill().expect("killed");
        server.child.wait().expect("ended");
        server = RunningServer::start_at(&place, &address, &[]);
    }
    slow.release_slow();
    assert_eq!(followers.len(), RUNS_PER_CRASH * CRASH_COUNT);
    for (run, follower) in followers {
        let received = follower.join().expect("a whole stream");
        let (mut whole, mut id) = (BTreeMap::new(), 0);
        for line in server.stream(&format!("/api/v1/runs/{run}/events"), &[]) {
            match (line.strip_prefix("id: "), line.strip_prefix("data: ")) {
                (Some(number), _) => id = number.parse::<u64>().expect("a number"),
                (_, Some(data)) if id > 0 => drop(whole.entry(id).or_insert(data.to_owned())),
                _ => {}
            }
        }
        assert_eq!(received, whole, "the client received exactly the journal: {run}");
        let finished = |path: &str| {
            whole
                .values()
                .filter(|data| data.contains("step_finished") && data.contains(&format!("\"path\":\"{path}\"")))
                .count()
        };
        assert_eq!((finished("/one"), finished("/two"), finished("/three")), (1, 1, 1), "{run}");
    }
}
