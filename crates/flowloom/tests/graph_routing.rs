//! Graphs: where agents go by name, which tools a call reaches, and which arguments are accepted.

mod support;

use serde_json::{Value, json};
use support::{TestServer, Workspace, exit_code, stderr_text};

/// A project whose tools are on a test server.
struct GraphProject {
    server: TestServer,
    place: Workspace,
}

impl GraphProject {
    fn new() -> GraphProject {
        let server = TestServer::start();
        let place = Workspace::new(&format!("[tools]\nbase_url = \"http://{}\"\n", server.address));
        GraphProject { server, place }
    }

    /// Runs a graph with these answers of the model, and returns the output of the command.
    fn run(&self, graph: &Value, answers: &Value) -> Value {
        self.place.write("g.json", &graph.to_string());
        let model = format!("scripted:{}", self.place.write("answers.json", &answers.to_string()).display());
        let (_, output) = self.place.run_json(&["run", "g.json", "--model", &model, "-i", "message=go"]);
        output
    }

    fn check(&self, graph: &Value) -> String {
        self.place.write("g.json", &graph.to_string());
        stderr_text(&self.place.run(&["check", "g.json"]))
    }
}

fn tool_call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn answer_with_calls(calls: Vec<Value>) -> Value {
    json!({"text": "", "tool_calls": calls})
}

