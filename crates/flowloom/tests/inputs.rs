//! The inputs of a run on the command line: which texts are values.

mod support;

use serde_json::json;
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
