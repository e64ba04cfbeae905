//! Recording tests of workflows, updating them, and printing their results: which runs and which options fit.

mod support;

use serde_json::{Value, json};
use support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};

fn stdout_text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The standard output of a command that ends with this exit code.
#[track_caller]
fn stdout_of(place: &Workspace, expected: i32, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    assert_eq!(exit_code(&output), expected, "{arguments:?}: {}{}", stdout_text(&output), stderr_text(&output));
    stdout_text(&output)
}

/// A workspace with the scripted model that repeats its prompt.
fn place_with_echo() -> Workspace {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    std::fs::create_dir(place.path("tests")).expect("a folder");
    place
}

fn chat_step(name: &str, prompt: &str) -> Value {
    json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
        "promptTemplate": prompt, "outputVar": name})
}

fn step_list(steps: &[Value]) -> String {
    json!({"id": "story", "name": "Story", "description": "d", "steps": steps}).to_string()
}

/// Runs a definition to its end and records the test `tests/t.json`.
fn record(place: &Workspace, file: &str, inputs: &[&str]) -> Value {
    stdout_of(place, 0, &[&["run", file], inputs].concat());
    stdout_of(place, 0, &["test", "record", "last", "--as", "tests/t.json", "--force"]);
    serde_json::from_str(&std::fs::read_to_string(place.path("tests/t.json")).expect("there")).expect("JSON")
}

fn read_test(place: &Workspace) -> String {
    std::fs::read_to_string(place.path("tests/t.json")).expect("a test")
}

#[test]
fn a_test_of_a_run_that_waits_is_updated() {
    let place = place_with_echo();
    let mut question = chat_step("q", "ok?");
    question["functionId"] = "human::ask".into();
    let story = |prompt: &str| step_list(&[chat_step("first", prompt), question.clone()]);
    place.write("story.json", &story("One"));
    stdout_of(&place, 4, &["run", "story.json", "-i", "input=x"]);
    stdout_of(&place, 0, &["test", "record", "last", "--as", "tests/t.json"]);
    for (prompt, update) in [("Two", &["test", "--update"][..]), ("Three", &["test", "--live", "--update"])] {
        place.write("story.json", &story(prompt));
        stdout_of(&place, 3, &["test"]);
        let updated = stdout_of(&place, 0, update);
        assert!(updated.contains("1 updated"), "{updated}");
        stdout_of(&place, 0, &["test"]);
    }
}

#[test]
fn a_live_update_leaves_a_test_that_passes_as_it_is() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    let mut test = record(&place, "story.json", &["-i", "input=x"]);
    test.as_object_mut().expect("an object").remove("model");
    place.write("tests/t.json", &test.to_string());
    stdout_of(&place, 0, &["test", "--live", "--update"]);
    assert_eq!(read_test(&place), test.to_string());
}

#[test]
fn a_run_that_a_test_cannot_repeat_is_not_recorded() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    stdout_of(&place, 5, &["run", "story.json", "-i", "input=x", "--budget", "tokens=1"]);
    let refused = place.run(&["test", "record", "last", "--as", "tests/t.json"]);
    let shown = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 2, "{shown}");
    assert!(shown.contains("FL1405") && shown.contains("it had limits of its own"), "{shown}");
    let world = TestServer::start();
    place.write("flowloom.toml", &format!("default_model = \"scripted:echo\"\n{}", world.egress_config()));
    place.write("slow.json", &two_calls_flow(&world, "GET", "/slow"));
    let (code, timed_out) = place.run_json(&["run", "slow.json", "--budget", "time=100ms"]);
    assert_eq!((code, &timed_out["result"]["success"]), (124, &json!(false)), "{timed_out}");
    let shown = stderr_text(&place.run(&["test", "record", "last", "--as", "tests/t.json"]));
    assert!(shown.contains("its time was up"), "{shown}");
    assert!(!place.path("tests/t.json").exists());
}

#[test]
fn two_forms_of_a_report_are_refused() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    record(&place, "story.json", &["-i", "input=x"]);
    for arguments in [
        &["test", "--report", "junit"][..],
        &["test", "--report", "tap"],
        &["check", "story.json", "--report", "sarif"],
        &["check", "story.json", "--report", "github"],
    ] {
        let (code, refused) = place.run_json(arguments);
        assert_eq!((code, &refused["error"]["code"]), (2, &json!("FL1402")), "{arguments:?}: {refused}");
        assert_eq!(exit_code(&place.run(arguments)), 0, "{arguments:?}");
    }
}
