//! Killing and interrupting the program, running it twice, and editing its files: nothing is lost or repeated.

mod support;

use std::os::unix::process::ExitStatusExt as _;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, send_signal, stderr_text, two_calls_flow};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

/// Starts a run that waits at `/slow`, and kills the program there.
fn kill_at_slow(method: &str) -> (Workspace, TestServer) {
    let server = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", server.egress_config()));
    place.write("flow.json", &two_calls_flow(&server, method, "/slow"));
    let mut child = place.start(&["run", "flow.json"]);
    server.wait_for_requests("/slow", 1);
    send_signal(&child, "-9");
    assert_eq!(child.wait().expect("it ended").signal(), Some(9));
    server.release_slow();
    (place, server)
}

#[test]
fn a_killed_run_continues_without_repeating_what_was_finished() {
    let (place, server) = kill_at_slow("GET");
    // The definition may change or disappear; the run uses its bundle.
    place.write("flow.json", "{}");
    let (code, result) = place.run_json(&["resume", "last"]);
    assert_eq!(code, 0, "{result}");
    assert_eq!(result["output"], "LLM(/slow)");
    assert_eq!((server.request_count("/first"), server.request_count("/slow")), (1, 2));
    let (code, again) = place.run_json(&["resume", "last"]);
    assert_eq!((code, &again["output"]), (0, &result["output"]));
    assert_eq!(server.request_count("/slow"), 2, "a finished run performs no effects");
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
}

#[test]
fn a_post_in_flight_is_not_sent_again_by_itself() {
    let (place, server) = kill_at_slow("POST");
    let (code, result) = place.run_json(&["resume", "last"]);
    assert_eq!((code, result["status"].as_str()), (6, Some("uncertain")), "{result}");
    assert_eq!(server.request_count("/slow"), 1);
    let (code, result) = place.run_json(&["resolve", "last", "/two", "--resend"]);
    assert_eq!((code, &result["output"]), (0, &"LLM(/slow)".into()), "{result}");
    let keys = server.idempotency_keys("/slow");
    assert_eq!(keys.len(), 2);
    assert!(!keys[0].is_empty() && keys[0] == keys[1], "{keys:?}");
}

#[test]
fn an_uncertain_effect_can_be_declared_failed_or_given_its_result() {
    let (place, server) = kill_at_slow("POST");
    assert_eq!(place.run_json(&["resume", "last"]).0, 6);
    let (code, result) = place.run_json(&["resolve", "last", "/two", "--fail"]);
    assert_eq!((code, result["error"]["code"].as_str()), (1, Some("FL1206")), "{result}");
    let (other, _) = kill_at_slow("POST");
    assert_eq!(other.run_json(&["resume", "last"]).0, 6);
    let (code, result) = other.run_json(&["resolve", "last", "/two", "--value", "{\"path\":\"given\"}"]);
    assert_eq!((code, &result["output"]), (0, &"LLM(given)".into()), "{result}");
    assert_eq!(server.request_count("/slow"), 1);
}

