//! The requests of one user do not hold up those of others, however long they take.

mod support;

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use support::Workspace;
use support::http::{HttpAnswer, RunningServer, send_to};

/// The number of requests of a user that may wait.
const MAX_QUEUED: usize = 128;

/// The number of requests that find no room in the queue.
const REFUSED: usize = 3;

/// The interval of opening the file for those who wait for it.
const OPEN_INTERVAL: Duration = Duration::from_millis(5);

/// The key of a user, as a header.
fn create_key(place: &Workspace, user: &[&str]) -> String {
    let (code, made) = place.run_json(&[&["keys", "create", "--name", "x", "--scopes", "read"][..], user].concat());
    assert_eq!(code, 0, "{made}");
    format!("Authorization: Bearer {}", made["key"].as_str().expect("a text"))
}

/// The number of requests of one user that work at the same time.
fn user_share() -> usize {
    let cores = std::thread::available_parallelism().expect("known").get();
    let places = (cores * 2).max(4);
    places - places / 4
}

/// A pipe that blocks its readers.
fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("it starts").success());
}

/// Lets the readers of a pipe continue, if there are any. Opening it for reading and writing does not block.
fn end_pipe(path: &Path) {
    drop(OpenOptions::new().read(true).write(true).open(path).expect("a pipe"));
}

#[test]
fn requests_that_never_end_hold_up_nobody_else() {
    let place = Workspace::with_hello("");
    let (operator, alice) = (create_key(&place, &[]), create_key(&place, &["--user", "alice"]));
    // A reader of the test waits for the pipe.
    std::fs::create_dir(place.path("tests")).expect("a folder");
    place.write("tests/x.json", "{}");
    let pipe = place.path("pipe");
    make_pipe(&pipe);
    let server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_HOLD", &format!("test_read:{}", pipe.display()))]);
    let (answers, answered) = mpsc::channel();
    let count = user_share() + MAX_QUEUED + REFUSED;
    for _ in 0..count {
        let (address, key, answers) = (server.address.clone(), operator.clone(), answers.clone());
        std::thread::spawn(move || {
            let answer = HttpAnswer::read(send_to(&address, "GET", "/api/v1/tests", &[&key], ""));
            answers.send(answer).expect("the test waits");
        });
    }
    for _ in 0..REFUSED {
        let refused = answered.recv().expect("an answer");
        assert_eq!((refused.status, refused.error_code()), (429, "FL1513".to_owned()), "{refused:?}");
        assert!(refused.head.contains("retry-after: "), "{refused:?}");
    }
    // The others work or wait.
    let ask = |path: &str| server.send_and_read("GET", path, &[&alice], "");
    assert_eq!(ask("/api/v1/workflows").status, 200);
    assert_eq!(ask("/api/v1/runs").status, 200);
    for _ in REFUSED..count {
        let answer = loop {
            end_pipe(&pipe);
            if let Ok(answer) = answered.recv_timeout(OPEN_INTERVAL) {
                break answer;
            }
        };
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}
