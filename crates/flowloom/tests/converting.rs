//! `flowloom convert` and `POST /api/v1/convert`: results, reports, refusals and exit codes.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

fn flow_text() -> String {
    json!({"name": "Report", "description": "Reports", "steps": [
        {"type": "start", "config": {"variables": [{"name": "city", "value": ""}]}},
        {"type": "apiCall", "config": {"url": "http://mock.local/", "method": "GET", "responseVariable": "sky"}},
        {"type": "llmInstruction", "config": {"instruction": "About ${city}: ${sky}", "resultVariable": "report"}},
    ]})
    .to_string()
}

fn stdout_text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_result_goes_to_stdout_and_its_report_to_stderr() {
    let place = Workspace::with_hello("");
    let converted = place.run(&["convert", "hello.json", "--to", "markdown"]);
    let expected = "---\ntitle: hello\nsystem: none\ninput:\n  input: {type: text}\n---\n\nd\n\n---\n\nSay {input}\n\n\
                    <GenText as=\"s\" model=\"\" options={{ temperature: null }} />\n";
    let printed = stderr_text(&converted);
    assert_eq!((exit_code(&converted), stdout_text(&converted).as_str()), (0, expected), "{printed}");
    assert!(
        printed.contains("warning[FL0123]: the input input is a string") && printed.contains("0 lost"),
        "{printed}"
    );
    let saved = place.write("hello.mdx", &stdout_text(&converted));
    let runs = [
        place.run(&["--json", "run", "hello.json", "--input", "hello.json"]),
        place.run(&["--json", "run", "hello.mdx", "-i", "input=x"]),
    ];
    assert!(saved.exists() && runs.iter().all(|run| exit_code(run) == 0), "{}", stderr_text(&runs[1]));
}

#[test]
fn a_step_list_in_javascript_becomes_json() {
    let place = Workspace::new("");
    let call = "// A workflow.\nimport { x } from 'y';\nconst r = await trigger('workflow::create', {\n  name: 'Hi', id: \"hi\", \
                steps: [{ name: 'a', functionId: 'agent::chat', mode: 'sequential', promptTemplate: `Say {{input}}`, },],\n});\n";
    place.write("hi.js", call);
    let converted = place.run(&["convert", "hi.js", "--to", "steps", "--out", "hi.json"]);
    assert_eq!(exit_code(&converted), 0, "{}", stderr_text(&converted));
    let text = std::fs::read_to_string(place.path("hi.json")).expect("written");
    let written: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(written["steps"][0]["promptTemplate"], json!("Say {{input}}"));
    assert_eq!(exit_code(&place.run(&["diff", "hi.js", "hi.json"])), 0);
    let copied = place.run(&["init", "new", "--from", "hi.js"]);
    assert!(
        stderr_text(&copied).contains("flowloom convert hi.js --to steps --out hi.json"),
        "{}",
        stderr_text(&copied)
    );
}

#[test]
fn only_the_first_definition_of_a_javascript_file_is_converted() {
    let place = Workspace::new("");
    let call = |name: &str| {
        format!(
            "trigger('workflow::create', {{name: '{name}', steps: [{{name: 'a', functionId: 'agent::chat', mode: 'sequential'}}]}});\n"
        )
    };
    place.write("two.js", &(call("A") + &call("B")));
    let checked = place.run(&["check", "two.js"]);
    assert_eq!(exit_code(&checked), 0);
    assert!(stderr_text(&checked).contains("warning[FL0307]"), "{}", stderr_text(&checked));
    for to in ["steps", "markdown"] {
        let refused = place.run(&["convert", "two.js", "--to", to, "--strict"]);
        let printed = stderr_text(&refused);
        assert!(
            exit_code(&refused) == 1 && printed.contains("a further definition") && printed.contains("two.js:2:9"),
            "{printed}"
        );
    }
}

#[test]
fn the_tables_of_a_graph_become_one_file() {
    let place = Workspace::new("");
    let tables = [
        ("workflow", "id,name,description,entrypoint_node_id,is_conversational\ng1,G,,n1,f\n"),
        ("workflow_node", "workflow_id,id,agent_id,node_type,node_name\ng1,n1,a1,AGENT,A\n"),
        ("workflow_edge", "id,workflow_id,source_node_id,target_node_id,condition_type,condition_value\n"),
    ];
    std::fs::create_dir(place.path("tables")).expect("a folder");
    for (name, text) in tables {
        place.write(&format!("tables/system_agent_{name}.csv"), text);
    }
    place.write("tables/system_agent.csv", "id,name,system_prompt\na1,A,You are A\n");
    let converted = place.run(&["convert", "tables", "--to", "graph", "--out", "graph.json", "--strict"]);
    assert_eq!(exit_code(&converted), 0, "{}", stderr_text(&converted));
    assert!(!stderr_text(&converted).contains("next to the result"), "{}", stderr_text(&converted));
    let compared = place.run(&["diff", "tables", "graph.json"]);
    assert_eq!(exit_code(&compared), 0, "{}{}", stdout_text(&compared), stderr_text(&compared));
}

