//! MCP servers with the real program: tools of graphs, steps and Markdown; approval, pinning, `check` and `doctor`.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::{Workspace, exit_code, stderr_text};

/// A workspace whose server `calc` logs its calls in `calls.log`.
fn create_workspace(more: &str) -> Workspace {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/src/tests/data/mcp_server.py");
    Workspace::new(&format!(
        "[mcp.calc]\ncommand = \"python3\"\nargs = [{:?}, \"calls.log\"]\n{more}",
        server.display()
    ))
}

fn read_calls(place: &Workspace) -> String {
    std::fs::read_to_string(place.path("calls.log")).unwrap_or_default()
}

/// A graph with one agent that has these tools, and a tool executor.
fn graph_json(tools: Value) -> String {
    let node = |id: &str, kind: &str| json!({"id": id, "nodeName": id, "nodeType": kind, "agentId": id});
    json!({
        "workflow": {
            "id": "sums", "isConversational": true, "entrypointNodeId": "clerk",
            "nodes": [node("clerk", "AGENT"), node("hands", "TOOL_EXECUTOR")],
            "edges": [{"id": "e", "sourceNodeId": "clerk", "targetNodeId": "hands", "conditionType": "CONDITIONAL", "conditionValue": "hands"}],
        },
        "agents": [{"id": "clerk", "tools": tools}],
    })
    .to_string()
}

fn tool_call(tool: &str, arguments: Value) -> Value {
    json!({"text": "", "tool_calls": [{"name": tool, "arguments": arguments}]})
}

fn write_script(place: &Workspace, answers: Value) -> String {
    format!("scripted:{}", place.write("answers.json", &answers.to_string()).display())
}

fn message_contents(output: &Value) -> Vec<&str> {
    output["result"]["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|printed| printed["content"].as_str())
        .collect()
}

#[test]
fn an_agent_calls_a_tool_of_a_server_and_replay_calls_nothing() {
    let place = create_workspace("");
    place.write("graph.json", &graph_json(json!([{"name": "sum", "functionId": "calc::add"}, {"name": "calc::fail"}])));
    let answers = [
        tool_call("sum", json!({"a": 2, "b": 3})),
        tool_call("sum", json!({"a": 1})),
        tool_call("calc_fail", json!({})),
    ];
    let model = write_script(&place, json!([answers[0], answers[1], answers[2], "Five."]));
    let (code, output) = place.run_json(&["run", "graph.json", "--model", &model, "-i", "message=2 and 3?"]);
    assert_eq!((code, output["output"].as_str()), (0, Some("Five.")), "{output}");
    let printed = message_contents(&output);
    assert_eq!(printed[2], "5");
    assert_eq!(
        printed[4], "Error: The argument b is missing.\n Please fix your mistakes.",
        "the server's schema applies"
    );
    assert_eq!(printed[6], "Error: calc::fail: the shelf is empty\n Please fix your mistakes.");
    assert_eq!(read_calls(&place), "add\nfail\n");
    // The server's tool list is pinned with the run, so the server may be gone now.
    place.write("flowloom.toml", "[mcp.calc]\ncommand = \"gone\"\n");
    let replayed = place.run(&["replay", "last"]);
    assert_eq!(exit_code(&replayed), 0, "{}", stderr_text(&replayed));
    assert_eq!(read_calls(&place), "add\nfail\n");
}

#[test]
fn a_person_agrees_to_calls_first() {
    let place = create_workspace("needs_approval = [\"add\"]\n");
    place.write("graph.json", &graph_json(json!([{"name": "calc::add"}])));
    let first = write_script(&place, json!([tool_call("calc_add", json!({"a": 2, "b": 3}))]));
    let (code, output) = place.run_json(&["run", "graph.json", "--model", &first, "-i", "message=2 and 3?"]);
    assert_eq!((code, read_calls(&place).as_str()), (4, ""), "{output}");
    // A scripted list of answers starts from the beginning in each process.
    write_script(&place, json!(["Five."]));
    let (code, output) = place.run_json(&["answer", "last", "true"]);
    assert_eq!((code, message_contents(&output)[2], read_calls(&place).as_str()), (0, "5", "add\n"), "{output}");
}

#[test]
fn a_slip_in_what_needs_approval_is_no_permission() {
    let place = create_workspace("needs_approval = [\"ad\"]\n");
    place.write("graph.json", &graph_json(json!([{"name": "calc::add"}])));
    let refused = place.run(&["run", "graph.json", "--model", "scripted:echo", "-i", "message=hi"]);
    let output = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 2, "{output}");
    assert!(output.contains("FL1401") && output.contains("did you mean add?"), "{output}");
}

