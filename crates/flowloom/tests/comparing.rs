//! Comparing definitions by what they mean: files, formats and stored versions.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

fn stdout_of(place: &Workspace, expected: i32, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    assert_eq!(exit_code(&output), expected, "{arguments:?}: {}", stderr_text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A workspace with a step list of three model calls.
fn place_with_list() -> Workspace {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let step = |name: &str, prompt: &str| {
        json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "promptTemplate": prompt,
            "outputVar": name, "errorMode": "fail"})
    };
    let steps =
        [step("draft", "Draft: {{input}}"), step("improve", "Improve: {{draft}}"), step("title", "Title: {{improve}}")];
    let list = json!({"id": "story", "name": "Story", "description": "d", "steps": steps});
    place.write("story.json", &serde_json::to_string_pretty(&list).expect("JSON"));
    place
}

#[test]
fn the_layout_of_expressions_does_not_count() {
    let place = Workspace::new("");
    let text = "---\ninput:\n  items: {type: array}\n---\n\nX {items.length + 1} {\n  items\n    .map(item => `- ${item}`)\n}\n\n\
                <GenText as=\"a\" model=\"m\" />\n";
    place.write("a.mdx", text);
    place.write("b.mdx", &text.replace('\n', "\r\n").replace(" + ", "+"));
    assert_eq!(stdout_of(&place, 0, &["diff", "a.mdx", "b.mdx"]), "the definitions mean the same\n");
    place.write("c.mdx", &text.replace("- $", "-  $"));
    let changed = stdout_of(&place, 1, &["diff", "a.mdx", "c.mdx"]);
    assert!(changed.contains("items.map(item=>`-  ${item}`)"), "{changed}");
}

#[test]
fn definitions_are_compared_by_what_they_mean() {
    let place = place_with_list();
    let text = std::fs::read_to_string(place.path("story.json")).expect("there");
    place.write("same.json", &serde_json::from_str::<Value>(&text).expect("JSON").to_string());
    assert_eq!(stdout_of(&place, 0, &["diff", "story.json", "same.json"]), "the definitions mean the same\n");

    let mut changed: Value = serde_json::from_str(&text).expect("JSON");
    let steps = changed["steps"].as_array_mut().expect("steps");
    steps[1]["promptTemplate"] = "Improve this in one sentence: {{draft}}".into();
    let mut added = steps[0].clone();
    (added["name"], added["outputVar"], added["promptTemplate"]) =
        ("check".into(), "check".into(), "Check: {{improve}}".into());
    steps.insert(2, added);
    steps.swap(2, 3);
    place.write("changed.json", &changed.to_string());
    insta::assert_snapshot!("definitions", stdout_of(&place, 1, &["diff", "story.json", "changed.json"]));
    let (exit, diff) = place.run_json(&["diff", "story.json", "changed.json"]);
    assert_eq!((exit, diff["steps"].as_array().map(Vec::len)), (1, Some(2)), "{diff}");

    place.write("story.mdx", "---\ninput:\n  input: {type: text}\n---\n\nDraft: {input}\n\n<GenText as=\"draft\" model=\"scripted:echo\" />\n");
    let across = stdout_of(&place, 1, &["diff", "story.json", "story.mdx"]);
    assert!(across.contains("/draft"), "{across}");
    let mut two: Value = serde_json::from_str(&text).expect("JSON");
    two["steps"].as_array_mut().expect("steps").truncate(2);
    two["steps"][0]["promptTemplate"] = "Draft.".into();
    place.write("two.json", &two.to_string());
    for (format, file) in [("flow", "two-flow.json"), ("markdown", "two.mdx")] {
        stdout_of(&place, 0, &["convert", "two.json", "--to", format, "--out", file]);
        let (_, diff) = place.run_json(&["diff", "two.json", file]);
        assert_eq!(diff["steps"], json!([]), "{format}: {diff}");
        let written = std::fs::read_to_string(place.path(file)).expect("there");
        place.write(file, &written.replace("Improve: ", "Better: "));
        let (_, diff) = place.run_json(&["diff", "two.json", file]);
        assert_eq!(diff["steps"].as_array().map(Vec::len), Some(1), "{format}: {diff}");
        assert_eq!(diff["steps"][0]["changes"], json!(["changed"]), "{format}: {diff}");
    }
    let missing = place.run(&["diff", "story.json", "nothing.json"]);
    assert_eq!(exit_code(&missing), 2);
}

