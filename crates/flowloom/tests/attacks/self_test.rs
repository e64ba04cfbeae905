//! Tests of the oracle: planted leaks are found, and the values of the owners are really there.

use std::net::{TcpListener, TcpStream};

use base64::Engine as _;
use serde_json::json;

use crate::corpus::{Outcome, read_file};
use crate::oracle::{Canary, canary_value, check_database_files, check_next_request, check_world, find_canary};
use crate::points::Observation;
use crate::world::World;
use crate::{check_outcome, run_case};

#[test]
fn a_canary_is_found_in_every_encoding() {
    let value = canary_value(Canary::Secret);
    let bytes = value.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![value.clone(), value.chars().rev().collect(), hex.to_uppercase(), hex];
    for shift in ["", "a", "ab"] {
        forms.push(base64::engine::general_purpose::STANDARD.encode(format!("{shift}{value}")));
        forms.push(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{shift}{value}")));
    }
    for form in forms {
        assert!(find_canary(&format!("before {form} after")).is_some(), "{form}");
    }
    assert_eq!(find_canary("an ordinary text, c2VjcmV0, 63616e617279"), None);
}

#[test]
fn planted_leaks_are_found() {
    let world = World::start(None, &[]);
    assert_eq!(check_world(&world, "{}"), Ok(()));
    // The victim's objects have a canary, which the victim sees.
    let own = world.call("ann", "GET", "/api/v1/memory/ann", "");
    assert!(check_world(&world, &own.text).is_err_and(|why| why.contains("response")), "{}", own.text);
    // The attacker owns a definition that contains a canary, so the record of its run has it.
    let leak = json!({"id": "leak", "name": "leak", "description": "d", "steps": [{"name": "s", "functionId": "agent::chat",
        "mode": "sequential", "errorMode": "fail", "promptTemplate": canary_value(Canary::File)}]});
    world.place.write("leak.json", &leak.to_string());
    let file = serde_json::from_value(json!({"inputs": ["x"], "points": [], "expect": {"status": [200]}}));
    let row = file.expect("a row");
    let point = r#"POST /api/v1/runs?wait=60 {"workflow": "leak", "inputs": "{input}"}"#;
    let found = run_case(&world, &row, point, "x");
    assert!(found.is_err_and(|why| why.contains("a canary is in the response")));
    let recorded = check_database_files(&world.place.path("data"));
    assert!(recorded.is_err_and(|why| why.contains("File")), "the record of the run has it");

    TcpStream::connect(("127.0.0.1", world.forbidden.port)).expect("it listens");
    let contacted = std::iter::repeat_with(|| check_world(&world, "")).take(1000).find(Result::is_err);
    assert!(contacted.is_some_and(|found| found.is_err_and(|why| why.contains("forbidden address"))));
    std::fs::write(world.outside.path().join("made"), "").expect("written");
    assert!(check_world(&world, "").is_err_and(|why| why.contains("folder outside")));
}

#[test]
fn a_server_that_does_not_answer_is_found() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    assert!(check_next_request(&address).is_err_and(|why| why.contains("not answered")));
}

#[test]
fn another_outcome_is_a_failure() {
    let world = World::start(None, &[]);
    let row = &read_file("ids").rows[0];
    assert!(!row.expect.status.is_empty());
    let seen = Observation { status: 599, ..Observation::default() };
    assert!(check_outcome(&world, &row.expect, &seen, "x").is_err());
    let run = Outcome { run: vec!["failed".to_owned()], ..Outcome::default() };
    let seen = Observation { run: Some("succeeded".to_owned()), ..Observation::default() };
    assert!(check_outcome(&world, &run, &seen, "x").is_err());
}
