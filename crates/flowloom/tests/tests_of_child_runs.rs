//! Tests of workflows whose steps run other workflows: the effects of the child runs are recorded, compared and replayed.

mod support;

use serde_json::{Value, json};
use support::Workspace;
use support::recording::{chat_step, record_test, stdout_of, step_list};

const FUNCTIONS: &str = "[functions.\"my::inner\"]\nworkflow = \"inner.json\"\n\
                         [functions.\"my::middle\"]\nworkflow = \"middle.json\"\n";

fn call_step(name: &str, function: &str) -> Value {
    json!({"name": name, "functionId": function, "mode": "sequential", "errorMode": "fail", "promptTemplate": "{{input}}",
        "outputVar": name})
}

/// A workspace in which `outer.json` calls `middle.json`, which calls `inner.json`, which asks a model.
fn place_with_levels() -> Workspace {
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{FUNCTIONS}"));
    std::fs::create_dir(place.path("tests")).expect("a folder");
    place.write("inner.json", &step_list(&[chat_step("answer", "Praise {{input}}")]));
    place.write("middle.json", &step_list(&[call_step("ask", "my::inner")]));
    place.write("outer.json", &step_list(&[call_step("call", "my::middle"), chat_step("end", "End {{call}}")]));
    place
}

fn find_step<'t>(test: &'t Value, path: &str) -> &'t Value {
    let steps = test["steps"].as_array().expect("steps");
    steps.iter().find(|step| step["path"] == path).unwrap_or_else(|| panic!("no {path} in {test:#}"))
}

#[test]
fn the_effects_of_child_runs_are_recorded_and_a_change_in_them_is_noticed() {
    let place = place_with_levels();
    let test = record_test(&place, "outer.json", &["-i", "input=tea"]);
    for path in ["/call", "/call/run~1/ask"] {
        let step = find_step(&test, path);
        assert_eq!((&step["runs_workflow"], &step["output"]), (&json!(true), &Value::Null), "{step}");
    }
    let answer = find_step(&test, "/call/run~1/ask/run~1/answer");
    assert_eq!(answer["output"], "LLM(Praise tea)", "{answer}");
    stdout_of(&place, 0, &["test"]);

    place.write("inner.json", &step_list(&[chat_step("answer", "Blame {{input}}")]));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("/call/run~1/ask/run~1/answer: the step sends another request"), "{failed}");
    assert!(failed.contains("- Praise tea") && failed.contains("+ Blame tea"), "{failed}");
    stdout_of(&place, 0, &["test", "--update"]);
    stdout_of(&place, 0, &["test"]);

    let steps = [chat_step("first", "First {{input}}"), chat_step("answer", "Blame {{input}}")];
    place.write("inner.json", &step_list(&steps));
    let failed = stdout_of(&place, 3, &["test"]);
    let missing = "the test has no response for the model call of /call/run~1/ask/run~1/first, attempt 1";
    assert_eq!(failed.matches(missing).count(), 1, "{failed}");

    place.write("inner.json", &step_list(&[]));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("/call/run~1/ask/run~1/answer: the step no longer sends a request"), "{failed}");
}

