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
    for (file, text) in
        [("whole.json", "\"\""), ("named.json", r#"{"name": ""}"#), ("nothing.json", "\n"), ("cut.json", "{\"a\": ")]
    {
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
    let cut = place.run(&["run", "steps.json", "--input", "cut.json"]);
    assert!(exit_code(&cut) == 2 && stderr_text(&cut).contains("the input is not JSON"), "{}", stderr_text(&cut));
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

#[test]
fn only_images_are_sent_as_images() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let action = "<GenText as=\"a\" model=\"scripted:echo\" />";
    place.write(
        "see.mdx",
        &format!("---\ninput:\n  pic: {{type: file, fileType: image}}\n---\n\nSee {{pic}}\n\n{action}\n"),
    );
    std::fs::create_dir(place.path("bot")).expect("created");
    place.write("bot/agent.json", r#"{"name": "bot", "systemPrompt": "Look."}"#);
    place.write("text.png", "hello");
    let refused = place.run(&["run", "see.mdx", "-i", "pic=@text.png"]);
    let printed = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 2, "{printed}");
    assert!(printed.contains("text.png cannot be read: it is text and no image"), "{printed}");
    // The content decides, and not the name.
    std::fs::write(place.path("photo.png"), b"\xff\xd8\xff\xe0").expect("written");
    let seen = place.run(&["run", "see.mdx", "-i", "pic=@photo.png"]);
    assert_eq!(exit_code(&seen), 0, "{}", stderr_text(&seen));
    assert!(String::from_utf8_lossy(&seen.stdout).contains("![image/jpeg](photo.png)"));

    let server = RunningServer::start(&place, &[]);
    let file = |base64: &str| json!({"$file": {"name": "a.png", "mime": "image/png", "base64": base64}});
    for (base64, status, why) in
        [("iVBORw0KGgo=", 201, ""), ("%%%", 422, "not encoded in base64"), ("iVBOR", 422, "not encoded in base64")]
    {
        for (workflow, inputs) in
            [("see", json!({"pic": file(base64)})), ("bot.agent", json!({"message": [file(base64)]}))]
        {
            let body = json!({"workflow": workflow, "inputs": inputs});
            let answered = server.post("/api/v1/runs?wait=60", &body);
            let text = answered.json().to_string();
            let is_right = match status {
                201 => answered.status < 300,
                _ => answered.status == status && text.contains("FL1038") && text.contains(why),
            };
            assert!(is_right, "{workflow} {base64}: {} {text}", answered.status);
        }
    }
}
