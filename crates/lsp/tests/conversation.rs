//! Conversations with the language server in this process, message by message: many requests at the same time, messages
//! that cannot be read, questions right after a document is opened, renames that would change what a definition does.

#[path = "support/editor.rs"]
mod editor;

use std::path::Path;
use std::sync::Arc;

use editor::{Editor, STREAM_BYTES};
use flowloom_app::config::{Config, Overrides};
use flowloom_lsp::{ConversationEnd, LanguageServer, LoadConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A step list, whose input is read by a template.
const STEPS: &str = r#"{
  "id": "draft", "name": "Draft",
  "steps": [
    {"name": "first", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "Write {{input}}", "outputVar": "text"}
  ]
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_all_definitions_are_found_by_name() {
    let mut editor = Editor::start(json!({})).await;
    let folder = |name: &str| json!({"uri": editor.file_uri(name), "name": name});
    let (flows, others) = (folder("flows"), folder("others"));
    editor.write("flows/draft.json", STEPS);
    editor.write("flows/no-definition.json", "{\"first\": 1}");
    editor.write("others/text.mdx", "# First chapter\n\nHello.\n");
    let change = |added: &Value, removed: &Value| json!({"event": {"added": added, "removed": removed}});
    editor.send_notification("workspace/didChangeWorkspaceFolders", change(&json!([flows, others]), &json!([]))).await;
    let find = async |editor: &mut Editor, query: &str| {
        let found = editor.request_result("workspace/symbol", json!({"query": query})).await.expect("an answer");
        let describe = |one: &Value| format!("{} in {}", one["name"], one["containerName"]).replace('"', "");
        found.as_array().expect("a list").iter().map(describe).collect::<Vec<_>>()
    };
    assert_eq!(find(&mut editor, "frst").await, ["first in draft.json", "First chapter in text.mdx"]);
    // An open text counts, not its file.
    editor.open("flows/draft.json", &STEPS.replace("\"first\"", "\"opening\"")).await;
    editor.write("flows/draft.json", STEPS);
    editor.send_notification("workspace/didChangeWorkspaceFolders", change(&json!([]), &json!([others]))).await;
    assert_eq!(find(&mut editor, "").await, ["opening in draft.json"]);
    assert!(find(&mut editor, "first").await.is_empty());
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_requests_can_be_in_flight() {
    let mut editor = Editor::start(json!({})).await;
    let document = editor.open("draft.json", STEPS).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(editor.send_request("textDocument/documentSymbol", json!({"textDocument": document})).await);
    }
    let cancelled: Vec<i64> = ids.iter().copied().step_by(2).collect();
    for id in &cancelled {
        editor.send_notification("$/cancelRequest", json!({"id": id})).await;
    }
    for id in &ids {
        let is_answer = |message: &Value| message["id"] == *id && message.get("method").is_none();
        let position = editor.others.iter().position(is_answer);
        let answer = match position {
            Some(position) => editor.others.remove(position),
            None => editor.wait_for(is_answer).await,
        };
        // A cancelled one may have been answered before.
        let is_cancelled = cancelled.contains(id) && answer["error"]["code"] == -32800;
        assert!(is_cancelled || answer["result"].is_array(), "{answer}");
    }
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_with_its_streams_while_requests_are_in_flight() {
    let mut editor = Editor::start(json!({})).await;
    let document = editor.open("draft.json", STEPS).await;
    for _ in 0..50 {
        editor.send_request("textDocument/documentSymbol", json!({"textDocument": document})).await;
    }
    let Editor { server, input, output, .. } = editor;
    drop((input, output));
    assert_eq!(server.await.expect("it ends").expect("a conversation"), ConversationEnd::Regular);
}

/// An editor that reads no more answers is gone, although the stream of its messages may be open.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_when_nobody_reads_its_answers() {
    let mut editor = Editor::start(json!({})).await;
    let document = editor.open("draft.json", STEPS).await;
    let request = json!({"textDocument": document});
    let Editor { server, mut input, output, .. } = editor;
    drop(output);
    let message =
        json!({"jsonrpc": "2.0", "id": 9, "method": "textDocument/documentSymbol", "params": request}).to_string();
    let frame = format!("Content-Length: {}\r\n\r\n{message}", message.len());
    // Written until the server is gone.
    while input.write_all(frame.as_bytes()).await.is_ok() {}
    assert_eq!(server.await.expect("it ends").expect("a conversation"), ConversationEnd::Regular);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_without_shutdown_is_reported() {
    let mut editor = Editor::start(json!({})).await;
    editor.send_notification("exit", Value::Null).await;
    let end = editor.server.await.expect("it ends").expect("a conversation");
    assert_eq!(end, ConversationEnd::WithoutShutdown);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_with_the_process_of_the_editor() {
    let mut client = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let (mut input, server_input) = tokio::io::duplex(STREAM_BYTES);
    let (server_output, mut output) = tokio::io::duplex(STREAM_BYTES);
    let load_config: LoadConfig = Arc::new(|_: &Path| Config::load(Overrides::default()));
    let server = tokio::spawn(LanguageServer::new(load_config).serve(server_input, server_output));
    let params = json!({"processId": client.id(), "capabilities": {}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let frame = format!("Content-Length: {}\r\n\r\n{message}", message.len());
    input.write_all(frame.as_bytes()).await.expect("sent");
    let mut first = [0];
    output.read_exact(&mut first).await.expect("an answer");
    client.kill().expect("killed");
    client.wait().expect("it ends");
    // Both streams are still open.
    assert_eq!(server.await.expect("it ends").expect("a conversation"), ConversationEnd::Regular);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_read_is_answered() {
    let mut editor = Editor::start(json!({})).await;
    let cases = [
        ("{\"jsonrpc\": ", Value::Null, -32700),
        ("[]", Value::Null, -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "shutdown"}"#, Value::Null, -32600),
        (r#"{"id": 7, "method": "shutdown"}"#, json!(7), -32600),
        (r#"{"jsonrpc": "2.0", "id": "x", "method": 1}"#, json!("x"), -32600),
    ];
    for (content, id, code) in cases {
        editor.send(content).await;
        let answer = editor.wait_for(|message| message.get("error").is_some()).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{content}");
    }
    editor.input.write_all(b"Content-Length: many\r\n\r\n").await.expect("sent");
    let answer = editor.wait_for(|message| message.get("error").is_some()).await;
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_known_as_soon_as_it_is_open() {
    let methods = ["documentSymbol", "foldingRange", "semanticTokens/full", "formatting", "codeLens"];
    let mut editor = Editor::start(json!({})).await;
    let options = json!({"tabSize": 2, "insertSpaces": true});
    for method in methods {
        let document = editor.open(&format!("{}.json", method.replace('/', "-")), STEPS).await;
        let params = json!({"textDocument": document, "options": options});
        let answer = editor.request_result(&format!("textDocument/{method}"), params).await.expect("an answer");
        assert!(!answer.is_null() && answer != json!([]), "{method}: {answer}");
    }
    let document = editor.open("renamed.json", STEPS).await;
    let edit = editor.rename_text(&document, STEPS, "text\"}", "title").await.expect("an answer");
    assert!(edit["changes"].is_object(), "{edit}");
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_without_an_edit_is_read_again() {
    let refresh = json!({"refreshSupport": true});
    let workspace = json!({"semanticTokens": refresh, "inlayHint": refresh, "codeLens": refresh});
    let mut editor = Editor::start(json!({"workspace": workspace})).await;
    editor.open("draft.json", STEPS).await;
    editor.wait_for(|message| message["method"] == "textDocument/publishDiagnostics").await;
    let changes = json!([{"uri": editor.file_uri("flowloom.toml"), "type": 2}]);
    editor.send_notification("workspace/didChangeWatchedFiles", json!({"changes": changes})).await;
    editor.wait_for(|message| message["method"] == "workspace/semanticTokens/refresh").await;
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_definition_is_reported_as_soon_as_it_is_open() {
    let mut editor = Editor::start(json!({})).await;
    let published = |message: &Value| message["method"] == "textDocument/publishDiagnostics";
    let broken = STEPS.replace("draft\",", "draft");
    editor.open("broken.json", &broken).await;
    let found = editor.wait_for(published).await;
    assert_eq!(found["params"]["diagnostics"][0]["code"], "FL0105", "{found}");
    // Other broken JSON is none of ours.
    editor.open("package.json", r#"{"name": "x", "scripts": {},,}"#).await;
    let found = editor.wait_for(published).await;
    assert_eq!(found["params"]["diagnostics"], json!([]));
    editor.open("misspelt.json", &STEPS.replace("\"steps\"", "\"step\"")).await;
    let found = editor.wait_for(published).await;
    assert_eq!(found["params"]["diagnostics"][0]["code"], "FL0111", "{found}");
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_saved_yet_has_the_files_beside_it() {
    let mut editor = Editor::start(json!({})).await;
    editor.write("inc.md", "Be brief.\n");
    let text = "{include(\"inc.md\")}\n\n<GenText as=\"x\" model=\"scripted:echo\" />\n";
    let document = json!({"uri": editor.file_uri("new.mdx"), "languageId": "mdx", "version": 1, "text": text});
    editor.send_notification("textDocument/didOpen", json!({"textDocument": document})).await;
    let found = editor.wait_for(|message| message["method"] == "textDocument/publishDiagnostics").await;
    assert_eq!(found["params"]["diagnostics"], json!([]), "{found}");
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_configuration_is_reported_in_its_own_file() {
    let mut editor = Editor::start(json!({})).await;
    editor.write("flowloom.toml", "default_model = \"scripted:echo\"\n[limits\nsteps = 1\n");
    editor.open("draft.json", STEPS).await;
    let uri = editor.file_uri("flowloom.toml");
    let found = editor.wait_for(|message| message["params"]["uri"] == uri.as_str()).await;
    let problem = &found["params"]["diagnostics"][0];
    assert_eq!(problem["range"]["start"]["line"], 1, "{found}");
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_is_of_the_version_that_it_was_asked_for() {
    let edits = json!({"workspace": {"workspaceEdit": {"documentChanges": true}}});
    let mut editor = Editor::start(edits).await;
    let document = editor.open("draft.json", STEPS).await;
    let edit = editor.rename_text(&document, STEPS, "text\"}", "title").await.expect("an answer");
    assert_eq!(edit["documentChanges"][0]["textDocument"], json!({"uri": document["uri"], "version": 1}));
    assert_eq!(edit["documentChanges"][0]["edits"][0]["newText"], "title");
    editor.end_conversation().await;
}

/// A definition with a name, and what it may not be called.
struct RenameCase {
    file: &'static str,
    text: &'static str,
    /// The text at whose start the name is.
    at: &'static str,
    accepted: &'static [&'static str],
    refused: &'static [&'static str],
}

const RENAMES: [RenameCase; 8] = [
    RenameCase {
        file: "short.mdx",
        text: "---\ninput:\n  topic: {type: text}\n---\n\n{JSON.stringify({topic})} {({topic}).topic} {[1].map(() => ({topic})).length}\n\n\
               <GenText as=\"t\" model=\"m:x\" />\n",
        at: "topic: ",
        accepted: &["theme"],
        refused: &["document", "constructor"],
    },
    RenameCase {
        file: "fields.mdx",
        text: "Hi\n\n<Cond as=\"d\" if={true} provide={{}}>\n  In\n\n  <GenText as=\"poem\" model=\"m:x\" />\n</Cond>\n\n{d['poem']} {d.poem}\n\n\
               <GenText as=\"t\" model=\"m:x\" />\n",
        at: "poem",
        accepted: &["verse"],
        refused: &["window"],
    },
    RenameCase {
        file: "brackets.json",
        text: r#"{"name": "f", "description": "d", "steps": [
  {"type": "start", "config": {"variables": [{"name": "a.b", "value": "Oslo"}]}},
  {"type": "llmInstruction", "config": {"instruction": "${['a.b']} ${[\"a.b\"]}", "resultVariable": "out"}}
]}
"#,
        at: "a.b",
        accepted: &["town"],
        refused: &["out"],
    },
    RenameCase {
        file: "a.mdx",
        text: "---\ninput:\n  audience: {type: text}\n---\n\nWrite audience for {audience}. {Math.max(1, 2)}\n\n<GenText as=\"t\" model=\"m:x\" />\n",
        at: "audience: ",
        accepted: &["readers", "t2", "text", "input", "JSON"],
        refused: &[
            "true",
            "false",
            "null",
            "undefined",
            "NaN",
            "Infinity",
            "this",
            "const",
            "class",
            "new",
            "t",
            "Math",
        ],
    },
    RenameCase {
        file: "b.mdx",
        text: "---\ninput:\n  list: {type: array}\n  end: {type: text}\n---\n\n{list.map(x => x + end).join(' ')}\n\n\
               <GenText as=\"t\" model=\"m:x\" />\n",
        at: "end: ",
        accepted: &["last"],
        refused: &["x", "list", "true", "function"],
    },
    RenameCase {
        file: "flow.json",
        text: r#"{"name": "f", "description": "d", "steps": [
  {"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}},
  {"type": "apiCall", "config": {"url": "https://a.example/?q=${city}", "method": "GET", "headers": [{"key": "k", "value": "${secret.KEY}"}], "responseVariable": "report"}}
]}
"#,
        at: "city",
        accepted: &["town"],
        refused: &["secret", "report"],
    },
    RenameCase { file: "steps.json", text: STEPS, at: "text\"}", accepted: &["title", "true"], refused: &["a b"] },
    RenameCase {
        file: "pipeline.json",
        text: r#"{"id": "p", "name": "P", "user_prompt": "x", "nodes": [
  {"id": "first", "block_id": "web_search", "inputs": {"query": "tea"}},
  {"id": "second", "block_id": "web_search", "inputs": {"query": "{{first.results}}"}}
], "edges": [{"from": "first", "to": "second"}]}
"#,
        at: "first",
        accepted: &["begin"],
        refused: &["memory", "user", "secret", "second"],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_changes_only_a_name() {
    let mut editor = Editor::start(json!({})).await;
    let mut wrong = Vec::new();
    for case in RENAMES {
        let document = editor.open(case.file, case.text).await;
        for new in case.accepted {
            if let Err(message) = editor.rename_text(&document, case.text, case.at, new).await {
                wrong.push(format!("{}: {new} was refused: {message}", case.file));
            }
        }
        for new in case.refused {
            match editor.rename_text(&document, case.text, case.at, new).await {
                Ok(edit) => wrong.push(format!("{}: {new} was accepted: {edit}", case.file)),
                Err(message) => assert!(message.contains(new), "{}: {new}: {message}", case.file),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_found_by_the_id_in_its_folder() {
    let graph = r#"{"id": "desk", "name": "Desk", "entrypointNodeId": "n", "nodes": [
  {"id": "n", "nodeType": "AGENT", "nodeName": "Orders", "agentId": "agent-orders"}
], "edges": [{"id": "e", "sourceNodeId": "n", "targetNodeId": null, "conditionType": "ALWAYS"}]}
"#;
    let mut editor = Editor::start(json!({})).await;
    // Next to the graph, and above it.
    for (agent, file) in [("agents/orders", "desk.json"), ("Agents/sold", "shop/graphs/sold.json")] {
        let graph = graph.replace("orders", &agent[7..]);
        editor.write(&format!("{agent}/systemPrompt.md"), "Answer.\n");
        let settings = format!("{{\"agentId\": \"agent-{}\", \"tools\": []}}\n", &agent[7..]);
        editor.write(&format!("{agent}/jsonSchema.json"), &settings);
        editor.write(file, &graph);
        let document = editor.open(file, &graph).await;
        let wanted = format!("agent-{}", &agent[7..]);
        let line = graph.lines().position(|line| line.contains("agentId")).expect("a line");
        let character = graph.lines().nth(line).and_then(|line| line.find(&wanted)).expect("a column");
        let at = json!({"textDocument": document, "position": {"line": line, "character": character}});
        let found = editor.request_result("textDocument/definition", at.clone()).await.expect("an answer");
        assert_eq!(found[0]["uri"], editor.file_uri(&format!("{agent}/jsonSchema.json")), "{found}");
        let meaning = editor.request_result("textDocument/hover", at.clone()).await.expect("an answer");
        assert!(meaning.to_string().contains(&format!("{}/", &agent[7..])), "{meaning}");
        let edit = editor.rename_text(&document, &graph, &wanted, "agent-sales").await.expect("an answer");
        let changes = edit["changes"].as_object().expect("changes of texts only");
        assert_eq!(changes.len(), 2, "{edit}");
        assert!(changes.values().all(|edits| edits[0]["newText"] == "agent-sales"), "{edit}");
        let proposed = editor.request_result("textDocument/completion", at).await.expect("an answer");
        let labels: Vec<&Value> = proposed.as_array().expect("proposals").iter().map(|one| &one["label"]).collect();
        assert!(labels.contains(&&json!(wanted)) && !labels.contains(&&json!(agent[7..])), "{labels:?}");
    }
    editor.end_conversation().await;
}

/// Functions and tools that run workflows lead to the files of these.
#[tokio::test(flavor = "multi_thread")]
async fn the_definition_of_a_function_is_the_file_of_its_workflow() {
    let steps = STEPS.replace("agent::chat", "sub::order");
    let page = "Order.\n\n<sub-order as=\"a\" input=\"x\" />\n\n<GenText as=\"b\" model=\"scripted:echo\" />\n";
    let agent =
        "{\"systemPrompt\": \"You help.\",\n\"tools\": [\"@@flow_weather\", \"sub::order\", \"rain_report\"]}\n";
    let flow = r#"{"name": "Rain report", "steps": [{"type": "llmInstruction", "config": {"instruction": "Rain?"}}]}"#;
    let mut editor = Editor::start(json!({})).await;
    let config = "default_model = \"scripted:echo\"\n[functions.\"sub::order\"]\nworkflow = \"parts/order.json\"\n";
    editor.write("flowloom.toml", config);
    editor.write("parts/order.json", STEPS);
    editor.write("weather.json", STEPS);
    editor.write("rain-report.json", flow);
    for (file, text, wanted, target) in [
        ("main.json", steps.as_str(), "sub::order", "parts/order.json"),
        ("main.mdx", page, "sub-order", "parts/order.json"),
        ("agent.json", agent, "flow_weather", "weather.json"),
        ("agent.json", agent, "sub::order", "parts/order.json"),
        // The name by which models call it.
        ("agent.json", agent, "rain_report", "rain-report.json"),
    ] {
        let document = editor.open(file, text).await;
        let line = text.lines().position(|line| line.contains(wanted)).expect("a line");
        let character = text.lines().nth(line).and_then(|line| line.find(wanted)).expect("a column");
        let at = json!({"textDocument": document, "position": {"line": line, "character": character}});
        let found = editor.request_result("textDocument/definition", at).await.expect("an answer");
        assert_eq!(found[0]["uri"], editor.file_uri(target), "{file} {wanted}: {found}");
    }
    editor.end_conversation().await;
}
