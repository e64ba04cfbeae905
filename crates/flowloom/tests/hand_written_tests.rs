//! Tests of workflows that a person wrote: what they notice, and what an update leaves to the person.

mod support;

use serde_json::{Value, json};
use support::Workspace;

/// A project with the definition `file`, and a test of it.
fn place_with(file: &str, definition: &str, test: &Value) -> Workspace {
    let place = Workspace::new("[functions.\"shop::plain\"]\nurl = \"http://127.0.0.1:9/x\"\n");
    std::fs::create_dir(place.path("tests")).expect("a folder");
    place.write(file, definition);
    place.write("tests/t.json", &test.to_string());
    place
}

/// The exit code of `flowloom test`, and its output about the test.
fn run_test(place: &Workspace, more: &[&str]) -> (i32, Value) {
    let (code, outcomes) = place.run_json(&[&["test"], more].concat());
    (code, outcomes[0].clone())
}

fn chat_step(name: &str, error_mode: &str) -> Value {
    json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "errorMode": error_mode, "outputVar": name,
        "promptTemplate": "Say {{input}}"})
}

fn step_list(steps: &[Value]) -> String {
    json!({"id": "s", "name": "S", "description": "d", "steps": steps}).to_string()
}

#[test]
fn a_missing_response_is_noticed_although_the_run_continues() {
    let call = json!({"name": "n", "functionId": "shop::plain", "mode": "sequential", "errorMode": "skip", "promptTemplate": "n"});
    let test =
        json!({"definition": "../s.json", "inputs": "hi", "answers": ["C"], "expect": {"output": [{"equals": "C"}]}});
    let place = place_with("s.json", &step_list(&[call, chat_step("c", "fail")]), &test);
    let (code, outcome) = run_test(&place, &[]);
    assert_eq!((code, outcome["problems"][0]["place"].as_str()), (3, Some("/n")), "{outcome}");
    let message = outcome["problems"][0]["message"].as_str().expect("a message");
    assert_eq!(message, "the test has no response for the call of shop::plain of /n, attempt 1");
}

#[test]
fn a_missing_response_is_noticed_although_a_failure_is_expected() {
    let test = json!({"definition": "../s.json", "inputs": "hi", "expect": {"status": "failed"}});
    let place = place_with("s.json", &step_list(&[chat_step("c", "fail")]), &test);
    let (code, outcome) = run_test(&place, &[]);
    assert_eq!((code, outcome["problems"][0]["place"].as_str()), (3, Some("/c")), "{outcome}");
}

#[test]
fn answers_are_checked_against_schemas_as_in_a_run() {
    let definition = "<GenObject as=\"o\" model=\"\" schema={$.z.object({n: $.z.number()})} />\n\nSay {o.n}\n\n<GenText as=\"t\" model=\"\" />\n";
    let expected = json!({"output": [{"contains": "y"}]});
    let test = |answers: Value| json!({"definition": "../o.mdx", "answers": answers, "expect": expected});
    for (answers, code) in [
        // An object is the text of an object.
        (json!([{"n": 1}, "y"]), 0),
        (json!(["{\"n\":\"x\"}", {"n": 2}, "y"]), 0),
        (json!(["{\"m\":1}", "{\"m\":1}", "y"]), 3),
    ] {
        let place = place_with("o.mdx", definition, &test(answers.clone()));
        let (tested, outcome) = run_test(&place, &[]);
        let script = place.write("answers.json", &answers.to_string());
        let (ran, _) = place.run_json(&["run", "o.mdx", "--model", &format!("scripted:{}", script.display())]);
        assert_eq!((tested, ran == 0), (code, code == 0), "{answers}: {outcome}");
    }
}

