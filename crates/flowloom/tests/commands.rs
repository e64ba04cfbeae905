//! The commands as users run them: outputs, exit codes, invalid input.

mod support;

use serde_json::{Value, json};
use support::{TestServer, Workspace, exit_code, stderr_text};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

fn steps_json(list: &str) -> String {
    format!(r#"{{"name": "W", "description": "d", "steps": [{list}]}}"#)
}

fn step_json(name: &str, function: &str, mode: &str, more: &str) -> String {
    format!(
        r#"{{"name": "{name}", "functionId": "{function}", "mode": "{mode}", "timeoutMs": 60000, "errorMode": "fail"{more}}}"#
    )
}

#[test]
fn data_on_stdout_and_everything_else_on_stderr() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write(
        "w.json",
        &steps_json(&step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "Hi {{input}}""#)),
    );
    place.write("in.txt", "there\n");
    let output = place.run(&["run", "w.json", "--input", "in.txt"]);
    assert_eq!((exit_code(&output), String::from_utf8_lossy(&output.stdout).as_ref()), (0, "LLM(Hi there)\n"));
    assert!(stderr_text(&output).contains("✓ /say  scripted:echo"), "{}", stderr_text(&output));
    let events = place.run(&["run", "w.json", "-i", "a=b", "--events"]);
    let lines: Vec<Value> = String::from_utf8_lossy(&events.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("one event a line"))
        .collect();
    assert_eq!(lines[0]["event"], "run_created");
    assert_eq!(lines.last().expect("events")["event"], "run_finished");
    let both = place.run(&["run", "w.json", "-i", "a=b", "--events", "--json"]);
    let both = String::from_utf8_lossy(&both.stdout).into_owned();
    let last: Value = serde_json::from_str(both.lines().last().expect("lines")).expect("the result on one line");
    assert_eq!(last["status"], "succeeded");
}

/// A graph with one agent, which has the id `a`.
fn one_agent_graph(agent: &Value) -> Value {
    json!({"id": "g", "name": "g", "entrypointNodeId": "n", "agents": [agent], "edges": [],
        "nodes": [{"id": "n", "nodeType": "AGENT", "nodeName": "N", "agentId": "a"}]})
}

#[test]
fn every_end_has_its_exit_code_and_one_object() {
    let place = Workspace::new(ECHO_CONFIG);
    let chat = step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "Hi""#);
    place.write("ok.json", &steps_json(&chat));
    place.write(
        "ask.json",
        &steps_json(&step_json("ask", "human::ask", "sequential", r#", "promptTemplate": "Really?""#)),
    );
    place.write("bad.json", "{\"name\": ");
    let cases: [(&[&str], i32, &str); 5] = [
        (&["run", "ok.json"], 0, "succeeded"),
        (&["run", "ok.json", "--model", "scripted:/nowhere.json"], 1, "failed"),
        (&["run", "bad.json"], 2, "failed"),
        (&["run", "ask.json"], 4, "waiting"),
        (&["run", "ok.json", "--budget", "tokens=1"], 5, "budget_exceeded"),
    ];
    for (arguments, code, status) in cases {
        let (exit, result) = place.run_json(arguments);
        assert_eq!((exit, result["status"].as_str()), (code, Some(status)), "{arguments:?}: {result}");
        for key in ["run_id", "format", "status", "output", "result", "error", "usage"] {
            assert!(result.get(key).is_some(), "{arguments:?}: the result has no {key}");
        }
    }
}

#[test]
fn a_person_answers_and_the_run_continues() {
    let place = Workspace::new(ECHO_CONFIG);
    let ask = step_json("ask", "human::ask", "sequential", r#", "promptTemplate": "Really?", "outputVar": "answer""#);
    let chat = step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "They said {{answer}}""#);
    place.write("ask.json", &steps_json(&format!("{ask},{chat}")));
    assert_eq!(exit_code(&place.run(&["run", "ask.json"])), 4);
    let (code, result) = place.run_json(&["answer", "last", "yes"]);
    assert_eq!((code, &result["output"]), (0, &"LLM(They said yes)".into()), "{result}");
    let again = place.run(&["answer", "last", "no"]);
    assert_eq!(exit_code(&again), 2, "an answer is accepted once");
}

#[test]
fn a_run_has_a_time_limit() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", server.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&server, "GET", "/slow"));
    let (code, result) = place.run_json(&["run", "flow.json", "--budget", "time=300ms"]);
    assert_eq!((code, result["error"]["code"].as_str()), (124, Some("FL1106")), "{result}");
    server.release_slow();
}

#[test]
fn bad_definitions_are_refused_with_code_and_place() {
    let place = Workspace::new("");
    let deep = "[".repeat(100_000);
    let large = " ".repeat(5 << 20);
    let unknown = steps_json(&step_json("a", "agent::chatt", "sequential", ""));
    let cases: [(&str, &[u8], &str); 12] = [
        ("empty.json", b"", "FL0103"),
        ("utf8.json", b"{\"name\": \"\xff\"}", "FL0102"),
        ("cut.json", b"{\"name\": \"x\", \"steps\": [", "FL0106"),
        ("syntax.json", b"{\"name\": nope}", "FL0105"),
        ("deep.json", deep.as_bytes(), "FL0107"),
        ("large.json", large.as_bytes(), "FL0104"),
        ("other.json", b"{\"hello\": 1}", "FL0109"),
        ("block.json", b"{\"name\":\"x\",\"steps\":[{\"type\":\"apiCal\",\"config\":{}}]}", "FL0201"),
        ("config.json", b"{\"name\":\"x\",\"steps\":[{\"type\":\"llmInstruction\"}]}", "FL0210"),
        ("kind.json", b"{\"name\":\"x\",\"steps\":{\"type\":\"start\"}}", "FL0110"),
        ("function.json", unknown.as_bytes(), "FL0301"),
        (
            "secret.json",
            b"{\"name\":\"x\",\"steps\":[{\"type\":\"llmInstruction\",\"config\":{\"instruction\":\"${secret.K}\"}}]}",
            "FL0113",
        ),
    ];
    for (name, bytes, code) in cases {
        std::fs::write(place.path(name), bytes).expect("written");
        let checked = place.run(&["check", name, "--report", "json"]);
        let problems: Value = serde_json::from_slice(&checked.stdout).expect("a list");
        let codes: Vec<_> = problems.as_array().expect("a list").iter().map(|p| p["code"].clone()).collect();
        assert!(codes.contains(&code.into()), "{name}: {codes:?}");
        assert_eq!(exit_code(&checked), 2, "{name}");
        let run = place.run(&["run", name]);
        assert_eq!(exit_code(&run), 2, "{name}: {}", stderr_text(&run));
        assert!(stderr_text(&run).contains(code), "{name}: {}", stderr_text(&run));
    }
    let missing = place.run(&["run", "nowhere.json"]);
    assert_eq!((exit_code(&missing), stderr_text(&missing).contains("FL0101")), (2, true));
}

#[test]
fn fixes_give_a_file_that_is_fine() {
    let place = Workspace::new("");
    let flow = r#"{"name":"x","description":"d","steps":[
  {"type":"start","config":{"variables":[{"name":"who","value":"Ann"}]}},
  {"type":"apiCall","config":{"url":"http://example.test/","method":"post","body":"{}","bodyType":"json",
    "headers":[{"name":"Accept","value":"*/*"}],"responseVariable":"r"}},
  {"type":"llmInstruct","config":{"instruction":"Hi {{who}}","resultVariable":"a","directOutput":"true"}},
  {"type":"finish","config":{}}
]}"#;
    place.write("flow.json", flow);
    assert_eq!(exit_code(&place.run(&["check", "flow.json"])), 2);
    let fixed = place.run(&["check", "flow.json", "--fix"]);
    assert_eq!(exit_code(&fixed), 0, "{}", stderr_text(&fixed));
    let text = std::fs::read_to_string(place.path("flow.json")).expect("readable");
    for expected in ["Hi ${who}", "\"key\":\"Accept\"", "\"llmInstruction\"", "\"directOutput\":true", "\"post\""] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert!(!text.contains("finish"), "{text}");
}

#[test]
fn what_is_included_is_checked_where_it_is_included() {
    let place = Workspace::new("");
    let house = "Be kind to {audience}.\n";
    std::fs::create_dir(place.path("prompts")).expect("created");
    place.write("house.mdx", house);
    place.write("prompts/tone.mdx", house);
    let text = "---\ninput:\n  audience: {type: text}\n---\n\n{include('house')} {include('tone')}\n\n\
                <GenText as=\"t\" model=\"scripted:echo\" />\n";
    place.write("a.mdx", text);
    let checked = place.run(&["check", "--fix", "."]);
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "a.mdx (markdown): ok\n", "{}", stderr_text(&checked));
    assert_eq!(std::fs::read_to_string(place.path("house.mdx")).expect("there"), house);
    let listed = place.run_json(&["list"]).1;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    // Its problems are those of the definition that includes it.
    place.write("house.mdx", "Be kind to {nobody}.\n");
    let broken = place.run(&["check", "."]);
    assert_eq!(exit_code(&broken), 2);
    assert!(stderr_text(&broken).contains("nobody is not known here"), "{}", stderr_text(&broken));
}

