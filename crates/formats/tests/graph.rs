//! Tool records, agents and tables of graphs.

use flowloom_core::code::Code;
use flowloom_core::expr::Data;
use flowloom_core::plan::{AgentTool, Composite, StepKind, ToolEffect};
use flowloom_formats::{Compiled, Sources, compile, graph};
use serde_json::{Value, json};

/// The tool that a graph with one agent offers, given its record.
fn compile_tool(record: &Value) -> AgentTool {
    let definition = json!({
        "id": "w",
        "entrypointNodeId": "1",
        "nodes": [
            {"id": "1", "nodeType": "AGENT", "nodeName": "Worker", "agentId": "w"},
            {"id": "2", "nodeType": "TOOL_EXECUTOR", "nodeName": "tool_executor", "agentId": null},
        ],
        "edges": [
            {"id": "e1", "sourceNodeId": "1", "targetNodeId": "2", "conditionType": "CONDITIONAL", "conditionValue": "tool_executor"},
            {"id": "e2", "sourceNodeId": "1", "targetNodeId": null, "conditionType": "CONDITIONAL", "conditionValue": "END"},
        ],
        "agents": [{"agentId": "w", "systemPrompt": "Work.", "tools": [record]}],
    });
    let files = [("w.json".to_owned(), definition.to_string().into_bytes())];
    let sources = Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() };
    let compiled = compile("w.json", &sources, None);
    let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    let StepKind::Composite(Composite::Machine(machine)) = plan.root.kind else { panic!("no machine") };
    let turns = machine.nodes.iter().filter_map(|node| match &node.kind {
        StepKind::Composite(Composite::Turn(turn)) => turn.tools.first().cloned(),
        _ => None,
    });
    turns.into_iter().next().expect("a tool")
}

#[test]
fn wrapped_client_tool_is_run_by_the_client() {
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let declaration = json!({"name": "t1", "description": "d", "parameters": parameters});
    let records = [
        json!({"toolId": "t1", "type": "function", "function": declaration, "execution_location": "client"}),
        json!({"toolId": "t1", "function": {"type": "function", "function": declaration}, "execution_location": "client"}),
        json!({"toolId": "t1", "function": {"type": "function", "function": declaration, "execution_location": "client"}}),
        json!({"toolId": "t1", "function": {"name": "t1", "parameters":
            {"type": "function", "function": declaration, "execution_location": "client"}}}),
        json!({"toolId": "t1", "internalApiPath": "/api/t1", "function": {"name": "t1", "description": "d", "parameters":
            {"toolId": "x", "function": declaration, "execution_location": "client"}}}),
        json!({"toolId": "t1", "execution_location": "client", "function": {"function": declaration, "internalApiPath": "/a"}}),
    ];
    for record in records {
        let tool = compile_tool(&record);
        assert!(matches!(tool.effect, ToolEffect::Client), "{record}: {:?}", tool.effect);
        assert_eq!((&*tool.declaration.name, &*tool.declaration.description), ("t1", "d"), "{record}");
        let properties = tool.declaration.parameters.get("properties");
        assert!(properties.is_some_and(|all| all.get("q").is_some()), "{record}");
    }
}

#[test]
fn path_in_a_wrapped_tool_is_requested() {
    let inner = json!({"function": {"name": "t1", "parameters": {"type": "object"}}, "internalApiPath": "/api/t1"});
    let tool = compile_tool(&json!({"toolId": "t1", "function": {"name": "t1", "parameters": inner}}));
    assert!(matches!(tool.effect, ToolEffect::Http(_)), "{:?}", tool.effect);
}

#[test]
fn file_with_the_tables_is_recognised() {
    let tables = json!({
        "system_agent_workflow": [{"id": "w", "name": "W", "entrypoint_node_id": "1"}],
        "system_agent_workflow_node": [{"id": "1", "workflow_id": "w", "agent_id": "r", "node_type": "AGENT", "node_name": "Router"}],
        "system_agent_workflow_edge": [{"id": "e", "workflow_id": "w", "source_node_id": "1", "target_node_id": null, "condition_type": "ALWAYS"}],
        "agents": [{"agentId": "r", "systemPrompt": "Route.", "tools": []}],
    });
    let files = [("w.json".to_owned(), tables.to_string().into_bytes())];
    let sources = Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() };
    let compiled = compile("w.json", &sources, None);
    assert_eq!(compiled.format, Some(graph::FORMAT), "{:?}", compiled.diagnostics);
    assert!(compiled.plan.is_some(), "{:?}", compiled.diagnostics);
}

/// The graph of the agents in folders: two nodes, whose agents are `a` and `b`.
const FOLDER_GRAPH: &str = r#"{"name": "G", "entrypointNodeId": "1", "nodes": [
    {"id": "1", "nodeType": "AGENT", "nodeName": "A", "agentId": "a"},
    {"id": "2", "nodeType": "AGENT", "nodeName": "B", "agentId": "b"}],
    "edges": [{"id": "e1", "sourceNodeId": "1", "targetNodeId": "2", "conditionType": "ALWAYS"}]}"#;