#[test]
fn an_update_does_not_hide_what_is_still_wrong() {
    let steps = step_list(&[chat_step("draft", "fail"), chat_step("fin", "fail")]);
    for (answers, expect) in [
        (json!(["A", "B", "C"]), json!({"output": [{"equals": "X"}]})),
        (json!(["A", "B"]), json!({"output": [{"contains": "Z"}]})),
        (json!(["A", "B"]), json!({"output": [{"jsonpath": "$.typo", "equals": null}]})),
        (json!(["A", "B"]), json!({"steps": {"/nope": [{"equals": 1}]}})),
    ] {
        let test = json!({"definition": "../s.json", "inputs": "hi", "answers": answers, "expect": expect});
        let place = place_with("s.json", &steps, &test);
        let (code, outcome) = run_test(&place, &["--update"]);
        assert_eq!((code, &outcome["passed"]), (3, &json!(false)), "{expect}: {outcome}");
        assert_eq!(run_test(&place, &[]).0, 3, "{expect}");
    }
    let test = json!({"definition": "../s.json", "inputs": "hi", "answers": ["A", "B"], "expect": {"output": [{"equals": "X"}]}});
    let place = place_with("s.json", &steps, &test);
    assert_eq!((run_test(&place, &["--update"]).0, run_test(&place, &[]).0), (0, 0));
}

#[test]
fn a_written_failure_is_retried_as_in_a_run_and_survives_an_update() {
    let retried = json!({"path": "/b", "error": {"code": "FL1010", "message": "m", "retry": "maybe"}});
    let steps = json!([retried, {"path": "/b", "attempt": 2, "output": "B"}]);
    let test =
        json!({"definition": "../s.json", "inputs": "hi", "steps": steps, "expect": {"output": [{"equals": "C"}]}});
    let place = place_with("s.json", &step_list(&[chat_step("b", "retry")]), &test);
    let (code, outcome) = run_test(&place, &[]);
    assert_eq!((code, outcome["problems"][0]["found"].as_str()), (3, Some("B")), "{outcome}");
    assert_eq!(run_test(&place, &["--update"]).0, 0);
    let updated: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("tests/t.json")).expect("there")).expect("JSON");
    assert_eq!((&updated["steps"], &updated["expect"]["output"][0]["equals"]), (&steps, &json!("B")));
}

#[test]
fn a_value_that_only_looks_like_the_expected_one_is_shown_as_json() {
    let test =
        json!({"definition": "../s.json", "inputs": "hi", "answers": ["5"], "expect": {"output": [{"equals": 5}]}});
    let place = place_with("s.json", &step_list(&[chat_step("b", "fail")]), &test);
    let problem = run_test(&place, &[]).1["problems"][0].clone();
    assert_eq!((problem["expected"].as_str(), problem["found"].as_str()), (Some("5"), Some("\"5\"")), "{problem}");
}

#[test]
fn a_fork_sets_variables_before_the_text_that_its_step_sends() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write(
        "two.mdx",
        "One.\n\n<GenText as=\"a\" model=\"\" />\n\n---\n\nTwo {a}.\n\n<GenText as=\"b\" model=\"\" />\n",
    );
    place.run_json(&["run", "two.mdx"]);
    let (code, forked) = place.run_json(&["fork", "last", "--at", "b", "--set", "a=CHANGED"]);
    assert_eq!(code, 0, "{forked}");
    let (_, shown) = place.run_json(&["show", forked["run_id"].as_str().expect("an id")]);
    assert!(shown.to_string().contains("LLM(Two CHANGED.)"), "{shown}");
}

#[test]
fn a_step_is_expected_by_the_end_of_its_path() {
    let text = "Write.\n\n<GenText as=\"poem\" model=\"\" />\n\n---\n\nTitle.\n\n<GenText as=\"title\" model=\"\" />\n";
    let test = |step: &str| json!({"definition": "../p.mdx", "answers": ["roses", "T"], "expect": {"steps": {step: [{"equals": "roses"}]}}});
    for step in ["poem", "/poem"] {
        let place = place_with("p.mdx", text, &test(step));
        assert_eq!(run_test(&place, &[]).0, 0, "{step}");
    }
    let place = place_with("p.mdx", text, &test("/poen"));
    let advised = place.run(&["test"]);
    let shown = String::from_utf8_lossy(&advised.stdout).into_owned();
    assert!(!shown.contains("accept what happens now") && shown.contains("ask the models again"), "{shown}");
}

