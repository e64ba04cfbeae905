//! Workflows as MCP tools with real clients: the SDKs for Python and TypeScript in two generations, the inspector's
//! command line, and the conformance package. `scripts/fetch-clients.sh` installs them. Without them, the tests print
//! SKIP, unless FLOWLOOM_REQUIRE_CLIENTS is set, as in `make test`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};
use support::clients::{find_clients, repository_root, run_successfully};
use support::http::RunningServer;
use support::{TestServer, Workspace, two_calls_flow};

/// A workspace with a tool that works, one that fails, one that asks, and one that waits for `slow`.
fn create_workspace(slow: &TestServer) -> Workspace {
    let place = Workspace::with_hello(&slow.egress_config());
    let fails = json!({"id": "fails", "name": "fails", "description": "d", "steps": [
        {"name": "s", "functionId": "tool::web_fetch", "mode": "sequential", "errorMode": "fail", "promptTemplate": "http://127.0.0.1:1/"},
    ]});
    place.write("fails.json", &fails.to_string());
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    place.write("flow.json", &two_calls_flow(slow, "GET", "/slow"));
    place
}

/// Builds the command of a client program, connected to the server over HTTP or to its own server on stdio.
fn client_command(place: &Workspace, set: &Path, file: &str, address: Option<&str>) -> Command {
    let generation = set.file_name().expect("a name");
    let script = repository_root().join("tests/clients").join(generation).join(file);
    let mut command = match file.ends_with(".py") {
        true => Command::new(set.join("python/bin/python")),
        false => Command::new("node"),
    };
    command.arg(script);
    if !file.ends_with(".py") {
        command.arg(set);
    }
    match address {
        Some(address) => command.args(["http", &format!("http://{address}/mcp")]),
        None => command.args(["stdio", env!("CARGO_BIN_EXE_flowloom"), "mcp", "."]),
    };
    let own = place.build_command(&[]);
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(place.path("")).stdin(Stdio::null());
    command
}