fn post_tool(name: &str, path: &str) -> Value {
    let parameters =
        json!({"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]});
    json!({"name": name, "description": "d", "parameters": parameters, "internalApiPath": path})
}

fn agent_node(id: &str, name: &str, agent: &str) -> Value {
    json!({"id": id, "nodeType": "AGENT", "nodeName": name, "agentId": agent})
}

fn executor_node() -> Value {
    json!({"id": "x", "nodeType": "TOOL_EXECUTOR", "nodeName": "tool_executor", "agentId": null})
}

fn conditional_edge(from: &str, to: Option<&str>, value: &str) -> Value {
    json!({"id": format!("{from}-{value}"), "sourceNodeId": from, "targetNodeId": to, "conditionType": "CONDITIONAL", "conditionValue": value})
}

fn build_graph(is_conversational: bool, agents: Value, nodes: Vec<Value>, edges: Vec<Value>) -> Value {
    json!({"name": "G", "isConversational": is_conversational, "entrypointNodeId": nodes[0]["id"], "agents": agents, "nodes": nodes, "edges": edges})
}

/// One agent with the tool `s`.
fn single_agent() -> Value {
    let agents = json!([{"id": "a", "systemPrompt": "A", "tools": [post_tool("s", "/s")]}]);
    build_graph(
        false,
        agents,
        vec![agent_node("n", "A", "a"), executor_node()],
        vec![conditional_edge("n", Some("x"), "tool_executor")],
    )
}

#[test]
fn arguments_are_never_guessed() {
    for (arguments, why) in [
        (json!(r#"{"q":"#), "The arguments are not valid JSON"),
        (json!(r#"{"q":"delete all but the imp"#), "The arguments are not valid JSON"),
        (json!(r#"{"q":"a"}{"q":"b"}"#), "The arguments are not valid JSON"),
        (json!([1]), "The arguments must be an object, not a list"),
        (json!({}), "The argument q is missing"),
        (json!({"q": 5}), "The arguments do not fit the schema of s: /q: 5 is not of type"),
        (json!({"q": null}), "The arguments do not fit the schema of s"),
    ] {
        let project = GraphProject::new();
        let output =
            project.run(&single_agent(), &json!([answer_with_calls(vec![tool_call("s", arguments.clone())]), "done"]));
        assert_eq!(output["output"], "done", "{arguments}: {output}");
        assert_eq!(project.server.request_count("/s"), 0, "{arguments}");
        let result = output["result"]["messages"][2]["content"].as_str().expect("a result");
        assert!(result.starts_with("Error: ") && result.contains(why), "{arguments}: {result}");
    }
    // Null for an argument that is not required counts as none.
    let project = GraphProject::new();
    project
        .run(&single_agent(), &json!([answer_with_calls(vec![tool_call("s", json!({"q": "a", "n": null}))]), "done"]));
    assert_eq!(project.server.request_count("/s"), 1);
}

#[test]
fn an_agent_calls_its_own_tools_only() {
    let agents = json!([
        {"id": "r", "systemPrompt": "R", "tools": [post_tool("s", "/first"), post_tool("t", "/t")]},
        {"id": "b", "systemPrompt": "B", "tools": [post_tool("s", "/second")]},
    ]);
    let nodes = vec![agent_node("n1", "R", "r"), agent_node("n2", "B", "b"), executor_node()];
    let edges = vec![
        conditional_edge("n1", Some("x"), "tool_executor"),
        conditional_edge("n1", Some("n2"), "B"),
        conditional_edge("n2", Some("x"), "tool_executor"),
    ];
    let graph = build_graph(false, agents, nodes, edges);
    let project = GraphProject::new();
    let calls = answer_with_calls(vec![tool_call("s", json!({"q": "1"})), tool_call("t", json!({"q": "2"}))]);
    let route = answer_with_calls(vec![tool_call("router", json!({"reason": "because", "next_node": "b"}))]);
    let output = project.run(&graph, &json!([route, calls, "done"]));
    let requests_to = |path: &str| project.server.request_count(path);
    assert_eq!((requests_to("/first"), requests_to("/second"), requests_to("/t")), (0, 1, 0), "{output}");
    assert_eq!(output["result"]["node_trace"], json!(["R", "B", "tool_executor", "B"]));
    let texts: Vec<&str> = output["result"]["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter_map(|m| m["content"].as_str())
        .collect();
    assert!(texts.iter().any(|text| text.contains("Tool \"t\" not found.")), "{texts:?}");
}

#[test]
fn tools_run_before_a_wrong_destination_is_asked_again() {
    let agents =
        json!([{"id": "a", "systemPrompt": "A", "tools": [post_tool("s", "/s")]}, {"id": "b", "systemPrompt": "B"}]);
    let nodes = vec![agent_node("n1", "A", "a"), agent_node("n2", "B", "b"), executor_node()];
    let graph = build_graph(
        false,
        agents,
        nodes,
        vec![conditional_edge("n1", Some("x"), "tool_executor"), conditional_edge("n1", Some("n2"), "B")],
    );
    let project = GraphProject::new();
    let both = answer_with_calls(vec![
        tool_call("s", json!({"q": "1"})),
        tool_call("router", json!({"next_node": "nowhere"})),
    ]);
    let output = project
        .run(&graph, &json!([both, answer_with_calls(vec![tool_call("router", json!({"next_node": "B"}))]), "done"]));
    assert_eq!(project.server.request_count("/s"), 1, "{output}");
    assert_eq!(output["result"]["node_trace"], json!(["A", "tool_executor", "A", "B"]));
}

#[test]
fn names_of_nodes_are_compared_as_they_are_written() {
    // The end of a conversation is not the node "End"; and the case of every letter is ignored.
    let agents = json!([{"id": "a", "systemPrompt": "A"}]);
    let nodes =
        vec![agent_node("n1", "Router", "a"), agent_node("n2", "End", "a"), agent_node("n3", "Übersetzer", "a")];
    let edges = vec![conditional_edge("n1", Some("n2"), "End"), conditional_edge("n1", Some("n3"), "Übersetzer")];
    let graph = build_graph(true, agents, nodes, edges);
    let project = GraphProject::new();
    let output = project.run(&graph, &json!([{"text": "bye", "tool_calls": [tool_call("end", json!({}))]}]));
    assert_eq!(output["result"]["node_trace"], json!(["Router"]), "{output}");
    assert_eq!(output["result"]["end_reason"], "END");
    let to = answer_with_calls(vec![tool_call("router", json!({"next_node": "übersetzer"}))]);
    let output = project.run(&graph, &json!([to, {"text": "fertig", "tool_calls": [tool_call("end", json!({}))]}]));
    assert_eq!(output["result"]["node_trace"], json!(["Router", "Übersetzer"]), "{output}");
}

#[test]
fn the_executor_returns_to_the_node_that_called() {
    let agents = json!([
        {"id": "a", "systemPrompt": "A", "tools": [post_tool("tool::echo", "/echo")]},
        {"id": "b", "systemPrompt": "B", "tools": [post_tool("s", "/s")]},
    ]);
    // Two nodes of one name, and an edge for a tool whose name models cannot write.
    let nodes =
        vec![agent_node("n1", "W", "a"), agent_node("n2", "W", "b"), agent_node("n3", "Last", "a"), executor_node()];
    let edges = vec![
        conditional_edge("n1", Some("x"), "tool_executor"),
        conditional_edge("n1", Some("n2"), "second"),
        conditional_edge("n2", Some("x"), "tool_executor"),
        conditional_edge("x", Some("n3"), "tool::echo"),
    ];
    let graph = build_graph(false, agents, nodes, edges);
    let project = GraphProject::new();
    let to = answer_with_calls(vec![tool_call("router", json!({"next_node": "second"}))]);
    let output =
        project.run(&graph, &json!([to, answer_with_calls(vec![tool_call("s", json!({"q": "1"}))]), "from b"]));
    assert_eq!(output["result"]["node_trace"], json!(["W", "W", "tool_executor", "W"]), "{output}");
    let (_, shown) = project.place.run_json(&["show", "last"]);
    let shown = shown.to_string();
    assert!(shown.contains("from b"), "{shown}");
    let output =
        project.run(&graph, &json!([answer_with_calls(vec![tool_call("tool_echo", json!({"q": "1"}))]), "done"]));
    assert_eq!(output["result"]["node_trace"], json!(["W", "tool_executor", "Last"]), "{output}");
}

#[test]
fn a_tool_with_the_name_of_a_routing_tool_is_reported() {
    let agents = json!([{"id": "a", "systemPrompt": "A", "tools": [post_tool("end", "/end")]}]);
    let edges = vec![conditional_edge("n", Some("x"), "tool_executor"), conditional_edge("n", None, "END")];
    let graph = build_graph(true, agents, vec![agent_node("n", "A", "a"), executor_node()], edges);
    let project = GraphProject::new();
    let report = project.check(&graph);
    assert!(report.contains("the tool \"end\" of A is not available"), "{report}");
    let output = project.run(&graph, &json!([{"text": "bye", "tool_calls": [tool_call("end", json!({}))]}]));
    assert_eq!((output["output"].as_str(), project.server.request_count("/end")), (Some("bye"), 0), "{output}");
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    let project = GraphProject::new();
    let mut wrong = single_agent();
    wrong["isConversational"] = "true".into();
    wrong["edges"][0]["conditionValue"] = 5.into();
    wrong["edges"][0]["targetNodeId"] = 5.into();
    wrong["nodes"][0]["agentId"] = 5.into();
    let report = project.check(&wrong);
    for problem in [
        "\"isConversational\" of a graph must be true or false, not text",
        "\"agentId\" of a node must be text, not a number",
        "\"targetNodeId\" of an edge must be the id of a node, or null for the end, not a number",
    ] {
        assert!(report.contains(problem), "{problem}: {report}");
    }
    // A conversation that is no conversation is refused before the run.
    project.place.write("g.json", &single_agent().to_string());
    let refused =
        project.place.run(&["run", "g.json", "--model", "scripted:echo", "-i", r#"messages:=[{"role":"user"}]"#]);
    assert_eq!(exit_code(&refused), 2, "{}", stderr_text(&refused));
    assert!(stderr_text(&refused).contains("messages[0]: it has no \"content\""), "{}", stderr_text(&refused));
}

#[test]
fn a_function_is_declared_as_the_configuration_says() {
    let server = TestServer::start();
    let parameters = "{ type = \"object\", properties = { q = { type = \"string\" } }, required = [\"q\"] }";
    let config = format!(
        "[functions.\"shop::find\"]\nurl = \"http://{}/find\"\ndescription = \"Finds articles.\"\nparameters = {parameters}\n\
         [egress]\nallow = [\"{}\"]\n",
        server.address, server.address
    );
    let place = Workspace::new(&config);
    let tools = json!([{"name": "shop::find"}, {"name": "fetch", "functionId": "tool::web_fetch"}]);
    let agents = json!([{"id": "a", "systemPrompt": "A", "tools": tools}]);
    let edges = vec![conditional_edge("n", Some("x"), "tool_executor")];
    place.write(
        "g.json",
        &build_graph(false, agents, vec![agent_node("n", "A", "a"), executor_node()], edges).to_string(),
    );
    let answers = json!([
        answer_with_calls(vec![tool_call("shop_find", json!({}))]),
        answer_with_calls(vec![tool_call("shop_find", json!({"q": "x"}))]),
        "done"
    ]);
    let model = format!("scripted:{}", place.write("answers.json", &answers.to_string()).display());
    let (_, output) = place.run_json(&["run", "g.json", "--model", &model, "-i", "message=go"]);
    assert_eq!((output["output"].as_str(), server.request_count("/find")), (Some("done"), 1), "{output}");
    assert_eq!(exit_code(&place.run(&["test", "record", "last", "--as", "t.json"])), 0);
    let recorded: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("t.json")).expect("there")).expect("JSON");
    let shown = String::from_utf8_lossy(&place.run(&["show", "last", "-v"]).stdout).into_owned();
    assert!(shown.contains(r#""description": "Finds articles.""#) && shown.contains(r#""required""#), "{shown}");
    let tools = &recorded["steps"][0]["request"]["tools"];
    assert_eq!(
        (&tools[0]["name"], &tools[0]["description"]),
        (&json!("shop_find"), &json!("Finds articles.")),
        "{recorded}"
    );
    assert_eq!(tools[0]["parameters"]["required"], json!(["q"]));
    assert_eq!((&tools[1]["name"], &tools[1]["parameters"]["type"]), (&json!("fetch"), &json!("object")));
}

#[test]
fn a_tool_stays_below_its_server() {
    let project = GraphProject::new();
    let check_path = |path: &str| {
        let mut graph = single_agent();
        graph["agents"][0]["tools"][0]["internalApiPath"] = json!(path);
        project.check(&graph)
    };
    for outside in ["/../admin", "/%2e%2E/admin", "/a/../../b", "..", "/./x", "/..", "\\..\\b", "/a\n/b"] {
        let shown = check_path(outside);
        assert!(shown.contains("FL0110") && shown.contains("is not below the server"), "{outside}: {shown}");
    }
    for inside in ["/a", "a/b", "/a..b/c", "/a?next=/../b", "/a%2fb", "/.well-known/x"] {
        let shown = check_path(inside);
        assert!(!shown.contains("is not below the server"), "{inside}: {shown}");
    }
}

#[test]
fn a_tool_without_an_implementation_is_reported() {
    let project = GraphProject::new();
    let mut graph = single_agent();
    graph["agents"][0]["tools"][0].as_object_mut().expect("a record").remove("internalApiPath");
    let shown = project.check(&graph);
    assert!(shown.contains("FL0618") && shown.contains("nothing implements the tool s"), "{shown}");
    let output = project.run(&graph, &json!([answer_with_calls(vec![tool_call("s", json!({"q": "a"}))]), "done"]));
    let result = output["result"]["messages"][2]["content"].as_str().expect("a result");
    assert!(result.starts_with("Error: Tool \"s\" not found."), "the model learns of no other functions: {result}");
    project.place.write("flowloom.toml", "");
    let shown = project.check(&single_agent());
    assert!(shown.contains("FL0618") && shown.contains("has a path and no server"), "{shown}");
}

#[test]
fn an_agent_needs_a_grant_for_http_tools() {
    let project = GraphProject::new();
    let agents = "[agents.clerk]\ntools = [\"tool::\"]\n[agents.boss]\ntools = [\"http::s\"]\n";
    let server = format!("[tools]\nbase_url = \"http://{}\"\n", project.server.address);
    project.place.write("flowloom.toml", &format!("{server}{agents}"));
    project.place.write("g.json", &single_agent().to_string());
    let answers = json!([answer_with_calls(vec![tool_call("s", json!({"q": "a"}))]), "done"]);
    let model = format!("scripted:{}", project.place.write("answers.json", &answers.to_string()).display());
    let run_as = |agent: &str| {
        let arguments = ["run", "g.json", "--model", &model, "-i", "message=go", "--agent", agent];
        let (status, output) = project.place.run_json(&arguments);
        (status, output, project.server.request_count("/s"))
    };
    let (_, output, requests) = run_as("clerk");
    let result = output["result"]["messages"][2]["content"].as_str().expect("a result");
    assert!(result.contains("Agent clerk denied: http::s"), "{result}");
    assert_eq!(requests, 0);
    let (status, output, requests) = run_as("nobody");
    assert_eq!((status, requests), (2, 0), "{output}");
    assert!(
        output.to_string().contains("there is no agent nobody; the configured agents are: boss, clerk"),
        "{output}"
    );
    assert_eq!(run_as("boss").2, 1);
}

#[test]
fn a_router_reads_arguments_that_are_a_text() {
    let agents = json!([{"id": "a", "systemPrompt": "A"}, {"id": "b", "systemPrompt": "B"}]);
    let nodes = vec![agent_node("n1", "A", "a"), agent_node("n2", "B", "b")];
    let graph = build_graph(false, agents, nodes, vec![conditional_edge("n1", Some("n2"), "B")]);
    let route = |arguments: Value| answer_with_calls(vec![tool_call("router", arguments)]);
    let project = GraphProject::new();
    let output = project.run(&graph, &json!([route(json!("{\"next_node\": \" b\\n\"}")), "done"]));
    assert_eq!(output["result"]["node_trace"], json!(["A", "B"]), "{output}");
    let broken = route(json!("{\"next_node\": \"B\""));
    let output = project.run(&graph, &json!([broken, broken, broken]));
    assert!(output.to_string().contains("A called its router without a destination"), "{output}");
}

#[test]
fn agents_are_found_in_the_folders_above_a_graph() {
    let place = Workspace::new("");
    for folder in ["System/AgenticWorkflows/chat", "System/Agents/one", "System/Agents/broken"] {
        std::fs::create_dir_all(place.path(folder)).expect("created");
    }
    let graph =
        build_graph(false, Value::Null, vec![agent_node("n", "A", "id-1")], vec![conditional_edge("n", None, "END")]);
    place.write("System/AgenticWorkflows/chat/workflow.json", &graph.to_string());
    place.write("System/Agents/one/jsonSchema.json", r#"{"agentId": "id-1"}"#);
    place.write("System/Agents/one/systemPrompt.md", "\nBe kind.\n\n");
    // It is the agent of another graph.
    place.write("System/Agents/broken/jsonSchema.json", "{");
    let model = format!("scripted:{}", place.write("answers.json", r#"["hello"]"#).display());
    let file = "System/AgenticWorkflows/chat/workflow.json";
    let (_, output) = place.run_json(&["run", file, "--model", &model, "-i", "message=go"]);
    assert_eq!(output["output"], "hello", "{output}");
    assert_eq!(exit_code(&place.run(&["test", "record", "last", "--as", "t.json"])), 0);
    let recorded = std::fs::read_to_string(place.path("t.json")).expect("there");
    assert!(recorded.contains("\"\\nBe kind.\\n\\n\""), "{recorded}");
    // Problems are shown at their place in the file of the agent.
    place.write("System/Agents/one/jsonSchema.json", "{\n  \"agentId\": \"id-1\",\n  \"tools\": 5\n}");
    let output = place.run(&["check", file]);
    let text = stderr_text(&output);
    assert!(text.contains("System/Agents/one/jsonSchema.json:3:12"), "{text}");
    assert_eq!(exit_code(&output), 2);
}
