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

/// Two runs are compared with the child runs of their steps, and with the definitions that they have read.
#[test]
fn runs_are_compared_with_their_child_runs_and_definitions() {
    let (place, first) = place_with_run();
    let diff = |a: &str, b: &str| place.run_json(&["diff", a, b]);
    let list_changed = |diff: &Value| -> Vec<String> {
        let steps = diff["steps"].as_array().expect("steps").iter().filter(|step| step["change"] != "same");
        steps.map(|step| step["path"].as_str().expect("a path").to_owned()).collect()
    };
    let (code, same) = diff(&first, &run_parent(&place));
    assert_eq!(
        (code, &same["definition"], same["steps"].as_array().map(Vec::len)),
        (0, &Value::Null, Some(6)),
        "{same}"
    );

    place.write("price.json", &step_list(&[chat_step("ask", "Cost of {{input}}")]));
    let (code, inner) = diff(&first, &run_parent(&place));
    let changed = ["/call", "/call/run~1/price", "/call/run~1/price/run~1/ask", "/z"];
    assert_eq!((code, list_changed(&inner)), (1, changed.map(str::to_owned).to_vec()), "{inner}");
    assert_eq!(inner["first_divergence"], "/call/run~1/price/run~1/ask", "{inner}");
    let workflow = &inner["definition"]["workflows"][0];
    assert_eq!((&workflow["function"], &workflow["b"]), (&json!("sub::price"), &json!("price.json")), "{inner}");
    let shown = place.run(&["diff", &first, "last"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let definitions =
        "\nthe definitions of the runs differ:\n~ price.json, which sub::price runs\n~ /ask  generate changed\n";
    assert!(shown.contains("first difference: /call/run~1/price/run~1/ask\n"), "{shown}");
    assert!(shown.ends_with(definitions), "{shown}");

    // A fork that reuses the call has the child run of the other run.
    let (code, forked) = place.run_json(&["fork", &first, "--at", "/z"]);
    assert_eq!(code, 0, "{forked}");
    let (code, same) = diff(&first, forked["run_id"].as_str().expect("an id"));
    assert_eq!((code, same["steps"].as_array().map(Vec::len)), (0, Some(3)), "{same}");

    // A definition that differs is reported, also if the runs are the same.
    let (code, before) = place.run_json(&["run", "par.json", "-i", "input=x"]);
    assert_eq!(code, 0, "{before}");
    let described = std::fs::read_to_string(place.path("par.json")).expect("there");
    let mut described: Value = serde_json::from_str(&described).expect("JSON");
    described["description"] = "Another text".into();
    place.write("par.json", &described.to_string());
    let (code, compared) = diff(before["run_id"].as_str().expect("an id"), &run_parent(&place));
    assert_eq!((code, &compared["same"]), (0, &json!(true)), "{compared}");
    assert_eq!(compared["definition"]["fields"][0]["name"], "description", "{compared}");
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
    // Steps before the fork keep the answers of the earlier model.
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

    let again = server.post("/api/v1/runs?wait=60", &json!({"workflow": "par"})).json();
    let ids = [&run, &again].map(|run| run["run_id"].as_str().expect("an id"));
    let (code, diff) = place.run_json(&["diff", ids[0], ids[1]]);
    assert_eq!((code, &diff["first_divergence"]), (1, &json!("/call/run~1/order")), "{diff}");
    assert_eq!(diff["definition"]["workflows"][0]["function"], "workflow::run", "{diff}");
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

/// The tools of an agent are workflows, too: a call is reused as long as the workflow would do the same.
#[test]
fn a_tool_call_of_an_agent_is_performed_again_if_its_workflow_changed() {
    let flow = |instruction: &str| {
        let instruction = json!({"instruction": instruction, "resultVariable": "out"});
        let variables = json!({"variables": [{"name": "city", "value": ""}]});
        let steps = json!([{"type": "start", "config": variables}, {"type": "llmInstruction", "config": instruction}]);
        json!({"name": "Weather", "description": "The weather.", "active": true, "steps": steps}).to_string()
    };
    let list = |prompt: &str| step_list(&[chat_step("ask", prompt)]).replace("\"story\"", "\"weather\"");
    check_tool_call(&flow, "${city}", "city");
    check_tool_call(&list, "{{input}}", "input");
}

/// Forks a run of an agent whose tool is a workflow that `write` writes with a prompt. `city` refers to its input `argument`.
#[track_caller]
fn check_tool_call(write: &dyn Fn(&str) -> String, city: &str, argument: &str) {
    let place = Workspace::new("default_model = \"scripted:answers.json\"\n");
    let answer = |contains: &str, answer: &str| json!({"contains": contains, "answer": answer});
    let call = json!({"text": "", "tool_calls": [{"name": "weather", "arguments": {argument: "Bonn"}}]});
    let rows = [
        answer("Forecast for Bonn", "sunny"),
        answer("Outlook for Bonn", "rainy"),
        answer("sunny", "Take a hat."),
        answer("rainy", "Take a coat."),
    ];
    place.write("answers.json", &json!({"match": rows, "default": call}).to_string());
    place.write("weather.json", &write(&format!("Forecast for {city}")));
    place.write("agent.json", r#"{"agentId": "helper", "systemPrompt": "You help.", "tools": ["weather"]}"#);
    let (code, run) = place.run_json(&["run", "agent.json", "-i", "message=Weather?"]);
    assert_eq!((code, &run["output"]), (0, &json!("Take a hat.")), "{run}");
    let run = run["run_id"].as_str().expect("an id");
    let fork = |arguments: &[&str]| fork_run(&place, run, arguments);

    let (output, reused) = fork(&["--definition", "agent.json"]);
    assert_eq!((output.as_str(), reused.len()), ("Take a hat.", 3), "nothing has changed: {reused:?}");
    place.write("weather.json", &write(&format!("Outlook for {city}")));
    let (output, reused) = fork(&["--at", "/turn~1[1]"]);
    assert_eq!((output.as_str(), reused.len()), ("Take a hat.", 2), "the run has its own workflow: {reused:?}");
    let (output, reused) = fork(&["--definition", "agent.json"]);
    assert_eq!((output.as_str(), reused), ("Take a coat.", vec!["/turn~1[0]".to_owned()]));
    let runs = place.run_json(&["runs"]).1;
    let children = runs.as_array().expect("a list").iter().filter(|run| run["name"] != "helper").count();
    assert_eq!(children, 2, "one of the run, and one of the last fork: {runs}");
}