#[test]
fn the_definition_of_a_run_is_compared_with_a_file() {
    let place = place_with_list();
    stdout_of(&place, 0, &["run", "story.json", "-i", "input=tea"]);
    assert_eq!(stdout_of(&place, 0, &["diff", "last", "story.json"]), "the definitions mean the same\n");
    let text = std::fs::read_to_string(place.path("story.json")).expect("there");
    place.write("story.json", &text.replace("Improve: ", "Better: "));
    assert!(stdout_of(&place, 1, &["diff", "last", "story.json"]).contains("/improve"));
    let unknown = place.run(&["diff", "0123", "story.json"]);
    assert!(stderr_text(&unknown).contains("there is no file or workflow 0123"), "{}", stderr_text(&unknown));
}

#[test]
fn the_workflows_of_functions_are_compared() {
    let functions =
        "[functions.\"sub::order\"]\nworkflow = \"sub.json\"\n[functions.\"sub::price\"]\nworkflow = \"price.json\"\n";
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{functions}"));
    let list = |function: &str, prompt: &str| {
        let step = json!({"name": "s", "functionId": function, "mode": "sequential", "promptTemplate": prompt,
            "outputVar": "s", "errorMode": "fail"});
        json!({"id": "w", "name": "W", "steps": [step]}).to_string()
    };
    place.write("par.json", &list("sub::order", "x"));
    place.write("sub.json", &list("sub::price", "y"));
    place.write("price.json", &list("agent::chat", "Price"));
    stdout_of(&place, 0, &["run", "par.json"]);
    assert_eq!(stdout_of(&place, 0, &["diff", "last", "par.json"]), "the definitions mean the same\n");
    place.write("price.json", &list("agent::chat", "Cost"));
    let shown = stdout_of(&place, 1, &["diff", "last", "par.json"]);
    assert!(shown.contains("price.json, which sub::price runs") && shown.contains("+ Cost"), "{shown}");
    assert!(!shown.contains("sub.json"), "{shown}");
    let (exit, diff) = place.run_json(&["diff", "last", "par.json"]);
    assert_eq!((exit, &diff["same"], &diff["workflows"][0]["function"]), (1, &json!(false), &json!("sub::price")));
    assert_eq!(diff["workflows"][0]["diff"]["steps"][0]["b"], "/s", "{diff}");
}

#[test]
fn a_file_that_cannot_be_read_is_one_error() {
    let place = place_with_list();
    let commands: [&[&str]; 3] = [
        &["plan", "nothing.json"],
        &["diff", "nothing.json", "story.json"],
        &["convert", "nothing.json", "--to", "flow"],
    ];
    for command in commands {
        let output = place.run(command);
        let shown = stderr_text(&output);
        assert_eq!((exit_code(&output), shown.matches("error[").count()), (2, 1), "{command:?}: {shown}");
        assert!(shown.contains("error[FL0101]: there is no file nothing.json"), "{command:?}: {shown}");
    }
}

