//! Graphs and pipelines: handovers, tools, human answers, continued chats, profiles and memory, and drawings of every
//! example.

mod support;

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use support::{TestServer, Workspace, exit_code};

fn example_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn example_path_text(name: &str) -> String {
    example_path(name).to_str().expect("a path").to_owned()
}

fn write_script(place: &Workspace, answers: serde_json::Value) -> String {
    format!("scripted:{}", place.write("answers.json", &answers.to_string()).display())
}

fn route_to(to: &str) -> serde_json::Value {
    json!({"text": "", "tool_calls": [{"name": "router", "arguments": {"next_node": to}}]})
}

fn end_with(text: &str) -> serde_json::Value {
    json!({"text": text, "tool_calls": [{"name": "end", "arguments": {}}]})
}

#[test]
fn a_graph_hands_over_and_calls_its_tool() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("[tools]\nbase_url = \"http://{}\"\n", server.address));
    let lookup = json!({"text": "", "tool_calls": [{"name": "order_status", "arguments": {"order": "7"}}]});
    let model = write_script(&place, json!([route_to("Orders"), lookup, end_with("On its way.")]));
    let graph = example_path_text("graph/helpdesk.json");
    let (code, output) = place.run_json(&["run", &graph, "--model", &model, "-i", "message=Where is it?"]);
    assert_eq!((code, output["output"].as_str()), (0, Some("On its way.")), "{output}");
    assert_eq!(output["result"]["node_trace"], json!(["Triage", "Orders", "tool_executor", "Orders"]));
    assert_eq!(output["result"]["end_reason"], "END");
    assert_eq!(server.request_count("/orders/status"), 1);
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
    assert_eq!(server.request_count("/orders/status"), 1, "replay performs no effects");
}

#[test]
fn the_configuration_says_where_agents_and_their_tools_are() {
    let server = TestServer::start();
    let config = format!(
        "[tools]\nbase_url = \"http://{}\"\nforward_user = false\nheaders = {{ Authorization = \"Bearer ${{secret.SHOP}}\" }}\n\
         [agents.agent-uuid-desk]\nfolder = \"staff/desk\"\n",
        server.address
    );
    let place = Workspace::new(&config);
    std::fs::create_dir_all(place.path("staff/desk")).expect("a folder");
    place.write("staff/desk/systemPrompt.md", "You are the desk.");
    let tool =
        json!({"name": "find", "description": "Finds", "parameters": {"type": "object"}, "internalApiPath": "/find"});
    place.write("staff/desk/jsonSchema.json", &json!({"name": "desk", "tools": [tool]}).to_string());
    let graph = json!({"id": "g", "name": "G", "isConversational": true, "entrypointNodeId": "n1",
    "nodes": [
        {"id": "n1", "nodeType": "AGENT", "nodeName": "Desk", "agentId": "agent-uuid-desk"},
        {"id": "n2", "nodeType": "TOOL_EXECUTOR", "nodeName": "tool_executor", "agentId": null},
    ],
    "edges": [
        {"id": "e1", "sourceNodeId": "n1", "targetNodeId": "n2", "conditionType": "CONDITIONAL", "conditionValue": "tool_executor"},
        {"id": "e2", "sourceNodeId": "n1", "targetNodeId": null, "conditionType": "CONDITIONAL", "conditionValue": "END"},
    ]});
    place.write("g.json", &graph.to_string());
    let checked = place.run(&["check", "g.json"]);
    assert_eq!(exit_code(&checked), 0, "{}", support::stderr_text(&checked));
    assert!(!support::stderr_text(&checked).contains("FL0503"), "{}", support::stderr_text(&checked));
    let lookup = json!({"text": "", "tool_calls": [{"name": "find", "arguments": {"what": "lamp"}}]});
    let model = write_script(&place, json!([lookup, end_with("Found.")]));
    let arguments = ["run", "g.json", "--json", "--model", &model, "-i", "message=Where?"];
    let output = place.build_command(&arguments).env("FLOWLOOM_SECRET_SHOP", "s3cr3t-value").output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(exit_code(&output), 0, "{printed}");
    let head = server.last_head("/find").to_lowercase();
    assert!(head.contains("authorization: bearer s3cr3t-value") && !head.contains("x-user-id"), "{head}");
    assert!(!printed.contains("s3cr3t-value"));
    // The files that the run read are stored with it.
    std::fs::remove_dir_all(place.path("staff")).expect("gone");
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
}

