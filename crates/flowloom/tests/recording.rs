//! Recording tests of workflows, updating them, and printing their results: which runs and which options fit.

mod support;

use serde_json::json;
use support::recording::{chat_step, place_with_echo, record_test, stdout_of, step_list};
use support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};

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
    let mut test = record_test(&place, "story.json", &["-i", "input=x"]);
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
    record_test(&place, "story.json", &["-i", "input=x"]);
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
