//! Definitions with very many problems: checking them is quick, and the report is limited.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

/// A step list of this many empty objects, in one line.
fn empty_steps(count: usize) -> String {
    format!(r#"{{"name":"x","steps":[{}]}}"#, vec!["{}"; count].join(","))
}

#[test]
fn two_hundred_problems_are_shown_and_the_others_counted() {
    let place = Workspace::new("");
    place.write("x.json", &empty_steps(50_000));
    let output = place.run(&["check", "x.json"]);
    let shown = stderr_text(&output);
    assert_eq!(exit_code(&output), 2);
    assert_eq!(shown.matches("FL0111").count(), 200, "{}", &shown[..shown.len().min(2000)]);
    assert!(shown.contains("x.json: and 49800 more errors (solve the problems that are shown"), "{}", shown.len());
    assert!(shown.contains("[x.json:1:22]"), "{}", &shown[..2000]);
    assert!(shown.len() < 1 << 20, "an excerpt of the line is shown, not all of it: {} bytes", shown.len());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "x.json (flow): 50000 errors, 0 warnings\n");

    let (code, problems) = place.run_json(&["check", "x.json"]);
    let problems = problems.as_array().expect("a list").clone();
    assert_eq!((code, problems.len()), (2, 201));
    assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&json!(1), &json!(22)));
    let last = &problems[200];
    assert_eq!((&last["code"], &last["severity"]), (&json!("FL0117"), &json!("error")));
    assert_eq!(last["message"], "and 49800 more errors");
}

#[test]
fn a_server_answers_the_largest_definitions() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    let text = empty_steps(1_000_000);
    let checked = server.send_and_read("POST", "/api/v1/check", &["Content-Type: application/json"], &text);
    let answer = checked.json();
    assert_eq!((checked.status, &answer["is_refused"]), (200, &json!(true)));
    let problems = answer["problems"].as_array().expect("a list");
    assert_eq!((problems.len(), &problems[200]["code"]), (201, &json!("FL0117")));

    // A draft is compiled when it is stored and when it is read.
    let stored =
        server.send_and_read("PUT", "/api/v1/workflows/x?draft=true", &["Content-Type: application/json"], &text);
    assert_eq!(stored.status, 201, "{stored:?}");
    let refused = server.send_and_read("PUT", "/api/v1/workflows/y", &["Content-Type: application/json"], &text);
    assert_eq!((refused.status, refused.json()["errors"].as_array().map(Vec::len)), (422, Some(201)));
}

#[test]
fn a_definition_must_not_become_much_larger_than_its_file() {
    let place = Workspace::new("");
    let source = "x = 1\n".repeat(100_000);
    let block = json!({"id": "b", "name": "b", "execution_type": "python", "source_code": source});
    let nodes: Vec<Value> = (0..1000).map(|n| json!({"id": format!("n{n}"), "block_id": "b", "inputs": {}})).collect();
    place.write("pipeline.json", &json!({"blocks": [block], "pipeline": {"nodes": nodes}}).to_string());
    let agents = json!([{"id": "a", "systemPrompt": "word ".repeat(100_000)}]);
    let nodes: Vec<Value> =
        (0..1000).map(|n| json!({"id": format!("n{n}"), "nodeType": "AGENT", "agentId": "a"})).collect();
    let graph = json!({"entrypointNodeId": "n0", "nodes": nodes, "edges": [], "agents": agents});
    place.write("graph.json", &graph.to_string());
    for file in ["pipeline.json", "graph.json"] {
        let (code, problems) = place.run_json(&["check", file]);
        let codes: Vec<&str> = problems.as_array().into_iter().flatten().filter_map(|p| p["code"].as_str()).collect();
        assert!(code == 2 && codes.contains(&"FL0119"), "{file}: {code} {codes:?}");
    }
}
