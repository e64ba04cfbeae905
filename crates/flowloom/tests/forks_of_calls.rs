//! Forks of runs whose steps run other workflows: a call is reused if its workflow would do the same.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::recording::{chat_step, step_list};
use support::{Workspace, exit_code, stderr_text};

const FUNCTIONS: &str = "[functions.\"sub::order\"]\nworkflow = \"sub.json\"\n\
                         [functions.\"sub::price\"]\nworkflow = \"price.json\"\n";

fn call_step(name: &str, function: &str, prompt: &str) -> Value {
    json!({"name": name, "functionId": function, "mode": "sequential", "errorMode": "fail", "promptTemplate": prompt,
        "outputVar": name})
}

/// A workspace with a run of `par.json`, which calls `sub.json`, which calls `price.json`, which asks a model. Returns the id
/// of the run, too.
fn place_with_run() -> (Workspace, String) {
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{FUNCTIONS}"));
    place.write("price.json", &step_list(&[chat_step("ask", "Price of {{input}}")]));
    place.write("sub.json", &step_list(&[chat_step("order", "Order {{input}}"), price_step()]));
    place.write("par.json", &step_list(&[chat_step("a", "A {{input}}"), order_step(), chat_step("z", "Z {{call}}")]));
    let run = run_parent(&place);
    (place, run)
}

/// Runs `par.json`; the id of the run.
fn run_parent(place: &Workspace) -> String {
    let (code, run) = place.run_json(&["run", "par.json", "-i", "input=x"]);
    assert_eq!(code, 0, "{run}");
    run["run_id"].as_str().expect("an id").to_owned()
}

fn order_step() -> Value {
    call_step("call", "sub::order", "{{a}}")
}

fn price_step() -> Value {
    call_step("price", "sub::price", "{{order}}")
}

/// Forks a run; the output of the fork, and the steps that it reused.
fn fork_run(place: &Workspace, run: &str, arguments: &[&str]) -> (String, Vec<String>) {
    let (code, forked) = place.run_json(&[&["fork", run, "--yes"], arguments].concat());
    assert_eq!(code, 0, "{forked}");
    let shown = place.run_json(&["show", forked["run_id"].as_str().expect("an id")]).1;
    (shown["output"].as_str().expect("a text").to_owned(), list_reused(&shown))
}

fn list_reused(shown: &Value) -> Vec<String> {
    let steps = shown["steps"].as_array().expect("steps").iter().filter(|step| step["reused"] == true);
    steps.map(|step| step["path"].as_str().expect("a path").to_owned()).collect()
}

#[test]
fn a_call_whose_workflow_changed_is_performed_again() {
    let (place, run) = place_with_run();
    let fork = || fork_run(&place, &run, &["--definition", "par.json"]);
    let earlier = "LLM(Z LLM(Price of LLM(Order LLM(A x))))";
    place.write("sub.json", &format!("\n{}\n", step_list(&[chat_step("order", "Order {{input}}"), price_step()])));
    let (output, reused) = fork();
    assert_eq!((output.as_str(), reused.len()), (earlier, 3), "only the layout is another one: {reused:?}");

    place.write("sub.json", &step_list(&[chat_step("order", "Get {{input}}"), price_step()]));
    assert_eq!(fork(), ("LLM(Z LLM(Price of LLM(Get LLM(A x))))".to_owned(), vec!["/a".to_owned()]));

    let more = [chat_step("order", "Order {{input}}"), price_step(), chat_step("last", "Last {{price}}")];
    place.write("sub.json", &step_list(&more));
    assert_eq!(fork().0, "LLM(Z LLM(Last LLM(Price of LLM(Order LLM(A x)))))");

    place.write("sub.json", &step_list(&[chat_step("order", "Order {{input}}"), price_step()]));
    place.write("price.json", &step_list(&[chat_step("ask", "Cost of {{input}}")]));
    assert_eq!(fork(), ("LLM(Z LLM(Cost of LLM(Order LLM(A x))))".to_owned(), vec!["/a".to_owned()]));

    place.write("price.json", &step_list(&[chat_step("ask", "Price of {{input}}")]));
    let changed = [chat_step("a", "A {{input}}"), order_step(), chat_step("z", "End {{call}}")];
    place.write("par.json", &step_list(&changed));
    let (output, reused) = fork();
    assert_eq!(
        (output.as_str(), reused),
        ("LLM(End LLM(Price of LLM(Order LLM(A x))))", vec!["/a".into(), "/call".into()])
    );
}

