//! Tool records and tables of graphs.

use flowloom_core::plan::{AgentTool, Composite, StepKind, ToolEffect};
use flowloom_formats::{Sources, compile, graph};
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