#[test]
fn a_person_takes_over_and_the_conversation_continues() {
    let place = Workspace::new("");
    let model = write_script(&place, json!([route_to("human_handoff"), end_with("Glad to help.")]));
    let graph = example_path_text("graph/helpdesk.json");
    let (code, output) = place.run_json(&["run", &graph, "--model", &model, "-i", "message=I want to sue you"]);
    assert_eq!((code, output["result"]["end_reason"].as_str()), (4, Some("handoff")), "{output}");
    // A scripted list of answers starts from the beginning in each process.
    write_script(&place, json!([end_with("Glad to help.")]));
    let (code, output) = place.run_json(&["answer", "last", "Please tell them we call back"]);
    assert_eq!((code, output["output"].as_str()), (0, Some("Glad to help.")), "{output}");
    let printed: Vec<_> =
        output["result"]["messages"].as_array().expect("a list").iter().map(|m| &m["content"]).collect();
    assert_eq!(printed, ["I want to sue you", "Please tell them we call back", "Glad to help."]);
}

#[test]
fn a_chat_continues_where_it_ended() {
    let place = Workspace::new("");
    let model = write_script(&place, json!({"default": end_with("Yes?")}));
    let graph = example_path_text("graph/helpdesk.json");
    let talk = |printed: &str, more: &[&str]| {
        let arguments = [&["chat", &graph, "--model", &model], more].concat();
        let mut command = place.build_command(&arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        child.stdin.take().expect("open").write_all(printed.as_bytes()).expect("read");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(exit_code(&output), 0, "{}", support::stderr_text(&output));
        (String::from_utf8_lossy(&output.stdout).into_owned(), support::stderr_text(&output))
    };
    assert_eq!(talk("hello\nagain\n/exit\nnever\n", &[]).0, "Yes?\nYes?\n");
    assert!(talk("more\n", &[]).1.contains("continuing with 4 messages"));
    assert!(!talk("fresh\n", &["--new"]).1.contains("continuing"));
    let (lines, _) = talk("one\ntwo\n", &["--json"]);
    let answers: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a line is a value")).collect();
    assert_eq!(answers.iter().map(|answer| &answer["output"]).collect::<Vec<_>>(), ["Yes?", "Yes?"]);
}

/// Writes a graph whose agent has a tool without an executor.
fn write_graph_without_executor(place: &Workspace) {
    let node = |id: &str| json!({"id": id, "nodeName": id, "nodeType": "AGENT", "agentId": "a"});
    let edge = json!({"id": "e", "sourceNodeId": "n1", "targetNodeId": "n2", "conditionType": "ALWAYS"});
    let workflow = json!({"id": "w", "entrypointNodeId": "n1", "nodes": [node("n1"), node("n2")], "edges": [edge]});
    let agents = json!([{"id": "a", "tools": [{"name": "look"}]}]);
    place.write("graph.json", &json!({"workflow": workflow, "agents": agents}).to_string());
}

#[test]
fn a_call_that_nothing_runs_is_answered_before_the_conversation_continues() {
    let place = Workspace::new("");
    write_graph_without_executor(&place);
    let lookup =
        json!({"text": "", "tool_calls": [{"name": "look", "arguments": {}}, {"name": "look", "arguments": {}}]});
    let model = write_script(&place, json!([lookup, "Sorry."]));
    let (code, output) = place.run_json(&["run", "graph.json", "--model", &model, "-i", "message=hi"]);
    assert_eq!(code, 0, "{output}");
    let printed = output["result"]["messages"].as_array().expect("a list");
    let answers: Vec<_> = printed[2..4].iter().map(|message| (&message["role"], &message["tool_call_id"])).collect();
    let ids: Vec<_> = printed[1]["tool_calls"].as_array().expect("a list").iter().map(|call| &call["id"]).collect();
    assert_eq!(answers, [(&json!("tool"), ids[0]), (&json!("tool"), ids[1])]);
    let why = "Error: the tool look was not run: no edge leads from n1 to an executor of tools.";
    assert_eq!((&printed[2]["content"], &printed[4]["content"]), (&json!(why), &json!("Sorry.")));
}

#[test]
fn a_conversation_with_tool_calls_can_be_gone_on_with() {
    let place = Workspace::new("");
    write_graph_without_executor(&place);
    let model = write_script(&place, json!({"default": "Well."}));
    // The messages of an earlier run: one call with its result, and one that was still open when the run ended.
    let call = |id: &str| json!({"id": id, "name": "look", "args": {}});
    let asked = json!({"role": "assistant", "content": "", "tool_calls": [call("1"), call("2")]});
    let messages = json!([asked, {"role": "tool", "content": "7", "tool_call_id": "1"}]);
    let messages = format!("messages:={messages}");
    let (code, output) =
        place.run_json(&["run", "graph.json", "--model", &model, "-i", &messages, "-i", "message=and?"]);
    assert_eq!(code, 0, "{output}");
    let printed = output["result"]["messages"].as_array().expect("a list");
    let answered: Vec<_> = printed.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!((printed.len(), answered), (6, vec!["1", "2"]), "{output}");
    assert_eq!(printed[3]["content"], "and?");
}

#[test]
fn a_graph_without_an_end_stops_at_its_step_limit_and_says_why() {
    let place = Workspace::new("");
    let model = write_script(
        &place,
        json!({"match": [{"contains": "You explain refunds", "answer": route_to("Triage")}], "default": route_to("Refunds")}),
    );
    // If there is a human node, the conversation is handed over to it.
    let graph = example_path_text("graph/helpdesk.json");
    let (code, output) = place.run_json(&["run", &graph, "--model", &model, "-i", "message=money"]);
    assert_eq!((code, output["result"]["end_reason"].as_str()), (4, Some("handoff")), "{output}");
    assert_eq!(output["result"]["node_trace"].as_array().map(Vec::len), Some(15));

    let mut alone: serde_json::Value =
        serde_json::from_str(include_str!("../../../examples/graph/helpdesk.json")).expect("JSON");
    let is_person = |node: &serde_json::Value| node["nodeName"] == "human_handoff";
    let nodes = alone["nodes"].as_array_mut().expect("nodes");
    let people: Vec<_> = nodes.iter().filter(|node| is_person(node)).map(|node| node["id"].clone()).collect();
    nodes.retain(|node| !is_person(node));
    let edges = alone["edges"].as_array_mut().expect("edges");
    edges.retain(|edge| !people.contains(&edge["targetNodeId"]) && !people.contains(&edge["sourceNodeId"]));
    place.write("alone.json", &alone.to_string());
    for agent in ["triage", "orders", "refunds"] {
        std::fs::create_dir_all(place.path(&format!("agents/{agent}"))).expect("a folder");
        for file in ["jsonSchema.json", "systemPrompt.md"] {
            let name = format!("agents/{agent}/{file}");
            std::fs::copy(example_path_text(&format!("graph/{name}")), place.path(&name)).expect("copied");
        }
    }
    let (code, output) = place.run_json(&["run", "alone.json", "--model", &model, "-i", "message=money"]);
    assert_eq!((code, output["error"]["code"].as_str()), (1, Some("FL1102")), "{output}");
    assert_eq!(output["result"]["end_reason"], "step_limit");
    assert_eq!(output["result"]["node_trace"].as_array().map(Vec::len), Some(15));
    assert_eq!(output["result"]["oscillation"], json!(["Refunds", "Triage"]));
}

#[test]
fn a_pipeline_runs_blocks_with_the_users_profile_and_memory() {
    let place = Workspace::new("");
    let model = write_script(
        &place,
        json!({"match": [{"contains": "Which city", "answer": {"json": {"city": "Bergen"}}}], "default": {"json": {"short": "A clean hotel."}}}),
    );
    assert_eq!(exit_code(&place.run(&["user", "set", "name=Ada"])), 0);
    let pipeline = example_path_text("pipeline/analyse-review.json");
    let (code, output) = place.run_json(&["run", &pipeline, "--model", &model]);
    let report = "Ada: a review of Bergen, 25 words: A clean hotel.";
    assert_eq!((code, output["output"]["report"].as_str()), (0, Some(report)), "{output}");
    assert_eq!(output["result"]["memory"]["last_report"], report);
    assert_eq!(output["result"]["status"], "completed");
    let replayed = place.run(&["replay", "last"]);
    assert_eq!(exit_code(&replayed), 0, "{}", support::stderr_text(&replayed));
    // Values stored by one run are read by the next.
    place.write(
        "again.json",
        r#"{"id": "again", "nodes": [{"id": "n1", "block_id": "memory_read", "inputs": {"key": "last_report"}}]}"#,
    );
    let (_, output) = place.run_json(&["run", "again.json"]);
    assert_eq!(output["output"]["value"], report);
}

#[test]
fn a_failing_block_fails_the_run_and_skips_what_needs_it() {
    let place = Workspace::new("");
    let block = |id: &str, source: &str| json!({"id": id, "execution_type": "python", "source_code": source});
    let pipeline = json!({
        "blocks": [block("bad", "def execute(inputs, context):\n    return 1 / 0\n"), block("good", "def execute(i, c):\n    return {'x': 1}\n")],
        "pipeline": {"id": "p", "nodes": [
            {"id": "a", "block_id": "bad", "inputs": {}}, {"id": "b", "block_id": "good", "inputs": {}},
            {"id": "c", "block_id": "good", "inputs": {"x": "{{a.x}}"}},
        ]},
    });
    place.write("p.json", &pipeline.to_string());
    let (code, output) = place.run_json(&["run", "p.json"]);
    assert_eq!((code, output["error"]["code"].as_str()), (1, Some("FL1043")), "{output}");
    let results = &output["result"]["results"];
    assert!(results["a"]["error"].as_str().is_some_and(|error| error.contains("ZeroDivisionError")), "{results}");
    assert_eq!(results["b"], json!({"x": 1}));
    assert_eq!(results["c"]["error"], "Skipped: upstream node(s) a failed");
    assert_eq!(output["result"]["status"], "failed");
}

#[test]
fn every_example_can_be_drawn() {
    let place = Workspace::new("");
    let files =
        ["flow/weather-report.json", "steps/refine.json", "pipeline/analyse-review.json", "graph/helpdesk.json"];
    for file in files {
        for (format, start) in [("text", ""), ("mermaid", "flowchart"), ("dot", "digraph"), ("svg", "<svg")] {
            let output = place.run(&["graph", &example_path_text(file), "--format", format]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(exit_code(&output) == 0 && text.len() > 40 && text.starts_with(start), "{file} {format}: {text}");
        }
    }
}

#[test]
fn a_message_answers_the_turn_that_waits() {
    let place = Workspace::new("");
    let model = write_script(&place, json!([route_to("human_handoff"), end_with("Glad to help.")]));
    let graph = example_path_text("graph/helpdesk.json");
    let chat = |message: &str, more: &[&str]| {
        place.run(&[&["chat", &graph, "--model", &model, "-m", message, "--json"], more].concat())
    };
    assert_eq!(exit_code(&chat("I want to sue you", &[])), 4);
    // A scripted list of answers starts from the beginning in each process.
    write_script(&place, json!([end_with("Glad to help.")]));
    let answered = chat("We call back", &[]);
    assert_eq!(exit_code(&answered), 0, "{}", support::stderr_text(&answered));
    assert!(support::stderr_text(&answered).contains("the conversation waits for an answer: "));
    let output: serde_json::Value = serde_json::from_slice(&answered.stdout).expect("JSON");
    let texts: Vec<_> =
        output["result"]["messages"].as_array().expect("a list").iter().map(|m| &m["content"]).collect();
    assert_eq!(texts, ["I want to sue you", "We call back", "Glad to help."]);
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs.as_array().expect("a list").len(), 1, "{runs}");
}

#[test]
fn a_new_conversation_cancels_the_turn_that_waits() {
    let place = Workspace::new("");
    let model = write_script(&place, json!([route_to("human_handoff")]));
    let graph = example_path_text("graph/helpdesk.json");
    let chat = |message: &str, more: &[&str]| {
        place.run(&[&["chat", &graph, "--model", &model, "-m", message, "--json"], more].concat())
    };
    assert_eq!(exit_code(&chat("I want to sue you", &[])), 4);
    write_script(&place, json!([end_with("Hello.")]));
    let started = chat("hello", &["--new"]);
    assert_eq!(exit_code(&started), 0, "{}", support::stderr_text(&started));
    let (_, runs) = place.run_json(&["runs"]);
    let statuses: Vec<_> = runs.as_array().expect("a list").iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["succeeded", "cancelled"]);
    assert_eq!(exit_code(&chat("and more", &[])), 0);
}