#[test]
fn versions_are_compared_by_meaning() {
    let place = place_with_list();
    let text = std::fs::read_to_string(place.path("story.json")).expect("there");
    std::fs::remove_file(place.path("story.json")).expect("removed");
    let server = RunningServer::start(&place, &[]);
    let put = |text: &str| {
        let headers = ["Content-Type: application/json"];
        let stored = server.send_and_read("PUT", "/api/v1/workflows/story", &headers, text);
        assert!((200..300).contains(&stored.status), "{}", stored.body);
    };
    put(&text);
    put(&text.replace("Improve:", "Better:"));
    let diff = |a: Value, b: Value| server.post("/api/v1/diff", &json!({"a": a, "b": b}));
    let version = |number: u32| json!({"workflow": "story", "version": number});
    let found = diff(version(1), version(2)).json();
    assert_eq!((found["same"].as_bool(), found["steps"].as_array().map(Vec::len)), (Some(false), Some(1)), "{found}");
    assert_eq!((&found["steps"][0]["b"], &found["steps"][0]["changes"]), (&json!("/improve"), &json!(["changed"])));
    assert_eq!(diff(version(2), json!({"workflow": "story"})).json()["same"], true, "the newest is the current one");
    let source = json!({"source": {"entry": "story.json", "files": {"story.json": text}}});
    assert_eq!(diff(source.clone(), version(1)).json()["same"], true);
    let missing = diff(version(9), version(1));
    assert_eq!(missing.status, 404);
    assert!(
        missing.body.contains("there is no version 9 of the workflow story; it has the versions 1, 2"),
        "{}",
        missing.body
    );
    assert_eq!(diff(json!({"workflow": "none"}), version(1)).status, 404);
    assert_eq!(diff(json!({}), version(1)).status, 400);
    let flow = |active: bool| {
        let text = json!({"name": "f", "description": "d", "active": active, "steps": []}).to_string();
        json!({"source": {"entry": "f.json", "files": {"f.json": text}}})
    };
    let found = diff(flow(true), flow(false)).json();
    assert_eq!((&found["same"], &found["fields"][0]["name"]), (&json!(false), &json!("active")), "{found}");
    assert_eq!(diff(flow(false), flow(false)).json()["same"], true);
    let broken = json!({"source": {"entry": "story.json", "files": {"story.json": "{\"steps\": 1}"}}});
    assert_eq!(diff(broken, version(1)).status, 422);
    drop(server);

    let shown = stdout_of(&place, 1, &["diff", "story@1", "story@2"]);
    assert!(shown.contains("Better:") && shown.contains("/improve"), "{shown}");
    stdout_of(&place, 0, &["diff", "story@2", "story@2"]);
    place.write("other.json", &text);
    stdout_of(&place, 0, &["diff", "story@1", "other.json"]);
    let missing = place.run(&["diff", "story@1", "story@7"]);
    assert_eq!(exit_code(&missing), 2, "{}", stderr_text(&missing));
    assert!(stderr_text(&missing).contains("it has the versions 1, 2"), "{}", stderr_text(&missing));
}

/// Each of these changes what a run does.
#[test]
fn definitions_that_do_different_things_differ() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let markdown =
        |value: u8| format!("---\ndata:\n  k: {value}\n---\n\nHi {{k}}\n\n<GenText as=\"t\" model=\"\" />\n");
    let flow = |kind: &str| {
        let call = json!({"url": "http://a.example/", "method": "POST", "bodyType": kind, "body": "{}"});
        json!({"name": "F", "description": "d", "steps": [{"type": "apiCall", "config": call}]}).to_string()
    };
    let agent = |choice: &str| {
        json!({"agentId": "a", "systemPrompt": "Help", "tools": ["tool::web_fetch"], "toolChoice": choice}).to_string()
    };
    for (a, b, extension) in [
        (markdown(1), markdown(2), "mdx"),
        (flow("json"), flow("text"), "json"),
        (agent("auto"), agent("required"), "json"),
    ] {
        let (first, second) = (format!("a.{extension}"), format!("b.{extension}"));
        place.write(&first, &a);
        place.write(&second, &b);
        stdout_of(&place, 1, &["diff", &first, &second]);
    }
}

#[test]
fn the_end_of_a_flow_is_a_difference() {
    let place = Workspace::new("");
    let step = |name: &str| json!({"type": "llmInstruction", "config": {"instruction": name, "resultVariable": name}});
    let flow = |steps: &[Value]| json!({"name": "f", "description": "d", "steps": steps}).to_string();
    let mut last = step("one");
    place.write("a.json", &flow(&[last.clone(), step("two")]));
    last["config"]["directOutput"] = true.into();
    place.write("b.json", &flow(&[last, step("two")]));
    let text = stdout_of(&place, 1, &["diff", "a.json", "b.json"]);
    assert!(text.contains("the workflow ends with this output"), "{text}");
    let (_, diff) = place.run_json(&["diff", "a.json", "b.json"]);
    assert_eq!(diff["steps"][0]["changes"], json!(["changed"]), "{diff}");
}

