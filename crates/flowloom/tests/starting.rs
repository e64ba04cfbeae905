//! How a run is started and found again: by the name of a stored workflow, in a new project with its declarations, and in
//! a filtered list.

mod support;

use serde_json::{Value, json};
use support::{Workspace, exit_code, stderr_text};

fn listed(place: &Workspace, options: &[&str]) -> Vec<Value> {
    let (code, runs) = place.run_json(&[&["runs"], options].concat());
    assert_eq!(code, 0);
    runs.as_array().expect("a list").clone()
}

#[test]
fn a_stored_workflow_runs_by_its_id_after_files() {
    let place = Workspace::with_hello("");
    assert_eq!(exit_code(&place.run(&["sync", "."])), 0);
    let text = std::fs::read_to_string(place.path("hello.json")).expect("readable");
    std::fs::remove_file(place.path("hello.json")).expect("removed");
    let stored = place.run(&["run", "hello", "-i", "input=moon"]);
    assert_eq!(exit_code(&stored), 0, "{}", stderr_text(&stored));
    assert!(String::from_utf8_lossy(&stored.stdout).contains("Say moon"));
    place.write("hello.json", &text.replace("Say ", "Sing "));
    let file = place.run(&["run", "hello", "-i", "input=moon"]);
    assert!(String::from_utf8_lossy(&file.stdout).contains("Sing moon"), "the file comes first");
    let missing = place.run(&["run", "hullo"]);
    assert_eq!(exit_code(&missing), 2);
    assert!(stderr_text(&missing).contains("did you mean hello?"), "{}", stderr_text(&missing));
}

#[test]
fn a_misspelt_name_creates_no_data() {
    let place = Workspace::with_hello("");
    assert_eq!(exit_code(&place.run(&["run", "hullo"])), 2);
    assert!(!place.path("data").exists());
}

#[test]
fn runs_are_filtered() {
    let place = Workspace::with_hello("");
    place.write("script.json", r#"{"match": [], "default": {"error": "down"}}"#);
    for arguments in [
        &["run", "hello", "-i", "input=x"][..],
        &["run", "hello", "-i", "input=x", "--model", "scripted:script.json"],
        &["run", "hello", "-i", "input=x"],
    ] {
        place.run(arguments);
    }
    let count = |options: &[&str]| listed(&place, options).len();
    assert_eq!(count(&[]), 3);
    assert_eq!(
        [count(&["--status", "failed"]), count(&["--status", "succeeded"]), count(&["--status", "running"])],
        [1, 2, 0]
    );
    assert_eq!([count(&["--name", "hello"]), count(&["--name", "other"])], [3, 0]);
    let first = listed(&place, &[])[0]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!([count(&["--before", &first]), count(&["--before", &first, "--limit", "1"])], [2, 1]);
    assert_eq!([count(&["--since", "1h"]), count(&["--since", "0s"])], [3, 0]);
    assert_eq!(exit_code(&place.run(&["runs", "--since", "30"])), 2);
    let empty = place.run(&["runs", "--name", "other"]);
    assert_eq!(stderr_text(&empty), "no run fits\n");
    let wrong = place.run(&["runs", "--status", "broken"]);
    assert_eq!(exit_code(&wrong), 2);
    assert!(stderr_text(&wrong).contains("it is one of queued, running,"), "{}", stderr_text(&wrong));
}

#[test]
fn a_new_project_declares_what_its_definition_needs() {
    let place = Workspace::new("[functions.\"shop::find\"]\nurl = \"https://shop.example/find\"\n");
    let step = |function: &str| {
        json!({"id": "s", "name": "s", "description": "d", "steps": [
            {"name": "a", "functionId": function, "mode": "sequential", "errorMode": "fail"},
        ]})
        .to_string()
    };
    place.write("find.json", &step("shop::find"));
    let created = place.run(&["init", "new", "--from", "find.json"]);
    assert_eq!(exit_code(&created), 0, "{}", stderr_text(&created));
    let config = std::fs::read_to_string(place.path("new/flowloom.toml")).expect("written");
    assert!(config.contains("[functions.\"shop::find\"]\nurl = \"https://shop.example/find\"\n"), "{config}");
    let checked = place.run(&["check", "new/find.json"]);
    assert_eq!(exit_code(&checked), 0, "{}", stderr_text(&checked));
    // What nothing declares is named with the place where it belongs.
    place.write("lost.json", &step("shop::lost"));
    let created = place.run(&["init", "other", "--from", "lost.json"]);
    assert_eq!(exit_code(&created), 0);
    assert!(stderr_text(&created).contains("[functions.\"shop::lost\"]"), "{}", stderr_text(&created));
}