fn compile_files(entry: &str, files: &[(&str, &str)]) -> Compiled {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    compile(entry, &Sources { files, source_bytes: 1 << 20, ..Sources::default() }, None)
}

/// The instructions of the agents, and the paths or functions of their tools, in the order of the nodes.
fn list_agents(compiled: &Compiled) -> Vec<(String, usize)> {
    let plan = compiled.plan.as_ref().unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    let StepKind::Composite(Composite::Machine(machine)) = &plan.root.kind else { panic!("no machine") };
    let turns = machine.nodes.iter().filter_map(|node| match &node.kind {
        StepKind::Composite(Composite::Turn(turn)) => Some(turn),
        _ => None,
    });
    let system = |data: &Data| match data {
        Data::Text(template) => template.as_literal().unwrap_or_default().to_string(),
        _ => String::new(),
    };
    turns.map(|turn| (turn.generate.system.as_ref().map(system).unwrap_or_default(), turn.tools.len())).collect()
}

/// The code, the file and the start of each problem.
fn list_problems(compiled: &Compiled) -> Vec<(Code, &str, usize)> {
    compiled.diagnostics.iter().map(|found| (found.code, found.file.as_str(), found.span.start)).collect()
}

#[test]
fn nearest_folder_of_an_agent_counts() {
    let compiled = compile_files(
        "flows/chat/g.json",
        &[
            ("flows/chat/g.json", FOLDER_GRAPH),
            ("flows/Agents/one/jsonSchema.json", r#"{"agentId": "a"}"#),
            ("flows/Agents/one/systemPrompt.md", "\n  Near.\n\n"),
            ("Agents/a/jsonSchema.json", r#"{"agentId": "a"}"#),
            ("Agents/a/systemPrompt.md", "Far."),
            ("Agents/b/jsonSchema.json", "\u{feff}{}"),
            ("Agents/b/systemPrompt.md", "1|Numbered\n2|lines."),
        ],
    );
    assert_eq!(list_agents(&compiled), [("\n  Near.\n\n".into(), 0), ("Numbered\nlines.".into(), 0)]);
    assert_eq!(list_problems(&compiled), []);
}

#[test]
fn folders_that_no_node_names_may_be_broken() {
    let good = [
        ("g.json", FOLDER_GRAPH),
        ("agents/a/jsonSchema.json", r#"{"agentId": "a", "systemPrompt": "A."}"#),
        ("agents/x/jsonSchema.json", "{\n  \"agentId\": \n}"),
        ("agents/y/jsonSchema.json", r#"{"agentId": 7, "tools": [{"function": 7}]}"#),
    ];
    let with = |file| compile_files("g.json", &[&good[..], &[file]].concat());
    let compiled = with(("agents/b/jsonSchema.json", r#"{"systemPrompt": "B."}"#));
    assert_eq!((list_agents(&compiled).len(), list_problems(&compiled)), (2, vec![]));
    // The agent may be that of the broken folder.
    let compiled = with(("agents/c/jsonSchema.json", r#"{"systemPrompt": "C."}"#));
    assert_eq!(list_problems(&compiled), [(Code::JsonSyntax, "agents/x/jsonSchema.json", 16)]);
    // Problems have their place in the file of the agent.
    let compiled = with(("agents/b/jsonSchema.json", r#"{"systemPrompt": "B.", "tools": 5}"#));
    assert_eq!(list_problems(&compiled), [(Code::WrongKind, "agents/b/jsonSchema.json", 32)]);
    let compiled = with(("agents/b/systemPrompt.md", "B."));
    let found = compiled.diagnostics.iter().find(|found| found.code == Code::UnknownAgent).expect("a problem");
    assert!(found.message.contains("has no jsonSchema.json in agents/b/"), "{}", found.message);
    assert!(found.is_error());
}

#[test]
fn folders_with_the_id_of_a_used_agent_are_reported() {
    let compiled = compile_files(
        "g.json",
        &[
            ("g.json", FOLDER_GRAPH),
            ("agents/a/jsonSchema.json", r#"{"agentId": "a", "systemPrompt": "A."}"#),
            ("agents/a2/jsonSchema.json", r#"{"agentId": "a", "systemPrompt": "Other."}"#),
            ("agents/b/jsonSchema.json", r#"{"agentId": "b", "systemPrompt": "B."}"#),
        ],
    );
    assert_eq!(list_problems(&compiled), [(Code::DuplicateName, "agents/a2/jsonSchema.json", 12)]);
}

#[test]
fn tables_hold_agents_and_their_tools() {
    let record = json!({"type": "function", "function": {"name": "s", "parameters": {"type": "object"}}});
    for names in [
        ["system_agent_workflow", "system_agent_workflow_node", "system_agent_workflow_edge"],
        ["agent_workflows", "agent_workflow_nodes", "agent_workflow_edges"],
    ] {
        let tables = json!({
            names[0]: [{"id": "w", "name": "W", "entrypoint_node_id": "1"}],
            names[1]: [{"id": "1", "workflow_id": "w", "agent_id": "r", "node_type": "AGENT", "node_name": "R"},
                {"id": "2", "workflow_id": "w", "agent_id": null, "node_type": "TOOL_EXECUTOR", "node_name": "X"}],
            names[2]: [{"id": "e", "workflow_id": "w", "source_node_id": "1", "target_node_id": "2",
                "condition_type": "CONDITIONAL", "condition_value": "tools"}],
            "system_agent": [{"id": "r", "name": "router", "system_prompt": "Route."}],
            "system_tool": [
                {"id": "t1", "tool_name": "first", "json_schema": {}, "internal_api_path": "/first"},
                {"id": "t2", "tool_name": "second", "json_schema": record, "internal_api_path": "/second"},
                {"id": "t3", "tool_name": "third", "json_schema": record.to_string(), "internal_api_path": "/third"}],
            "system_agent_tool": [{"agent_id": "r", "tool_id": "t1"}, {"agent_id": "r", "tool_id": "t3"},
                {"agent_id": "other", "tool_id": "t2"}],
        });
        let compiled = compile_files("w.json", &[("w.json", &tables.to_string())]);
        assert_eq!(list_agents(&compiled), [("Route.".into(), 2)]);
        // No server of the tools is configured.
        let other = |(code, ..): &(Code, _, _)| *code != Code::UnknownTool;
        assert_eq!(list_problems(&compiled).into_iter().filter(other).collect::<Vec<_>>(), []);
    }
}

#[test]
fn csv_tables_hold_agents_and_their_tools() {
    let files = |schema| {
        [
            ("d/system_agent_workflow.csv", "id,name,entrypoint_node_id\nw,W,1\n"),
            (
                "d/system_agent_workflow_node.csv",
                "id,workflow_id,agent_id,node_type,node_name\n1,w,r,AGENT,R\n2,w,,TOOL_EXECUTOR,X\n",
            ),
            (
                "d/system_agent_workflow_edge.csv",
                "id,workflow_id,source_node_id,target_node_id,condition_type,condition_value\ne,w,1,2,CONDITIONAL,tools\n",
            ),
            ("d/system_agent.csv", "id,name,system_prompt\nr,router,\"Route.\nWell.\"\n"),
            ("d/system_tool.csv", schema),
            ("d/system_agent_tool.csv", "agent_id,tool_id\nr,t\n"),
        ]
    };
    let entry = "d/system_agent_workflow.csv";
    let compiled = compile_files(
        entry,
        &files("id,tool_name,json_schema,internal_api_path\nt,s,\"{\"\"type\"\": \"\"object\"\"}\",/s\n"),
    );
    assert_eq!(list_agents(&compiled), [("Route.\nWell.".into(), 1)]);
    let cases = [
        ("id,tool_name,json_schema\nt,s,\"{\"\n", Code::JsonSyntax, "d/system_tool.csv"),
        ("id,tool_name,json_schema\nu,s,\n", Code::UnknownTool, "d/system_agent_tool.csv"),
        ("id,name\nt,s\n", Code::TableSyntax, "d/system_tool.csv"),
    ];
    for (tools, code, file) in cases {
        let compiled = compile_files(entry, &files(tools));
        let found: Vec<(Code, &str)> =
            list_problems(&compiled).into_iter().map(|(code, file, _)| (code, file)).collect();
        assert!(found.contains(&(code, file)), "{found:?}");
    }
    // Agents can be in folders instead.
    let compiled = compile_files(entry, &files("")[..3]);
    assert!(compiled.missing_files.contains(&"d/system_agent.csv".to_owned()), "{:?}", compiled.missing_files);
    assert!(compiled.plan.is_some(), "{:?}", compiled.diagnostics);
}

#[test]
fn router_names_the_end_only_where_it_leads_there() {
    for (value, target, names_end) in [("END", Value::Null, true), ("B", json!("2"), false)] {
        let graph = json!({"name": "G", "entrypointNodeId": "1", "nodes": [
            {"id": "1", "nodeType": "AGENT", "nodeName": "A", "agentId": "a"},
            {"id": "2", "nodeType": "AGENT", "nodeName": "B", "agentId": "a"}],
            "edges": [{"id": "e", "sourceNodeId": "1", "targetNodeId": target, "conditionType": "CONDITIONAL", "conditionValue": value}],
            "agents": [{"id": "a", "systemPrompt": "A."}]});
        let compiled = compile_files("g.json", &[("g.json", &graph.to_string())]);
        let plan = compiled.plan.expect("a plan");
        let StepKind::Composite(Composite::Machine(machine)) = &plan.root.kind else { panic!("no machine") };
        let StepKind::Composite(Composite::Turn(turn)) = &machine.nodes[0].kind else { panic!("no turn") };
        let router = turn.router.as_ref().expect("a router");
        let text = flowloom_core::render::to_json(&router.tools[0].parameters);
        assert_eq!(text.contains("END ends"), names_end, "{text}");
    }
}