/// The results of a client by name. Releases the slow request once the client has received progress.
fn collect_results(mut client: Child, slow: &TestServer) -> Map<String, Value> {
    let lines = BufReader::new(client.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut seen = Map::new();
    for line in lines {
        let Ok(Value::Object(one)) = serde_json::from_str(&line) else { panic!("{line}") };
        if one.contains_key("progress") {
            slow.release_slow();
        }
        seen.extend(one);
    }
    assert!(client.wait().expect("it ends").success(), "{seen:?}");
    seen
}

fn success_result(value: &str) -> Value {
    json!({"structured": {"result": value}, "text": value, "error": false})
}

fn failure_result(code: &str, path: Option<&str>, message: &str) -> Value {
    let error = json!({"code": code, "message": message, "path": path});
    let at = path.map(|path| format!(" at {path}")).unwrap_or_default();
    json!({"structured": {"status": "failed", "error": error}, "text": format!("{code}{at}: {message}"), "error": true})
}

/// Checks the results that every client must see.
fn check_results(mut seen: Map<String, Value>) {
    let tools = seen.remove("tools").expect("tools");
    let any = json!({"type": "object", "properties": {"input": {"description": "What it works on: any value"}},
        "required": ["input"], "additionalProperties": false});
    let optional =
        json!({"type": "object", "properties": any["properties"], "required": [], "additionalProperties": false});
    let named = json!({"type": "object", "properties": {"a": {"type": "string", "description": "Value for variable a"}},
        "required": [], "additionalProperties": false});
    assert_eq!(tools, json!({"ask-a-person": optional, "fails": optional, "hello": any, "two_calls": named}));
    let wrong = "invalid arguments of hello: Additional properties are not allowed ('output' was unexpected); \
                 \"input\" is a required property";
    let denied = "127.0.0.1:1 may not be reached: loopback; to allow it, set egress.allow = [\"127.0.0.1:1\"]";
    let mut slow = success_result("LLM(/slow)");
    slow["grows"] = true.into();
    let expected = json!({
        "hello": success_result("LLM(Say hi)"),
        "wrong": failure_result("FL1038", None, wrong),
        "unknown": -32602,
        "failed": failure_result("FL1004", Some("/s"), denied),
        "asked": "What shall the poem be about?",
        "answered": success_result("LLM(Write a poem of four short lines about tea.)"),
        "cancelled": true,
        "progress": "/start~1 finished",
        "slow": slow,
    });
    assert_eq!(Value::Object(seen), expected);
}

fn test_over_http(set: &str, file: &str) {
    let Some(set) = find_clients(set) else { return };
    let slow = TestServer::start();
    let place = create_workspace(&slow);
    let server = RunningServer::start(&place, &[]);
    let child = client_command(&place, &set, file, Some(&server.address)).stdout(Stdio::piped()).spawn();
    check_results(collect_results(child.expect("it starts"), &slow));
    let runs = server.get("/api/v1/runs?name=two%20calls").json();
    assert_eq!(run_statuses(&runs["items"]), ["succeeded", "cancelled"]);
}

fn test_on_stdio(set: &str, file: &str) {
    let Some(set) = find_clients(set) else { return };
    let slow = TestServer::start();
    let place = create_workspace(&slow);
    let child = client_command(&place, &set, file, None).stdout(Stdio::piped()).spawn();
    check_results(collect_results(child.expect("it starts"), &slow));
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(run_statuses(&runs), ["succeeded", "cancelled", "succeeded", "failed", "succeeded"]);
}

/// The statuses, newest run first.
fn run_statuses(runs: &Value) -> Vec<&str> {
    runs.as_array().expect("runs").iter().filter_map(|run| run["status"].as_str()).collect()
}

#[test]
fn the_typescript_sdk_over_http() {
    test_over_http("mcp", "client.mjs");
}

#[test]
fn the_typescript_sdk_on_stdio() {
    test_on_stdio("mcp", "client.mjs");
}

#[test]
fn the_python_sdk_over_http() {
    test_over_http("mcp", "client.py");
}

#[test]
fn the_python_sdk_on_stdio() {
    test_on_stdio("mcp", "client.py");
}

#[test]
fn the_typescript_sdk_before_over_http() {
    test_over_http("mcp-legacy", "client.mjs");
}

#[test]
fn the_typescript_sdk_before_on_stdio() {
    test_on_stdio("mcp-legacy", "client.mjs");
}

#[test]
fn the_python_sdk_before_over_http() {
    test_over_http("mcp-legacy", "client.py");
}

#[test]
fn the_python_sdk_before_on_stdio() {
    test_on_stdio("mcp-legacy", "client.py");
}

#[test]
fn a_client_needs_a_key_where_there_are_keys() {
    let Some(set) = find_clients("mcp") else { return };
    let slow = TestServer::start();
    let place = create_workspace(&slow);
    let key = String::from_utf8(place.run(&["keys", "create", "--name", "k"]).stdout).expect("UTF-8");
    let server = RunningServer::start(&place, &[]);
    for (key, is_known) in [("fl_wrong", false), (key.trim(), true)] {
        let mut child = client_command(&place, &set, "client.mjs", Some(&server.address));
        let seen = collect_results(child.env("KEY", key).stdout(Stdio::piped()).spawn().expect("it starts"), &slow);
        assert_eq!(seen.contains_key("refused"), !is_known, "{seen:?}");
    }
}

#[test]
fn the_inspector_lists_and_calls() {
    let Some(set) = find_clients("mcp") else { return };
    let slow = TestServer::start();
    let place = create_workspace(&slow);
    let server = RunningServer::start(&place, &[]);
    let address = format!("http://{}/mcp", server.address);
    let program = env!("CARGO_BIN_EXE_flowloom");
    // The inspector passes no variables of its own environment on.
    let data = format!("FLOWLOOM_DATA_DIR={}", place.path("data").display());
    let ways: [&[&str]; 2] = [&[&address, "--transport", "http"], &["env", &data, program, "mcp", "."]];
    for way in ways {
        let inspect = |asked: &[&str]| {
            let launcher = set.join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
            let mut command = Command::new("node");
            command.arg(launcher).arg("--cli").args(way).args(asked).current_dir(place.path(""));
            let own = place.build_command(&[]);
            command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
            serde_json::from_str::<Value>(&run_successfully(&mut command)).expect("JSON")
        };
        let listed = inspect(&["--method", "tools/list"]);
        let names: Vec<&str> =
            listed["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["ask-a-person", "fails", "two_calls", "hello"]);
        let called = inspect(&["--method", "tools/call", "--tool-name", "hello", "--tool-arg", "input=hi"]);
        assert_eq!(called["structuredContent"], json!({"result": "LLM(Say hi)"}));
    }
}

/// A flow without inputs that sends each instruction to a scripted model.
fn flow_json(name: &str, steps: &[Value]) -> String {
    json!({"name": name, "description": "d", "steps": steps}).to_string()
}

#[test]
fn the_conformance_package_finds_nothing_but_what_a_server_of_tools_lacks() {
    let Some(set) = find_clients("mcp") else { return };
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let ask = |text: &str| json!({"type": "llmInstruction", "config": {"instruction": text, "resultVariable": "r"}});
    let fails = json!({"type": "apiCall", "config": {"url": "http://127.0.0.1:1/", "method": "GET", "headers": []}});
    place.write("text.json", &flow_json("test_simple_text", &[ask("This is a simple text response for testing.")]));
    place.write("progress.json", &flow_json("test_tool_with_progress", &[ask("one"), ask("two"), ask("three")]));
    place.write("error.json", &flow_json("test_error_handling", &[fails]));
    // A conversation in which a person answers every message.
    let asks = json!({"id": "test_elicitation", "name": "n", "description": "d", "isConversational": true,
        "nodes": [{"id": "a", "nodeName": "human_handoff", "nodeType": "HUMAN_HANDOFF"}],
        "entrypointNodeId": "a", "edges": [{"sourceNodeId": "a", "targetNodeId": null, "conditionType": "ALWAYS"}]});
    place.write("ask.json", &asks.to_string());
    let server = RunningServer::start(&place, &[]);
    let package = set.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let mut command = Command::new("node");
    command.arg(package).args(["server", "--suite", "all", "--url", &format!("http://{}/mcp", server.address)]);
    command
        .arg("--expected-failures")
        .arg(repository_root().join("tests/clients/mcp/conformance.yml"))
        .current_dir(place.path(""));
    println!("{}", run_successfully(&mut command));
}