#[test]
fn a_dead_run_is_interrupted_wherever_it_is_shown() {
    let (place, _) = kill_at_slow("GET");
    let shown = place.run(&["show", "last"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("interrupted"), "{shown:?}");
    let (_, one) = place.run_json(&["show", "last"]);
    let (_, listed) = place.run_json(&["runs"]);
    assert_eq!((&one["status"], &listed[0]["status"]), (&json!("interrupted"), &json!("interrupted")), "{one}");
    // A server with another policy of requests does not continue the run.
    place.write("flowloom.toml", &format!("{ECHO_CONFIG}[egress]\nallow = [\"127.0.0.1:9\"]\n"));
    let server = RunningServer::start(&place, &[]);
    let fetched = server.get(&format!("/api/v1/runs/{}", one["run_id"].as_str().expect("an id"))).json();
    let page = server.get("/api/v1/runs").json();
    assert_eq!((&fetched["status"], &page["items"][0]["status"]), (&json!("interrupted"), &json!("interrupted")));
}

/// A run of a version with other semantics is shown and cancelled, but not continued.
#[test]
fn a_run_of_another_version_can_be_shown_and_cancelled() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let start_with_other_version = || -> String {
        let mut command = place.build_command(&["run", "ask.json", "-i", "input=tea", "--json"]);
        let output = command.env("FLOWLOOM_ENGINE_SEMANTICS", "2").output().expect("the program runs");
        let started: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(started["status"], "waiting", "{started}");
        started["run_id"].as_str().expect("an id").to_owned()
    };
    let (first, second) = (start_with_other_version(), start_with_other_version());
    for arguments in [&["resume", &first][..], &["answer", &first, "Rome"]] {
        let refused = place.run(arguments);
        assert_eq!(exit_code(&refused), 2, "{arguments:?}: {}", stderr_text(&refused));
        assert!(stderr_text(&refused).contains("error[FL1205]"), "{arguments:?}: {}", stderr_text(&refused));
    }
    assert_eq!(exit_code(&place.run(&["show", &first])), 0);
    assert_eq!(exit_code(&place.run(&["cancel", &first])), 0);
    assert_eq!(place.run_json(&["show", &first]).1["status"], "cancelled");
    let server = RunningServer::start(&place, &[]);
    let fetched = server.get(&format!("/api/v1/runs/{second}"));
    assert_eq!((fetched.status, &fetched.json()["status"]), (200, &json!("waiting")), "{fetched:?}");
    let refused = server.post(&format!("/api/v1/runs/{second}/resume"), &json!({}));
    assert_eq!((refused.status, refused.error_code().as_str()), (422, "FL1205"), "{refused:?}");
    let cancelled = server.post(&format!("/api/v1/runs/{second}/cancel?wait=60"), &json!({}));
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")), "{cancelled:?}");
}

#[test]
fn one_process_owns_a_run() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", server.egress_config()));
    place.write("flow.json", &two_calls_flow(&server, "GET", "/slow"));
    let child = place.start(&["run", "flow.json"]);
    server.wait_for_requests("/slow", 1);
    let second = place.run(&["resume", "last"]);
    assert_eq!(exit_code(&second), 2);
    assert!(stderr_text(&second).contains("FL1202"), "{}", stderr_text(&second));
    server.release_slow();
    assert_eq!(exit_code(&child.wait_with_output().expect("it ended")), 0);
}

#[test]
fn cancel_reaches_another_process() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", server.egress_config()));
    place.write("flow.json", &two_calls_flow(&server, "GET", "/slow"));
    let child = place.start(&["run", "flow.json", "--json"]);
    server.wait_for_requests("/slow", 1);
    let cancelled = place.run(&["cancel", "last"]);
    assert_eq!(exit_code(&cancelled), 0, "{}", stderr_text(&cancelled));
    let output = child.wait_with_output().expect("it ended");
    assert_eq!(exit_code(&output), 130);
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(result["status"], "cancelled");
    server.release_slow();
}

#[test]
fn a_run_that_nobody_drives_can_be_cancelled() {
    let (place, server) = kill_at_slow("GET");
    assert_eq!(exit_code(&place.run(&["cancel", "last"])), 0);
    let (_, list) = place.run_json(&["runs"]);
    assert_eq!(list[0]["status"], "cancelled");
    assert_eq!(server.request_count("/slow"), 1);
}

#[test]
fn a_database_that_cannot_grow_loses_nothing() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", server.egress_config()));
    let long = "x".repeat(400_000);
    let flow = two_calls_flow(&server, "GET", "/other")
        .replace("\"a\", \"value\": \"1\"", &format!("\"a\", \"value\": \"{long}\""));
    place.write("flow.json", &flow);
    let program = env!("CARGO_BIN_EXE_flowloom");
    // Limits files to 200 kB: the schema fits, the bundle does not.
    let limited = format!("trap '' XFSZ; ulimit -f 200; exec '{program}' run flow.json --json");
    let mut shell = std::process::Command::new("bash");
    let output = shell
        .args(["-c", &limited])
        .current_dir(place.path(""))
        .env("FLOWLOOM_DATA_DIR", place.path("data"))
        .output()
        .expect("bash runs");
    assert_eq!(exit_code(&output), 1, "{}", stderr_text(&output));
    assert!(stderr_text(&output).contains("FL1310"), "{}", stderr_text(&output));
    assert_eq!(server.request_count("/other"), 0, "no effect without a journal entry");
    assert_eq!(exit_code(&place.run(&["run", "flow.json"])), 0, "it works again with space");
}
