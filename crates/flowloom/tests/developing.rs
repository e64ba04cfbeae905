//! `flowloom dev`: a definition that is saved runs again.

mod support;

use std::io::{BufRead as _, BufReader};

use serde_json::json;
use support::{TestServer, Workspace};

#[test]
fn a_definition_runs_again_when_it_is_saved() {
    let server = TestServer::start();
    let place = Workspace::new(&server.egress_config());
    let flow = |path: &str| {
        json!({"name": "w", "steps": [{"type": "apiCall", "config": {"url": format!("http://{}{path}", server.address),
            "method": "GET", "headers": [], "responseVariable": "r"}}]})
        .to_string()
    };
    for (round, name) in [(1, "watched.json"), (2, "watched")] {
        place.write("watched.json", &flow("/one"));
        let mut child = place.start(&["dev", name]);
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut await_pause = || {
            let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("waiting for a change")));
            line.expect("it waits").expect("text");
        };
        await_pause();
        assert_eq!(server.request_count("/one"), round);
        place.write("watched.json", &flow("/two"));
        server.wait_for_requests("/two", round);
        await_pause();
        // Some editors remove a file before they write it.
        std::fs::remove_file(place.path("watched.json")).expect("removed");
        await_pause();
        place.write("watched.json", &flow("/three"));
        server.wait_for_requests("/three", round);
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
}