#[test]
fn a_check_starts_nothing_and_a_run_refuses_tools_that_do_not_exist() {
    let place = create_workspace("");
    place.write("graph.json", &graph_json(json!([{"name": "sum", "functionId": "calc::ad"}])));
    let checked = place.run(&["check", "graph.json"]);
    assert_eq!(exit_code(&checked), 0, "{}", stderr_text(&checked));
    let refused = place.run(&["run", "graph.json", "--model", "scripted:echo", "-i", "message=hi"]);
    let output = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 2, "{output}");
    assert!(output.contains("FL0618") && output.contains("did you mean calc::add?"), "{output}");
    place.write("flowloom.toml", "[mcp.calc]\ncommand = \"no-such-program-here\"\n");
    assert_eq!(exit_code(&place.run(&["check", "graph.json"])), 0);
    let refused = place.run(&["run", "graph.json", "--model", "scripted:echo", "-i", "message=hi"]);
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("FL1027"), "{}", stderr_text(&refused));
}

#[test]
fn steps_and_markdown_call_tools_too() {
    let place = create_workspace("");
    let step = json!({"name": "s", "functionId": "calc::add", "mode": "sequential", "promptTemplate": "{\"a\": 2, \"b\": 40}"});
    place.write("steps.json", &json!({"id": "w", "name": "W", "description": "d", "steps": [step]}).to_string());
    let (code, output) = place.run_json(&["run", "steps.json"]);
    assert_eq!((code, &output["output"]), (0, &json!("42")), "{output}");
    place.write("sum.mdx", "Add them.\n\n<GenText as=\"sum\" model=\"m\" tools={['calc::add']} />\n\n<CalcEcho as=\"again\" text={sum} />\n");
    let asked = write_script(&place, json!([tool_call("calc_add", json!({"a": 4, "b": 5})), "Nine."]));
    let (code, output) = place.run_json(&["run", "sum.mdx", "--model", &format!("m={asked}")]);
    assert_eq!(code, 0, "{output}");
    assert_eq!(read_calls(&place), "add\nadd\necho\n");
}

#[test]
fn the_example_runs_as_it_is() {
    let place = Workspace::new("");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mcp");
    let path = |name: &str| folder.join(name).display().to_string();
    let (config, file) = (path("flowloom.toml"), path("warehouse.json"));
    let count = |item: &str| tool_call("count", json!({"item": item}));
    let model = write_script(&place, json!([count("lamp"), count("cat"), "Three lamps, no cat."]));
    let run = ["--config", &config, "run", &file, "--model", &model, "-i", "message=what is there?"];
    let (code, output) = place.run_json(&run);
    assert_eq!(code, 0, "{output}");
    assert_eq!(message_contents(&output)[2], r#"{"item":"lamp","left":3}"#);
    assert!(message_contents(&output)[4].contains("there is no cat here"), "{output}");
}

#[test]
fn the_doctor_starts_each_server() {
    let place = create_workspace("[mcp.lost]\ncommand = \"no-such-program-here\"\n");
    let doctor = place.run(&["doctor"]);
    let output = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let row = |name: &str| output.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(row("mcp calc").contains("started; tools: add, echo"), "{output}");
    assert!(row("mcp lost").contains("cannot start no-such-program-here"), "{output}");
    assert_eq!(exit_code(&doctor), 1);
}

#[test]
fn a_server_has_a_name_of_its_own() {
    let place = Workspace::new("[mcp.tool]\ncommand = \"x\"\n");
    let output = place.run(&["doctor"]);
    assert_eq!(exit_code(&output), 2);
    assert!(stderr_text(&output).contains("FL1401"), "{}", stderr_text(&output));
}
