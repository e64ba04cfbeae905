//! Where functions of a step list get their arguments from.

mod support;

use serde_json::{Value, json};
use support::{TestServer, Workspace};

fn step_json(name: &str, function: &str, prompt: Option<&str>) -> Value {
    let mut step = json!({"name": name, "functionId": function, "mode": "sequential", "outputVar": name});
    if let Some(prompt) = prompt {
        step["promptTemplate"] = prompt.into();
    }
    step
}

/// Runs a step list whose input is an object. Returns the variables at its end.
fn run_steps(config: &str, steps: &[Value], input: &Value) -> Value {
    let place = Workspace::new(config);
    place.write("s.json", &json!({"name": "s", "steps": steps}).to_string());
    place.write("in.json", &input.to_string());
    let (code, output) = place.run_json(&["run", "s.json", "--input", "in.json", "--model", "scripted:echo"]);
    assert_eq!(code, 0, "{output}");
    output["result"]["vars"].clone()
}

#[test]
fn a_prompt_reaches_its_function_after_a_step_that_returns_an_object() {
    let world = TestServer::start();
    let url = |path: &str| format!("http://{}{path}", world.address);
    let config = world.egress_config();
    let input = json!({"file": "pl.txt", "url": url("/wrong")});

    let page = url("/file/{{input.file}}");
    let vars = run_steps(&config, &[step_json("page", "tool::web_fetch", Some(&page))], &input);
    assert!(vars["page"].to_string().contains("/file/pl.txt"), "{vars}");

    // The reply of a request has headers and a body, which the next request must not take for its own.
    let first = json!({"url": url("/first")}).to_string();
    let second = format!(
        "{{\"url\": \"{}\", \"method\": \"POST\", \"body\": {{\"status\": {{{{api.status}}}}}}}}",
        url("/second")
    );
    let steps = [
        step_json("api", "tool::http_request", Some(&first)),
        step_json("page", "tool::web_fetch", Some(&url("/third"))),
        step_json("again", "tool::http_request", Some(&first)),
        step_json("save", "tool::http_request", Some(&second)),
    ];
    let vars = run_steps(&config, &steps, &input);
    assert!(vars["page"].to_string().contains("/third"), "{vars}");
    assert_eq!(world.last_body("/second"), "{\"status\":200}");
    assert_eq!(world.request_count("/wrong"), 0);
}

#[test]
fn without_a_prompt_an_object_or_a_variable_gives_the_arguments() {
    let world = TestServer::start();
    let config = format!("{}[functions.\"x::log\"]\nurl = \"http://{}/log\"\n", world.egress_config(), world.address);
    let by_input = json!({"url": format!("http://{}/input", world.address)});
    let vars = run_steps(&config, &[step_json("page", "tool::web_fetch", None)], &by_input);
    assert!(vars["page"].to_string().contains("/input"), "{vars}");

    // The function returns an object without an address; the variable `url` has one, as AgentOS's function would see.
    let steps = [
        step_json("url", "agent::chat", Some("x")),
        step_json("log", "x::log", Some("log it")),
        step_json("page", "tool::web_fetch", None),
    ];
    let place = Workspace::new(&format!("default_model = \"scripted:model.json\"\n{config}"));
    place.write("model.json", &json!([format!("http://{}/variable", world.address)]).to_string());
    place.write("s.json", &json!({"name": "s", "steps": steps}).to_string());
    let (code, output) = place.run_json(&["run", "s.json", "-i", "input=x"]);
    assert_eq!(code, 0, "{output}");
    assert!(output["result"]["vars"]["page"].to_string().contains("/variable"), "{output}");
}
