//! Helpers of the tests of recorded workflow tests: a workspace, small step lists, and commands with their output.

use serde_json::{Value, json};

use super::{Workspace, exit_code, stderr_text};

pub(crate) fn stdout_text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The standard output of a command that ends with this exit code.
#[track_caller]
pub(crate) fn stdout_of(place: &Workspace, expected: i32, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    assert_eq!(exit_code(&output), expected, "{arguments:?}: {}{}", stdout_text(&output), stderr_text(&output));
    stdout_text(&output)
}

/// A workspace with the scripted model that repeats its prompt.
pub(crate) fn place_with_echo() -> Workspace {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    std::fs::create_dir(place.path("tests")).expect("a folder");
    place
}

pub(crate) fn chat_step(name: &str, prompt: &str) -> Value {
    json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
        "promptTemplate": prompt, "outputVar": name})
}

pub(crate) fn step_list(steps: &[Value]) -> String {
    json!({"id": "story", "name": "Story", "description": "d", "steps": steps}).to_string()
}

/// Runs a definition to its end and records the test `tests/t.json`.
pub(crate) fn record_test(place: &Workspace, file: &str, inputs: &[&str]) -> Value {
    stdout_of(place, 0, &[&["run", file], inputs].concat());
    stdout_of(place, 0, &["test", "record", "last", "--as", "tests/t.json", "--force"]);
    serde_json::from_str(&std::fs::read_to_string(place.path("tests/t.json")).expect("there")).expect("JSON")
}
