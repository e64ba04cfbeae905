//! Graphs as CSV tables: a folder or its workflow file on the command line, diagnostics by row, and pinning with the
//! run.

mod support;

use serde_json::Value;
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

const WORKFLOW_TABLE: &str =
    "id,name,description,entrypoint_node_id,is_conversational\nw,Desk,\"Say \"\"hi\"\", twice\",n1,t\n";
const NODE_TABLE: &str = "id,workflow_id,agent_id,node_type,node_name\r\nn1,w,\\N,AGENT,Door\r\nn2,w,,AGENT,\"Back,\r\noffice\"\r\nx,other,,AGENT,Elsewhere\r\n";
const EDGE_TABLE: &str =
    "id,workflow_id,source_node_id,target_node_id,condition_type,condition_value\ne1,w,n1,n2,ALWAYS,\n";

fn create_workspace(nodes: &str, edges: &str) -> Workspace {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    std::fs::create_dir(place.path("desk")).expect("a folder");
    place.write("desk/system_agent_workflow.csv", WORKFLOW_TABLE);
    place.write("desk/system_agent_workflow_node.csv", nodes);
    place.write("desk/system_agent_workflow_edge.csv", edges);
    place
}

fn with_agents(nodes: &str) -> String {
    nodes.replace("\\N,AGENT", "a,AGENT").replace("w,,AGENT", "w,a,AGENT").replace("other,,", "other,a,")
}

/// The diagnostics as file, line and code.
fn list_diagnostics(place: &Workspace) -> Vec<(String, u64, String)> {
    let output = place.run(&["check", "desk", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let row = |problem: &Value| (text(problem, "file"), problem["line"].as_u64().unwrap_or(0), text(problem, "code"));
    list.as_array().into_iter().flatten().map(row).collect()
}

#[test]
fn a_folder_of_tables_runs_and_is_pinned_with_the_run() {
    let place = create_workspace(&with_agents(NODE_TABLE), EDGE_TABLE);
    let (code, output) = place.run_json(&["run", "desk", "-i", "message=hi"]);
    assert_eq!(code, 0, "{output}");
    assert_eq!(output["result"]["node_trace"], serde_json::json!(["Door", "Back,\r\noffice"]));
    assert_eq!(output["result"]["end_reason"], "no_edge");
    std::fs::remove_dir_all(place.path("desk")).expect("removed");
    let replayed = place.run(&["replay", "last"]);
    assert_eq!(exit_code(&replayed), 0, "{}", stderr_text(&replayed));
}

#[test]
fn tables_are_a_workflow_of_the_folder() {
    let place = create_workspace(&with_agents(NODE_TABLE), EDGE_TABLE);
    let (_, listed) = place.run_json(&["list"]);
    assert_eq!((&listed[0]["name"], &listed[0]["format"]), (&"Desk".into(), &"graph".into()), "{listed}");
    let server = RunningServer::start(&place, &[]);
    let served = server.get("/api/v1/workflows").json();
    assert_eq!(served["items"][0]["file"], "desk/system_agent_workflow.csv", "{served}");
    let (_, synced) = place.run_json(&["sync", "."]);
    assert_eq!(synced["created"].as_array().map(Vec::len), Some(1), "{synced}");
}

#[test]
fn the_file_of_workflows_means_the_same() {
    let place = create_workspace(&with_agents(NODE_TABLE), EDGE_TABLE);
    let output = place.run(&["check", "desk/system_agent_workflow.csv"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
}

#[test]
fn problems_stand_at_their_rows() {
    let edges = EDGE_TABLE.to_owned() + "e2,w,n1,n9,CONDITIONAL,Nine\n";
    let found = list_diagnostics(&create_workspace(NODE_TABLE, &edges));
    let has = |file: &str, line: u64, code: &str| {
        let place = format!("desk/system_agent_workflow_{file}.csv");
        found.iter().any(|(at, on, is)| *at == place && *on == line && is == code)
    };
    assert!(has("edge", 3, "FL0501"), "{found:?}");
    assert!(has("node", 2, "FL0503") && has("node", 3, "FL0503"), "{found:?}");
    let shown = stderr_text(&create_workspace(NODE_TABLE, &edges).run(&["check", "desk"]));
    assert!(shown.contains("desk/system_agent_workflow_edge.csv:3"), "{shown}");
}

#[test]
fn errors_of_tables_have_a_place() {
    let wrong = |nodes: &str, line: u64| {
        let found = list_diagnostics(&create_workspace(nodes, EDGE_TABLE));
        let expected = ("desk/system_agent_workflow_node.csv".to_owned(), line, "FL0510".to_owned());
        assert!(found.contains(&expected), "{nodes:?}: {found:?}");
    };
    wrong("n1,w,a,AGENT,Door\n", 1);
    wrong("id,node_type,id\nn1,AGENT,n1\n", 1);
    wrong("id,node_type\nn1,AGENT\nn2,AGENT,more\n", 3);
    wrong("id,node_type\nn1,\"AGENT\n", 2);
    let place = create_workspace(&with_agents(NODE_TABLE), EDGE_TABLE);
    std::fs::remove_file(place.path("desk/system_agent_workflow_edge.csv")).expect("removed");
    assert_eq!(list_diagnostics(&place), [("desk/system_agent_workflow.csv".to_owned(), 1, "FL0510".to_owned())]);
}