#[test]
fn a_result_can_be_called_secret() {
    let place = Workspace::new("");
    let flow = json!({"name": "T", "steps": [
        {"type": "llmInstruction", "config": {"instruction": "A", "resultVariable": "secret"}},
        {"type": "llmInstruction", "config": {"instruction": "B ${secret}", "resultVariable": "r"}},
    ]});
    place.write("flow.json", &flow.to_string());
    let converted = place.run(&["convert", "flow.json", "--to", "pipeline"]);
    assert_eq!(exit_code(&converted), 0, "{}", stderr_text(&converted));
    assert!(stdout_text(&converted).contains("{{secret1.text}}"), "{}", stdout_text(&converted));
}

#[test]
fn losses_are_reported_at_their_place_and_refused_if_asked() {
    let place = Workspace::new("");
    place.write("flow.json", &flow_text());
    let converted = place.run(&["convert", "flow.json", "--to", "steps", "--out", "steps.jsonc"]);
    let printed = stderr_text(&converted);
    assert_eq!(exit_code(&converted), 0, "{printed}");
    assert!(
        printed.contains("warning[FL0124]: the request apiCall → sky") && printed.contains("flow.json:1:"),
        "{printed}"
    );
    let text = std::fs::read_to_string(place.path("steps.jsonc")).expect("it was written");
    assert!(text.contains("// Lost: the request apiCall → sky"), "{text}");
    assert_eq!(exit_code(&place.run(&["check", "steps.jsonc"])), 0);
    assert_eq!(exit_code(&place.run(&["fmt", "--check", "steps.jsonc"])), 0);
    let refused = place.run(&["convert", "flow.json", "--to", "steps", "--out", "none.json", "--strict"]);
    assert_eq!((exit_code(&refused), place.path("none.json").exists()), (1, false));
    assert!(stderr_text(&refused).contains("error[FL0124]"), "{}", stderr_text(&refused));
    let replaced = place.run(&["convert", "flow.json", "--to", "steps", "--out", "./flow.json"]);
    assert_eq!(exit_code(&replaced), 2, "{}", stderr_text(&replaced));
    assert!(stderr_text(&replaced).contains("is a file of the definition"), "{}", stderr_text(&replaced));
    assert_eq!(std::fs::read_to_string(place.path("flow.json")).expect("kept"), flow_text());
    let merged = place.run(&["convert", "flow.json", "--to", "agent", "--out", "agent.jsonc"]);
    let text = std::fs::read_to_string(place.path("agent.jsonc")).expect("it was written");
    assert!(exit_code(&merged) == 0 && text.contains("// Lost: the model call of llmInstruction → report"), "{text}");
    assert_eq!(exit_code(&place.run(&["check", "agent.jsonc"])), 0);
    let nothing = json!({"name": "Nothing", "description": "Does nothing", "steps": [
        {"type": "start", "config": {"variables": [{"name": "city", "value": ""}]}},
    ]});
    place.write("nothing.json", &nothing.to_string());
    let impossible = place.run(&["convert", "nothing.json", "--to", "agent"]);
    assert_eq!((exit_code(&impossible), stdout_text(&impossible).as_str()), (1, ""));
}

#[test]
fn a_result_is_written_only_where_it_can_be_read() {
    let place = Workspace::with_hello("");
    for (to, out, wanted) in [("markdown", "x.json", "x.mdx"), ("graph", "x.mdx", "x.json")] {
        let refused = place.run(&["convert", "hello.json", "--to", to, "--out", out]);
        assert_eq!((exit_code(&refused), place.path(out).exists()), (2, false), "{to}");
        assert!(stderr_text(&refused).contains(&format!("name it {wanted}")), "{}", stderr_text(&refused));
    }
}