#[test]
fn a_call_whose_child_run_would_ask_another_model_is_performed_again() {
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{FUNCTIONS}"));
    place.write("price.json", &step_list(&[chat_step("ask", "Price of {{input}}")]));
    place.write("sub.json", &step_list(&[call_step("price", "sub::price", "{{input}}")]));
    place.write(
        "par.json",
        &step_list(&[call_step("call", "sub::order", "{{input}}"), call_step("z", "sub::order", "z")]),
    );
    place.write("other.json", r#"{"match": [], "default": "another model"}"#);
    let run = run_parent(&place);
    let fork = |more: &[&str]| fork_run(&place, &run, &[&["--model", "scripted:other.json"], more].concat());
    assert_eq!(fork(&[]), ("another model".to_owned(), Vec::new()));
    // What was before the fork keeps the answers of the earlier model.
    assert_eq!(fork(&["--at", "/z"]), ("another model".to_owned(), vec!["/call".to_owned()]));
}

#[test]
fn a_stored_workflow_counts_as_it_is_now_if_the_fork_follows_another_definition() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let server = RunningServer::start(&place, &[]);
    let put = |id: &str, text: &str| {
        let (headers, text) = (["Content-Type: application/json"], text.replace("\"story\"", &format!("{id:?}")));
        let stored = server.send_and_read("PUT", &format!("/api/v1/workflows/{id}"), &headers, &text);
        assert!((200..300).contains(&stored.status), "{}", stored.body);
    };
    put("sub", &step_list(&[chat_step("order", "Order {{input}}")]));
    let arguments = json!({"workflowId": "sub", "input": "tea"}).to_string();
    put("par", &step_list(&[call_step("call", "workflow::run", &arguments), chat_step("z", "Z")]));
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "par"})).json();
    let fork = |body: &Value| {
        let path = format!("/api/v1/runs/{}/fork?wait=60", run["run_id"].as_str().unwrap_or_else(|| panic!("{run}")));
        let forked = server.post(&path, body).json();
        assert_eq!(forked["status"], "succeeded", "{forked}");
        list_reused(&forked)
    };
    assert_eq!(fork(&json!({"workflow": "par"})), ["/call", "/z"]);
    put("sub", &step_list(&[chat_step("order", "Get {{input}}")]));
    assert_eq!(fork(&json!({"at": "/z"})), ["/call"], "the fork follows the definition of the run");
    assert_eq!(fork(&json!({"workflow": "par"})), [] as [&str; 0]);
}

#[test]
fn a_step_of_a_child_run_is_named_with_its_run() {
    let (place, _) = place_with_run();
    let refused = |arguments: &[&str]| {
        let output = place.run(arguments);
        assert_eq!(exit_code(&output), 2, "{}", stderr_text(&output));
        stderr_text(&output)
    };
    let runs = place.run_json(&["runs"]).1;
    let of_child = |path: &str| {
        let has = |run: &&Value| {
            let shown = place.run_json(&["show", run["run_id"].as_str().expect("an id")]).1;
            shown["steps"].as_array().expect("steps").iter().any(|step| step["path"] == path)
        };
        let run = runs.as_array().expect("a list").iter().find(has).expect("a run");
        run["run_id"].as_str().expect("an id").to_owned()
    };
    let (sub, price) = (of_child("/order"), of_child("/ask"));
    for (path, run, step) in [("/call/run~1/order", &sub, "/order"), ("/call/run~1/price/run~1/ask", &price, "/ask")] {
        let message = refused(&["fork", "last", "--at", path]);
        assert!(message.contains(&format!("flowloom fork {run} --at {step}")), "{message}");
        let message = refused(&["retry", "last", "--from", path]);
        assert!(message.contains(&format!("flowloom retry {run} --from {step}")), "{message}");
    }
    assert!(refused(&["fork", "last", "--at", "/call/run~1/nothing"]).contains("has no step /call/run~1/nothing"));
    assert_eq!(exit_code(&place.run(&["fork", &sub, "--at", "/order"])), 0);
}
