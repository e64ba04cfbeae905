//! The inputs of a run: which texts are values, and which inputs are reported.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

#[test]
fn empty_texts_are_values_where_they_are_written() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let step = json!({
        "name": "say", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "Hi {{input}}!",
        "timeoutMs": 60000, "errorMode": "fail"
    });
    place.write("steps.json", &json!({"name": "W", "description": "d", "steps": [step]}).to_string());
    let action = "<GenText as=\"a\" model=\"scripted:echo\" />";
    place.write("text.mdx", &format!("---\ninput:\n  name: {{type: text}}\n---\n\nHi {{name}}!\n\n{action}\n"));
    for (file, text) in [("whole.json", "\"\""), ("named.json", r#"{"name": ""}"#), ("nothing.json", "\n")] {
        place.write(file, text);
    }
    let cases: [(&[&str], Option<&str>); 7] = [
        (&["steps.json", "--input", "whole.json"], Some("LLM(Hi !)")),
        (&["steps.json", "-i", "input:=\"\""], Some("LLM(Hi !)")),
        (&["steps.json", "-i", "input="], None),
        (&["steps.json", "--input", "nothing.json"], None),
        (&["text.mdx", "--input", "named.json"], Some("Hi !")),
        (&["text.mdx", "-i", "name:=\"\""], Some("Hi !")),
        (&["text.mdx", "--input", "named.json", "-i", "name="], None),
    ];
    for (arguments, answer) in cases {
        let output = place.run(&[&["run"], arguments].concat());
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(exit_code(&output), if answer.is_some() { 0 } else { 2 }, "{arguments:?}: {}", stderr_text(&output));
        assert!(printed.contains(answer.unwrap_or_default()), "{arguments:?}: {printed}");
    }
}

/// A flow ignores such inputs, as AnythingLLM does.
#[test]
fn inputs_that_a_flow_does_not_use_are_reported_with_its_run() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let start = json!({"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}});
    let ask = json!({"type": "llmInstruction", "config": {"instruction": "${city} ${day}"}});
    place.write("trip.json", &json!({"name": "trip", "description": "d", "steps": [start, ask]}).to_string());
    let server = RunningServer::start(&place, &[]);
    let run =
        |inputs: Value| server.post("/api/v1/runs?wait=60", &json!({"workflow": "trip", "inputs": inputs})).json();
    let clean = run(json!({"city": "Rome", "day": "Monday"}));
    assert_eq!((&clean["status"], clean.get("warnings")), (&json!("succeeded"), None), "{clean}");
    let warned = run(json!({"cty": "Rome"}));
    let warnings = json!(["there is no input cty; did you mean city?"]);
    assert_eq!((&warned["status"], &warned["warnings"]), (&json!("succeeded"), &warnings), "{warned}");
    let id = warned["run_id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/api/v1/runs/{id}")).json()["warnings"], warnings);
}