#[test]
fn an_excerpt_shows_only_a_part_of_a_long_line() {
    let place = Workspace::new("");
    let step = |index: u32| {
        let config = json!({"url": format!("http://mock.local/{index}"), "responseVariable": format!("r{index}")});
        json!({"type": "apiCall", "config": config})
    };
    let text = json!({"name": "Long", "description": "d", "steps": (0..20).map(step).collect::<Vec<_>>()}).to_string();
    place.write("long.json", &text);
    let printed = stderr_text(&place.run(&["convert", "long.json", "--to", "steps"]));
    assert!(printed.lines().all(|line| line.chars().count() < 250), "{printed}");
    assert!(printed.contains("http://mock.local/7"), "{printed}");
}

#[test]
fn the_report_is_a_value_too() {
    let place = Workspace::new("");
    place.write("flow.json", &flow_text());
    let converted = place.run(&["--json", "convert", "flow.json", "--to", "steps"]);
    let report: Value = serde_json::from_slice(&converted.stdout).expect("JSON");
    assert_eq!((&report["format"], &report["to"]), (&json!("flow"), &json!("steps")));
    let fates = report["findings"].as_array().expect("findings").iter().map(|found| found["fate"].as_str());
    let count = |fate: &str| fates.clone().filter(|one| *one == Some(fate)).count();
    for fate in ["kept", "differently", "lost"] {
        assert_eq!(report[fate], count(fate), "{report}");
    }
    assert!(report["text"].as_str().is_some_and(|text| text.contains("agent::chat")), "{report}");
}

/// Kept constructs are counted by kind and listed, also the parts of a step that loses something.
#[test]
fn what_is_kept_is_reported_too() {
    let place = Workspace::new("");
    let step = |name: &str, mode: &str| {
        json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "errorMode": mode, "maxRetries": 2,
            "promptTemplate": format!("{name} {{{{input}}}}"), "outputVar": name})
    };
    let list =
        json!({"id": "x", "name": "X", "description": "d", "steps": [step("draft", "retry"), step("end", "fail")]});
    place.write("x.json", &list.to_string());
    let converted = place.run(&["convert", "x.json", "--to", "flow", "--verbose"]);
    let printed = stderr_text(&converted);
    assert_eq!(exit_code(&converted), 0, "{printed}");
    for line in ["kept: the text of draft  x.json:1:", "kept: the name draft of the result of draft  x.json:1:"] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(
        printed.contains("4 kept (1 name, 1 text, 1 result, 1 model call), 3 expressed differently, 1 lost"),
        "{printed}"
    );
    let silent = stderr_text(&place.run(&["convert", "x.json", "--to", "flow"]));
    assert!(silent.contains("4 kept (") && !silent.contains("kept: the text"), "{silent}");
    let (_, report) = place.run_json(&["convert", "x.json", "--to", "flow"]);
    assert_eq!(report["kept_by_kind"], json!({"name": 1, "text": 1, "result": 1, "model call": 1}), "{report}");
    let found = report["findings"].as_array().expect("findings").iter().find(|one| one["construct"] == "text");
    assert_eq!(found.map(|one| &one["fate"]), Some(&json!("kept")), "{report}");
}

#[test]
fn what_does_not_compile_is_refused_with_its_problems() {
    let place = Workspace::new("");
    place.write("broken.json", "{\"name\": \"a\", \"steps\": [{\"type\": \"none\", \"config\": {}}]}");
    let refused = place.run(&["convert", "broken.json", "--to", "steps"]);
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("error[FL0201]"), "{}", stderr_text(&refused));
    let unknown = place.run(&["convert", "broken.json", "--to", "yaml"]);
    assert_eq!(exit_code(&unknown), 2, "{}", stderr_text(&unknown));
}

#[test]
fn a_server_converts_without_storing() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let server = RunningServer::start(&place, &[]);
    let post = |body: Value| server.post("/api/v1/convert", &body);
    let converted = post(json!({"to": "steps", "source": flow_text()})).json();
    assert_eq!((&converted["format"], &converted["lost"]), (&json!("flow"), &json!(2)), "{converted}");
    let by_kind = converted["kept_by_kind"].as_object().expect("an object").values().filter_map(Value::as_u64);
    assert_eq!((Some(by_kind.sum()), converted["kept"] != 0), (converted["kept"].as_u64(), true), "{converted}");
    let text = converted["text"].as_str().expect("a result");
    // The request is a fan-out of its own, so the input is still there afterwards.
    assert!(text.contains("\"fanout\"") && text.contains("About {{input}}: {{sky.body}}"), "{text}");
    let lost = converted["findings"].as_array().expect("findings").iter().find(|found| found["fate"] == "lost");
    assert!(lost.is_some_and(|found| found["line"] == 1 && found["start"].as_u64() > Some(0)), "{converted}");
    let strict =
        post(json!({"to": "steps", "entry": "a.json", "files": {"a.json": flow_text()}, "strict": true})).json();
    assert_eq!((&strict["text"], &strict["problems"][0]["severity"]), (&Value::Null, &json!("warning")), "{strict}");
    let broken = post(json!({"to": "steps", "format": "flow", "source": "{"})).json();
    assert_eq!((&broken["text"], &broken["problems"][0]["code"]), (&Value::Null, &json!("FL0106")), "{broken}");
    for wrong in [json!({"to": "yaml", "source": "{}"}), json!({"to": "flow"}), json!({"to": "flow", "sauce": "{}"})] {
        assert_eq!(post(wrong).status, 400);
    }
    assert_eq!(server.get("/api/v1/workflows").json()["items"], json!([]));
}