#[test]
fn a_test_written_by_hand_answers_the_models_of_child_runs() {
    let place = place_with_levels();
    let test = json!({"definition": "../outer.json", "inputs": {"input": "tea"}, "answers": ["good", "done"],
        "expect": {"output": [{"equals": "done"}], "steps": {"/call/run~1/ask/run~1/answer": [{"contains": "good"}]}}});
    place.write("tests/t.json", &test.to_string());
    stdout_of(&place, 0, &["test"]);
    let mut mixed = test.clone();
    mixed["steps"] = json!([{"path": "/call/run~1/ask/run~1/answer", "output": "good"}]);
    mixed["answers"] = json!(["done"]);
    place.write("tests/t.json", &mixed.to_string());
    stdout_of(&place, 0, &["test"]);
    let mut given = test;
    given["steps"] = json!([{"path": "/call", "output": "given"}]);
    given["answers"] = json!(["done"]);
    given["expect"]["steps"] = json!({"/call": [{"equals": "given"}]});
    place.write("tests/t.json", &given.to_string());
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn a_failure_of_a_child_run_happens_again() {
    let place = place_with_levels();
    let call = json!({"name": "answer", "functionId": "tool::web_fetch", "mode": "sequential", "errorMode": "fail",
        "promptTemplate": "http://127.0.0.1:1/"});
    place.write("inner.json", &step_list(&[call]));
    let mut tolerant = call_step("call", "my::middle");
    tolerant["errorMode"] = json!("skip");
    place.write("outer.json", &step_list(&[tolerant, chat_step("end", "End {{input}}")]));
    let test = record_test(&place, "outer.json", &["-i", "input=tea"]);
    assert!(find_step(&test, "/call/run~1/ask/run~1/answer")["error"].is_object(), "{test:#}");
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn the_workflows_that_an_agent_calls_are_part_of_its_test() {
    let place = Workspace::new("");
    std::fs::create_dir(place.path("tests")).expect("a folder");
    let flow = |instruction: &str| {
        json!({"name": "Weather", "description": "d", "steps": [
            {"type": "start", "config": {"variables": [{"name": "what", "value": ""}]}},
            {"type": "llmInstruction", "config": {"instruction": instruction, "resultVariable": "said"}},
        ]})
        .to_string()
    };
    place.write("weather.json", &flow("Look up ${what}"));
    let agent = json!({"agentId": "helper", "systemPrompt": "You help.", "tools": ["weather"]});
    place.write("agent.json", &agent.to_string());
    let call = json!({"text": "", "tool_calls": [{"name": "weather", "arguments": {"what": "Bonn"}}]});
    let answers = place.write("answers.json", &json!([call, "sunny", "It is sunny."]).to_string());
    place.write("flowloom.toml", &format!("default_model = \"scripted:{}\"\n", answers.display()));
    let test = record_test(&place, "agent.json", &["-i", "message=Weather?"]);
    let steps = test["steps"].as_array().expect("steps").iter();
    let of_flow: Vec<&Value> = steps.filter(|step| step["path"].to_string().contains("/run~1/")).collect();
    assert_eq!((of_flow.len(), &of_flow[0]["output"]), (1, &json!("sunny")), "{test:#}");
    stdout_of(&place, 0, &["test"]);
    place.write("weather.json", &flow("Guess ${what}"));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("- Look up Bonn") && failed.contains("+ Guess Bonn"), "{failed}");
}

/// That a test of the last run runs the workflows of its steps, and notices a change in them.
fn check_recorded_calls(place: &Workspace) {
    stdout_of(place, 0, &["test", "record", "last", "--as", "tests/t.json", "--force"]);
    let test = std::fs::read_to_string(place.path("tests/t.json")).expect("there");
    let test: Value = serde_json::from_str(&test).expect("JSON");
    for path in ["/call", "/call/run~1/ask"] {
        let steps = test["steps"].as_array().expect("steps").iter().filter(|step| step["path"] == path);
        let steps: Vec<&Value> = steps.collect();
        assert_eq!((steps.len(), &steps[0]["runs_workflow"]), (1, &json!(true)), "{test:#}");
    }
    assert!(find_step(&test, "/call/run~1/ask/run~1/answer")["output"].is_string(), "{test:#}");
    stdout_of(place, 0, &["test"]);
    place.write("inner.json", &step_list(&[chat_step("answer", "Blame {{input}}")]));
    let failed = stdout_of(place, 3, &["test"]);
    assert!(failed.contains("- Praise tea") && failed.contains("+ Blame tea"), "{failed}");
}

#[test]
fn a_test_of_a_retried_run_runs_the_workflows() {
    let place = place_with_levels();
    place.write("flowloom.toml", &format!("default_model = \"scripted:answers.json\"\n{FUNCTIONS}"));
    place.write("answers.json", r#"{"match": []}"#);
    stdout_of(&place, 1, &["run", "outer.json", "-i", "input=tea"]);
    place.write("answers.json", r#"{"match": [], "default": "fine"}"#);
    stdout_of(&place, 0, &["retry", "last"]);
    check_recorded_calls(&place);
}

#[test]
fn a_test_of_a_fork_runs_the_workflows() {
    let place = place_with_levels();
    stdout_of(&place, 0, &["run", "outer.json", "-i", "input=tea"]);
    for _ in 0..2 {
        stdout_of(&place, 0, &["fork", "last", "--at", "/end"]);
    }
    check_recorded_calls(&place);
}