#[test]
fn a_fork_of_a_fork_keeps_the_variables_that_were_set() {
    let place = place_with_list();
    stdout_of(&place, 0, &["run", "story.json", "-i", "input=lamps"]);
    let (_, set) = place.run_json(&["fork", "last", "--at", "improve", "--set", "draft=mine"]);
    let fork = |at: &str| place.run_json(&["fork", set["run_id"].as_str().expect("an id"), "--at", at]).1;
    assert_eq!(fork("/title")["output"], "LLM(Title: LLM(Improve: mine))");
    assert_eq!(fork("/draft")["output"], "LLM(Title: LLM(Improve: LLM(Draft: lamps)))");
}

fn count_reused(run: &Value) -> usize {
    run["steps"].as_array().expect("steps").iter().filter(|step| step["reused"] == true).count()
}

/// A pipeline fails as a whole when one of its nodes does.
#[test]
fn a_fork_of_a_failed_pipeline_performs_only_what_failed() {
    let place = Workspace::new("default_model = \"scripted:answers.json\"\n");
    place.write("answers.json", r#"{"match": [], "default": {"json": {"t": "fine"}}}"#);
    let object = json!({"type": "object", "properties": {"x": {}}});
    let block = |id: &str, more: Value| {
        let mut block = json!({"id": id, "name": id, "description": "d", "input_schema": object,
            "output_schema": {"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]}});
        for (key, value) in more.as_object().expect("an object") {
            block[key] = value.clone();
        }
        block
    };
    let fails = "def execute(inputs, context):\n    raise ValueError('boom')\n";
    let blocks = [
        block("asks", json!({"execution_type": "llm", "prompt_template": "Say {x}"})),
        block("fails", json!({"execution_type": "python", "source_code": fails})),
    ];
    let node = |id: &str, block: &str, input: &str| json!({"id": id, "block_id": block, "inputs": {"x": input}});
    let nodes = [node("n0", "asks", "a"), node("n1", "asks", "b"), node("n2", "fails", "{{n0.t}} {{n1.t}}")];
    place.write("side.json", &json!({"id": "side", "name": "Side", "blocks": blocks, "nodes": nodes}).to_string());
    let (exit, run) = place.run_json(&["run", "side.json"]);
    assert_eq!((exit, &run["status"]), (1, &json!("failed")), "{run}");
    for more in [&[][..], &["--yes"]] {
        let (_, fork) = place.run_json(&[&["fork", run["run_id"].as_str().expect("an id")], more].concat());
        let (_, shown) = place.run_json(&["show", fork["run_id"].as_str().unwrap_or_else(|| panic!("{fork}"))]);
        // The nodes that asked, and the facts about the user.
        assert_eq!((count_reused(&shown), &shown["status"]), (4, &json!("failed")), "{shown}");
    }
}

#[test]
fn a_flow_that_is_switched_off_differs() {
    let place = Workspace::new("");
    let flow = json!({"name": "a", "steps": [{"type": "llmInstruction", "config": {"instruction": "Hi"}}]});
    let mut off = flow.clone();
    off["active"] = false.into();
    place.write("on.json", &flow.to_string());
    place.write("off.json", &off.to_string());
    let shown = place.run(&["diff", "on.json", "off.json"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(exit_code(&shown) == 1 && text.contains("active"), "{text}");
    assert_eq!(exit_code(&place.run(&["diff", "off.json", "off.json"])), 0);
}

#[test]
fn a_definition_without_a_name_means_the_same_in_a_copy() {
    let place = Workspace::new("");
    let text = "Say hello.\n\n<GenText as=\"greeting\" model=\"\" />\n";
    place.write("greet.mdx", text);
    place.write("copy.mdx", text);
    place.write("named.mdx", &format!("# Greet\n\n{text}"));
    let compared = place.run(&["diff", "greet.mdx", "copy.mdx"]);
    assert_eq!(exit_code(&compared), 0, "{}", String::from_utf8_lossy(&compared.stdout));
    assert_eq!(exit_code(&place.run(&["diff", "greet.mdx", "named.mdx"])), 1);
    // A name is the same in a copy, even if it happens to be that of the file.
    let named = r#"{"name": "same", "description": "d", "steps": []}"#;
    place.write("same.json", named);
    place.write("other.json", named);
    let compared = place.run(&["diff", "same.json", "other.json"]);
    assert_eq!(exit_code(&compared), 0, "{}", String::from_utf8_lossy(&compared.stdout));
}