#[test]
fn fixes_change_and_declare_no_names() {
    let place = Workspace::new("");
    let action = "\n\n<GenText as=\"t\" model=\"scripted:echo\" />\n";
    let texts = [
        format!("---\ninput:\n  q: {{type: text}}\n  b: {{type: text}}\n---\n\nCompare {{c}} with {{b}}.{action}"),
        format!("Write {{topik}} about {{topic}}.{action}"),
        format!("---\ninput:\n  topic: {{type: text}}\n---\n\nWrite about {{topik}}.{action}"),
    ];
    for text in texts {
        let file = place.write("w.mdx", &text);
        let output = place.run(&["check", "--fix", "w.mdx"]);
        assert_eq!(exit_code(&output), 2, "{}", stderr_text(&output));
        assert_eq!(std::fs::read_to_string(file).expect("there"), text);
    }
    assert!(stderr_text(&place.run(&["check", "w.mdx"])).contains("did you mean topic?"));
}

#[test]
fn models_that_cannot_answer_report_why() {
    let place = Workspace::new("");
    place.write("w.json", &steps_json(&step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "Hi""#)));
    let cases = [
        (&[][..], "FL1013"),
        (&["--model", "openai:gpt-4o"][..], "FL1012"),
        (&["--model", "opnai:gpt-4o"][..], "FL1011"),
        (&["--model", "local:nothing"][..], "FL1016"),
    ];
    for (arguments, code) in cases {
        let (exit, result) = place.run_json(&[&["run", "w.json"], arguments].concat());
        assert_eq!((exit, result["error"]["code"].as_str()), (1, Some(code)), "{arguments:?}: {result}");
    }
}

#[test]
fn a_workflow_can_create_and_run_workflows() {
    let place = Workspace::new(ECHO_CONFIG);
    let inner = step_json("s", "agent::chat", "sequential", r#", "promptTemplate": "in {{input}}""#);
    let inner = steps_json(&inner).replacen('{', r#"{"id": "inner", "#, 1);
    place.write("inner.json", &inner);
    let create = step_json("create", "workflow::create", "sequential", "");
    let run = step_json(
        "run",
        "workflow::run",
        "sequential",
        r#", "promptTemplate": "{\"workflowId\":\"inner\",\"input\":\"x\"}", "outputVar": "ran""#,
    );
    let runs = step_json(
        "runs",
        "workflow::runs",
        "sequential",
        r#", "promptTemplate": "{\"workflowId\":\"inner\"}", "outputVar": "history""#,
    );
    place.write("w.json", &steps_json(&create));
    let (code, result) = place.run_json(&["run", "w.json", "--input", "inner.json"]);
    assert_eq!(code, 0, "{result}");
    place.write("w.json", &steps_json(&run));
    let (code, result) = place.run_json(&["run", "w.json"]);
    assert_eq!((code, &result["result"]["vars"]["ran"]["vars"]["input"]), (0, &"LLM(in x)".into()), "{result}");
    place.write("w.json", &steps_json(&runs));
    let (code, result) = place.run_json(&["run", "w.json"]);
    assert_eq!((code, &result["result"]["vars"]["history"]["total"]), (0, &1.into()), "{result}");
}

#[test]
fn agents_may_do_what_they_are_granted() {
    let place = Workspace::new(&format!("{ECHO_CONFIG}[agents.reader]\ntools = [\"agent::\"]\n"));
    let chat = step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "Hi""#);
    place.write("chat.json", &steps_json(&chat));
    place.write(
        "more.json",
        &steps_json(&format!("{chat},{}", step_json("get", "memory::get", "sequential", r#", "promptTemplate": "k""#))),
    );
    assert_eq!(exit_code(&place.run(&["run", "chat.json", "--agent", "reader"])), 0);
    let denied = place.run(&["run", "more.json", "--agent", "reader"]);
    assert_eq!((exit_code(&denied), stderr_text(&denied).contains("Agent reader denied: memory::get")), (2, true));
    assert_eq!(place.run_json(&["runs"]).1.as_array().map(Vec::len), Some(1), "a rejected run is not stored");
}

#[test]
fn memory_is_kept_between_runs() {
    let place = Workspace::new(ECHO_CONFIG);
    let set = step_json("set", "memory::set", "sequential", r#", "promptTemplate": "{\"key\":\"k\",\"value\":[1,2]}""#);
    let get = step_json("get", "memory::get", "sequential", r#", "promptTemplate": "k", "outputVar": "kept""#);
    place.write("set.json", &steps_json(&set));
    place.write("get.json", &steps_json(&get));
    assert_eq!(exit_code(&place.run(&["run", "set.json"])), 0);
    assert_eq!(place.run_json(&["run", "get.json"]).1["result"]["vars"]["kept"], serde_json::json!([1, 2]));
    let (_, other) = place.run_json(&["run", "get.json", "--user", "someone-else"]);
    assert_eq!(other["result"]["vars"]["kept"], Value::Null);
}

#[test]
fn the_complete_example_of_the_seed_runs_as_it_stands() {
    let server = TestServer::start();
    let place =
        Workspace::new(&format!("{}[agents.agent-123]\ntools = [\"tool::\", \"agent::\"]\n", server.egress_config()));
    let script = r#"{"match": [{"contains": "Refine report", "answer": "The report is Approved"},
        {"contains": "Merge these analyses", "answer": "a report with low confidence"}], "default": "noted"}"#;
    let script = place.write("answers.json", script);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/seeds/steps/05.js");
    let url = format!("url=http://{}/article", server.address);
    let model = format!("scripted:{}", script.display());
    let (code, result) = place.run_json(&["run", file, "-i", &url, "--model", &model, "--agent", "agent-123"]);
    assert_eq!(code, 0, "{result}");
    assert_eq!(result["result"]["vars"]["final_report"], "The report is Approved");
    let names: Vec<_> =
        result["result"]["results"].as_array().expect("results").iter().map(|r| r["stepName"].clone()).collect();
    assert_eq!(names.len(), 7, "{names:?}");
    assert_eq!(server.request_count("/article"), 1);
}

#[test]
fn the_documented_configuration_is_one() {
    let page = include_str!("../../../docs/configuration.md");
    let (_, rest) = page.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let place = Workspace::new("");
    place.write("documented.toml", example);
    std::fs::write(place.path("order.json"), "{}").expect("written");
    let output = place.run(&["models", "list", "--config", "documented.toml"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
}

#[test]
fn an_imported_item_is_checked() {
    let place = Workspace::new("");
    let write_item = |name: &str, step: Value| {
        let flow = json!({"name": "f", "steps": [{"type": "start", "config": {"variables": []}}, step]});
        place.write(name, &json!({"item": {"name": "f", "flow": flow.to_string()}}).to_string());
    };
    write_item("file.json", json!({"type": "file", "config": {"operation": "read", "path": "a.txt"}}));
    let refused = place.run(&["import", "file.json", "--out", "flow.json"]);
    let printed = stderr_text(&refused);
    assert_eq!((exit_code(&refused), printed.contains("FL0201")), (2, true), "{printed}");
    assert!(!place.path("flow.json").exists());

    write_item(
        "good.json",
        json!({"type": "llmInstruction", "config": {"instruction": "${nme}", "resultVariable": "r"}}),
    );
    let warned = place.run(&["import", "good.json", "--out", "flow.json"]);
    let printed = stderr_text(&warned);
    assert_eq!((exit_code(&warned), printed.contains("warning[")), (0, true), "{printed}");
    assert_eq!(exit_code(&place.run(&["check", "flow.json"])), 0);
}

#[test]
fn numbers_arrive_as_they_are_written() {
    const ID: &str = "12345678901234567890";
    let place = Workspace::new(ECHO_CONFIG);
    let chat = step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "<{{input}}>""#);
    place.write("steps.json", &steps_json(&chat));
    place.write("in.json", ID);
    let step = format!(r#"{{"type": "llmInstruction", "config": {{"instruction": {{"id": {ID}, "big": 1E400}}}}}}"#);
    place.write("flow.json", &format!(r#"{{"name": "f", "description": "d", "steps": [{step}]}}"#));
    let data = "---\ndata:\n  id: 9007199254740993\n  more: [18446744073709551617, 0.1000000000000000055]\n---\n";
    let text = "{id} {more[0]} {more[1]} {9007199254740995}\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n";
    place.write("text.mdx", &format!("{data}{text}"));
    let cases: [(&[&str], &str); 3] = [
        (&["run", "steps.json", "--input", "in.json"], ID),
        (&["run", "flow.json"], &format!(r#""id":{ID},"big":1E400"#)),
        (&["run", "text.mdx"], "9007199254740993 18446744073709551617 0.1000000000000000055 9007199254740995"),
    ];
    for (arguments, part) in cases {
        let output = place.run(arguments);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains(part), "{arguments:?}: {printed}{}", stderr_text(&output));
    }
}

#[test]
fn programs_get_all_problems_of_a_definition() {
    let place = Workspace::new("");
    place.write(
        "broken.json",
        r#"{"name": "x", "steps": [{"type": "apiCall", "config": {"url": 5}}, {"type": "nothing"}]}"#,
    );
    let codes = |value: &Value| {
        let problems = value["problems"].as_array().expect("a list").clone();
        problems.into_iter().map(|problem| problem["code"].as_str().expect("a code").to_owned()).collect::<Vec<_>>()
    };
    let (exit, refused) = place.run_json(&["run", "broken.json"]);
    assert_eq!(
        (exit, &refused["status"], codes(&refused)),
        (2, &Value::from("failed"), vec!["FL0110".into(), "FL0201".into()])
    );
    let (exit, refused) = place.run_json(&["plan", "broken.json"]);
    assert_eq!((exit, codes(&refused)), (2, vec!["FL0110".into(), "FL0201".into()]), "{refused}");
    assert_eq!(refused["run_id"], Value::Null, "it is no run");
}

#[test]
fn a_pipeline_without_nodes_is_refused() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("pipeline.json", r#"{"id": "p", "name": "p", "nodes": [], "edges": []}"#);
    let refused = place.run(&["run", "pipeline.json"]);
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("error[FL0111]: this pipeline has no nodes"), "{}", stderr_text(&refused));
}

/// A key that is missing is found before the first step, whatever asks the model.
#[test]
fn a_model_of_an_agent_or_block_is_checked_before_the_run() {
    let place = Workspace::new(ECHO_CONFIG);
    let graph = one_agent_graph(&json!({"id": "a", "systemPrompt": "Help.", "model": "openai:gpt-4o"}));
    place.write("graph.json", &graph.to_string());
    let agent = json!({"name": "a", "systemPrompt": "Help.", "model": "openai:gpt-4o", "tools": []});
    place.write("agent.json", &agent.to_string());
    for file in ["graph.json", "agent.json"] {
        for arguments in [&["run", file, "-i", "message=hi"][..], &["chat", file, "-m", "hi"]] {
            let output = place.run(arguments);
            assert_eq!(exit_code(&output), 1, "{arguments:?}: {}", stderr_text(&output));
            assert!(stderr_text(&output).contains("error[FL1012]"), "{arguments:?}: {}", stderr_text(&output));
        }
    }
    assert_eq!(place.run_json(&["runs"]).1, json!([]));
    std::fs::create_dir_all(place.path("stored")).expect("created");
    let stored =
        steps_json(&step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "Hi", "model": "x""#));
    place.write("stored/kept.json", &stored.replacen('{', r#"{"id": "kept", "#, 1));
    assert_eq!(exit_code(&place.run(&["sync", "stored"])), 0);
    std::fs::remove_dir_all(place.path("stored")).expect("removed");
    let run = place.run(&["run", "kept", "--model", "openai:gpt-4o"]);
    assert!(stderr_text(&run).contains("error[FL1012]"), "{}", stderr_text(&run));
    assert_eq!(place.run_json(&["runs"]).1, json!([]));
}

/// `check` finds what would be refused when the agent runs.
#[test]
fn unknown_tools_are_found_by_check() {
    let place = Workspace::new(ECHO_CONFIG);
    let tool =
        json!({"name": "stock", "functionId": "stok::count", "description": "d", "parameters": {"type": "object"}});
    let graph = one_agent_graph(&json!({"id": "a", "systemPrompt": "Help.", "tools": [tool]}));
    place.write("graph.json", &graph.to_string());
    place.write("agent.json", r#"{"name": "a", "systemPrompt": "Help.", "tools": ["nothing"]}"#);
    for (file, part) in
        [("graph.json", "there is no function stok::count"), ("agent.json", "no tool or workflow nothing")]
    {
        let output = place.run(&["check", file]);
        let printed = stderr_text(&output);
        assert!(
            exit_code(&output) == 2 && printed.contains("error[FL0618]") && printed.contains(part),
            "{file}: {printed}"
        );
    }
}

#[test]
fn unknown_inputs_are_not_ignored() {
    let place = Workspace::new(ECHO_CONFIG);
    let chat = step_json("say", "agent::chat", "sequential", r#", "promptTemplate": "Hi {{input}}""#);
    place.write("steps.json", &steps_json(&chat));
    let poem = "---\ninput:\n  topic: {type: text, default: cats}\n---\n\n{topic}\n\n";
    place.write("poem.mdx", &format!("{poem}<GenText as=\"a\" model=\"scripted:echo\" />\n"));
    place.write(
        "pipeline.json",
        r#"{"id": "p", "name": "p", "nodes": [{"id": "n", "block_id": "memory_read", "inputs": {"key": "k"}}]}"#,
    );
    let start = r#"{"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}}"#;
    let ask = r#"{"type": "llmInstruction", "config": {"instruction": "${city} ${day}"}}"#;
    place.write("flow.json", &format!(r#"{{"name": "f", "description": "d", "steps": [{start}, {ask}]}}"#));
    place.write(
        "needs.mdx",
        "---\ninput:\n  topic: {type: text, message: Which?}\n---\n\n{topic}\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n",
    );
    let graph = one_agent_graph(&json!({"id": "a", "systemPrompt": "Help."}));
    place.write("graph.json", &graph.to_string());
    let cases: [(&[&str], i32, &str); 12] = [
        (&["run", "steps.json"], 2, "there is no input, or it is empty; give one with -i input="),
        (&["run", "steps.json", "-i", "input= "], 2, "there is no input, or it is empty"),
        (&["run", "steps.json", "-i", "inptu=1"], 2, "there is no input inptu; did you mean input?"),
        (&["run", "graph.json", "-i", "mesage=hi"], 2, "there is no input mesage; did you mean message?"),
        (&["run", "graph.json", "-i", "message=hi", "-i", "foo=1"], 2, "there is no input foo; the inputs of a"),
        (&["run", "graph.json", "-i", "message="], 2, "there is no message to answer"),
        (&["run", "needs.mdx", "-i", "topic="], 2, "the input topic is required"),
        (&["run", "poem.mdx", "-i", "topc=dogs"], 2, "there is no input topc; did you mean topic?"),
        (&["run", "pipeline.json", "-i", "text=abc"], 2, "there is no input text: this workflow takes none"),
        (&["run", "flow.json", "-i", "cty=Bergen"], 0, "warning: there is no input cty; did you mean city?"),
        (&["run", "flow.json", "-i", "day=Monday"], 0, "✓"),
        (&["run", "steps.json", "-i", "input=a lamp"], 0, "✓"),
    ];
    for (arguments, code, part) in cases {
        let output = place.run(arguments);
        let printed = stderr_text(&output);
        assert!(exit_code(&output) == code && printed.contains(part), "{arguments:?}: {printed}");
        assert_eq!(printed.contains("warning: "), part.contains("warning"), "{arguments:?}: {printed}");
    }
    let output = place.run(&["run", "steps.json", "-i", "input=a lamp"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "LLM(Hi a lamp)\n");
}

#[test]
fn a_budget_of_steps_ends_a_run_as_the_other_budgets_do() {
    let place = Workspace::with_hello("");
    for budget in ["steps=0", "tokens=1"] {
        let (code, run) = place.run_json(&["run", "hello.json", "-i", "input=x", "--budget", budget]);
        assert_eq!((code, &run["status"]), (5, &json!("budget_exceeded")), "{budget}: {run}");
    }
    let ask = json!({"type": "llmInstruction", "config": {"instruction": "Hi", "resultVariable": "out"}});
    place.write("flow.json", &json!({"name": "f", "description": "d", "steps": [ask]}).to_string());
    for budget in ["steps=0", "tokens=1"] {
        let (_, run) = place.run_json(&["run", "flow.json", "--budget", budget]);
        assert_eq!(run["result"]["success"], false, "{budget}: {run}");
    }
}

#[test]
fn a_row_without_a_value_keeps_its_place_among_the_variables() {
    let place = Workspace::new("");
    let rows = json!([{"name": "a"}, {"name": "b", "value": "B"}]);
    let start = json!({"type": "start", "config": {"variables": rows}});
    let ask = json!({"type": "llmInstruction", "config": {"instruction": "${a}-${b}", "resultVariable": "out"}});
    place.write("flow.json", &json!({"name": "f", "description": "d", "steps": [start, ask]}).to_string());
    let output = place.run(&["run", "flow.json", "--model", "scripted:echo", "--json"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.replace([' ', '\n'], "").contains(r#""variables":{"a":"","b":"B","out":"LLM(-B)"}"#), "{printed}");
}