#[test]
fn a_test_without_expectations_expects_that_the_run_succeeds() {
    let definition = step_list(&[chat_step("c", "fail")]);
    let place = place_with("s.json", &definition, &json!({"name": "t", "definition": "../s.json", "inputs": "hi"}));
    let output = place.run(&["test"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(support::exit_code(&output), 3, "{printed}");
    assert!(printed.contains("the test has no response for the model call of /c"), "{printed}");
    place.write("tests/t.json", &json!({"workflow": "s", "inputs": "hi"}).to_string());
    assert_eq!(run_test(&place, &[]).0, 3, "a test by the id of its workflow");
    place.write("tests/t.json", &json!({"definition": "../s.json", "answers": ["C"], "inputs": "hi"}).to_string());
    assert_eq!(run_test(&place, &[]).0, 0);
    let wrong = json!({"definition": "../s.json", "inputs": "hi", "comment": "x"});
    place.write("tests/t.json", &wrong.to_string());
    let (code, outcome) = run_test(&place, &[]);
    let message = outcome["problems"][0]["message"].as_str().expect("a message");
    assert_eq!(
        (code, message.contains("t.json:1:") && message.contains("unknown field `comment`")),
        (2, true),
        "{outcome}"
    );
}

#[test]
fn retries_come_after_the_other_members_of_a_fan_out() {
    let member = |name: &str| {
        let mut step = chat_step(name, "retry");
        (step["mode"], step["promptTemplate"]) = ("fanout".into(), name.into());
        step
    };
    let mut last = chat_step("last", "fail");
    last["promptTemplate"] = "{{a}} {{b}} {{c}}".into();
    let definition = step_list(&[member("a"), member("b"), member("c"), last]);
    let answers = json!([{"error": "x"}, {"error": "y"}, "third", "fourth", "fifth", "end"]);
    // Both wait for half a second or less, and the path decides about the rest.
    let expected = json!({"/a": [{"equals": "fourth"}], "/b": [{"equals": "fifth"}], "/c": [{"equals": "third"}]});
    let test = json!({"definition": "../s.json", "inputs": "hi", "answers": answers, "expect": {"steps": expected}});
    let place = place_with("s.json", &definition, &test);
    let (code, outcome) = run_test(&place, &[]);
    assert_eq!(code, 0, "{outcome}");
    let script = place.write("answers.json", &answers.to_string());
    let (_, ran) =
        place.run_json(&["run", "s.json", "-i", "input=hi", "--model", &format!("scripted:{}", script.display())]);
    for (name, answer) in [("a", "fourth"), ("b", "fifth"), ("c", "third")] {
        assert_eq!(ran["result"]["vars"][name], answer, "{ran}");
    }
}

#[test]
fn a_question_without_an_answer_expires_in_a_test() {
    let ask = json!({"name": "q", "functionId": "human::ask", "mode": "sequential", "promptTemplate": "Which?",
        "errorMode": "skip", "timeoutMs": 60000, "outputVar": "q"});
    let definition = step_list(&[ask, chat_step("c", "fail")]);
    let test =
        json!({"definition": "../s.json", "inputs": "hi", "answers": ["C"], "expect": {"output": [{"equals": "C"}]}});
    let (code, outcome) = run_test(&place_with("s.json", &definition, &test), &[]);
    assert_eq!(code, 0, "{outcome}");
}

#[test]
fn an_update_is_suggested_only_if_it_changes_something() {
    let definition = step_list(&[chat_step("c", "fail")]);
    let test = |answers: Value, output: Value| json!({"definition": "../s.json", "inputs": "hi", "answers": answers, "expect": {"output": [output]}});
    for (answers, output, is_suggested) in [
        (json!(["C"]), json!({"equals": "D"}), true),
        (json!(["C"]), json!({"contains": "D"}), false),
        (json!(["C", "E"]), json!({"equals": "C"}), false),
        (json!([]), json!({"equals": "C"}), false),
    ] {
        let place = place_with("s.json", &definition, &test(answers, output.clone()));
        let output_text = String::from_utf8_lossy(&place.run(&["test"]).stdout).into_owned();
        assert_eq!(output_text.contains("test --update"), is_suggested, "{output}: {output_text}");
    }
}