/// Reads lines until one contains `text`.
fn read_until(lines: &mut impl Iterator<Item = std::io::Result<String>>, text: &str) {
    let found = lines.find_map(|line| line.expect("readable").contains(text).then_some(()));
    assert!(found.is_some(), "{text} is not printed");
}

fn read_lines(output: impl Read) -> impl Iterator<Item = std::io::Result<String>> {
    BufReader::new(output).lines()
}

#[test]
fn a_chat_sees_what_another_process_adds_to_the_conversation() {
    let place = Workspace::new("");
    let model = write_script(&place, json!([end_with("Hello.")]));
    let graph = example_path_text("graph/helpdesk.json");
    let mut command = place.build_command(&["chat", &graph, "--model", &model]);
    let mut chat =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (mut stdin, mut printed) = (chat.stdin.take().expect("piped"), read_lines(chat.stdout.take().expect("piped")));
    let mut notes = read_lines(chat.stderr.take().expect("piped"));
    writeln!(stdin, "hello").expect("written");
    read_until(&mut printed, "Hello.");
    write_script(&place, json!([route_to("human_handoff")]));
    let other = place.run(&["chat", &graph, "--model", &model, "-m", "I want to sue you"]);
    assert_eq!(exit_code(&other), 4, "{}", support::stderr_text(&other));
    write_script(&place, json!([end_with("Glad to help.")]));
    // The user has not seen the question, so this is no answer to it.
    writeln!(stdin, "and another thing").expect("written");
    read_until(&mut notes, "the conversation waits for an answer: ");
    read_until(&mut notes, "your message was not sent");
    writeln!(stdin, "We call back").expect("written");
    read_until(&mut printed, "Glad to help.");
    drop(stdin);
    assert!(chat.wait().expect("it ends").success());
    let (_, runs) = place.run_json(&["runs"]);
    let statuses: Vec<_> = runs.as_array().expect("a list").iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["succeeded", "succeeded"]);
    let (_, last) = place.run_json(&["show", "last"]);
    let messages = last["result"]["messages"].as_array().expect("a list");
    let texts: Vec<_> = messages.iter().map(|message| &message["content"]).collect();
    assert_eq!(texts, ["hello", "Hello.", "I want to sue you", "We call back", "Glad to help."]);
}