#[test]
fn comments_stay_out_of_files_that_cannot_have_them() {
    let place = Workspace::new("");
    let text = "// top\n{\"id\": \"s\", \"name\": \"S\", /* a // b */ \"steps\": [{\"name\": \"a\", \"functionId\": \"agent::chat\",\n  \
                \"mode\": \"sequential\", \"promptTemplate\": \"See http://a.example\"}, ]}\n";
    place.write("c.jsonc", text);
    for (out, has_comments) in [("out.json", false), ("out.jsonc", true)] {
        let converted = place.run(&["convert", "c.jsonc", "--to", "steps", "--out", out]);
        let report = stderr_text(&converted);
        assert_eq!((exit_code(&converted), report.contains("1 lost")), (0, !has_comments), "{report}");
        let written = std::fs::read_to_string(place.path(out)).expect("written");
        assert_eq!(
            (written.contains("// top"), written.contains("http://a.example")),
            (has_comments, true),
            "{written}"
        );
        let checked = place.run(&["check", out]);
        assert_eq!(exit_code(&checked), 0, "{}", stderr_text(&checked));
    }
}

#[test]
fn files_are_replaced_only_if_that_is_asked_for() {
    let place = Workspace::with_hello("");
    let flow = json!({"name": "f", "description": "d", "steps": [{"type": "llmInstruction", "config": {"instruction": "hi"}}]});
    place.write("item.json", &json!({"item": {"name": "f", "flow": flow.to_string()}}).to_string());
    for arguments in [
        &["convert", "hello.json", "--to", "markdown", "--out", "out.mdx"][..],
        &["import", "item.json", "--out", "flow.json"],
    ] {
        let out = arguments.last().copied().unwrap_or_default();
        place.write(out, "mine");
        let refused = place.run(arguments);
        let printed = stderr_text(&refused);
        assert_eq!(exit_code(&refused), 2, "{printed}");
        assert!(printed.contains(&format!("{out} exists; use --force to replace it")), "{printed}");
        assert_eq!(std::fs::read_to_string(place.path(out)).expect("a file"), "mine");
        let forced = place.run(&[arguments, &["--force"]].concat());
        assert_eq!(exit_code(&forced), 0, "{}", stderr_text(&forced));
        assert!(stderr_text(&forced).contains(&format!("{out} written")), "{}", stderr_text(&forced));
        assert_eq!(exit_code(&place.run(&["fmt", "--check", out])), 0, "{out}");
    }
}

#[test]
fn a_pipeline_computes_the_length_of_an_answer() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let action = |name: &str| format!("<GenText as=\"{name}\" model=\"\" options={{{{ temperature: null }}}} />\n\n");
    place.write(
        "a.mdx",
        &format!(
            "---\nsystem: none\n---\n\nSay \u{1f600}.\n\n{}---\n\nIt has {{one.length}}, {{one[0]}}.\n\n{}",
            action("one"),
            action("two")
        ),
    );
    let converted = place.run(&["convert", "a.mdx", "--to", "pipeline", "--out", "p.json"]);
    let printed = stderr_text(&converted);
    assert_eq!(exit_code(&converted), 0, "{printed}");
    assert!(printed.contains("{one[0]}: a text has no parts here, so the reference is text"), "{printed}");
    assert!(!printed.contains("{one.length}"), "{printed}");
    let text = std::fs::read_to_string(place.path("p.json")).expect("written");
    assert!(text.contains(r#"str(len(inputs[\"one\"].encode(\"utf-16-le\")) // 2)"#), "{text}");
    assert!(!text.contains("{{one.text.length}}"), "{text}");
}
