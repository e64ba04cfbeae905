//! Documents among others: files of other programs, and renames of what several definitions of a project read.

#[path = "support/editor.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod editor;

use editor::Editor;
use serde_json::{Value, json};

/// The codes of the problems of a document that was opened just now.
async fn list_problems(editor: &mut Editor, name: &str, text: &str) -> Vec<String> {
    let document = editor.open(name, text).await;
    let is_of_document = |message: &Value| {
        message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == document["uri"]
    };
    let found = editor.wait_for(is_of_document).await;
    let problems = found["params"]["diagnostics"].as_array().cloned().unwrap_or_default();
    problems.iter().map(|problem| problem["code"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_other_programs_have_no_problems() {
    let mut editor = Editor::start(json!({})).await;
    editor.write("flowloom.toml", "[functions.\"shop::find\"]\nurl = \"http://127.0.0.1:9/\"\n");
    let others = [
        ("network.json", r#"{"nodes": [{"id": "a", "label": "b"}], "edges": [{"from": "a", "to": "a"}]}"#),
        ("ci.json", r#"{"steps": [{"name": "build", "run": "make"}]}"#),
        ("package.json", r#"{"name": "site", "steps": ["a"]}"#),
        ("README.md", "Write `<GenText as=\"a\" />` to ask a model.\n"),
    ];
    for (name, text) in others {
        assert_eq!(list_problems(&mut editor, name, text).await, Vec::<String>::new(), "{name}");
    }
    let action = "Look up.\n\n<ShopFind as=\"x\" q=\"1\" />\n\nNow {zzz}.\n";
    assert!(!list_problems(&mut editor, "fn.mdx", action).await.is_empty(), "an action of the configuration");
    let broken = r#"{"nodes": [{"id": "a", "block_id": "nothing"}], "edges": []}"#;
    assert!(!list_problems(&mut editor, "p.json", broken).await.is_empty());
    editor.end_conversation().await;
}

/// A workflow that includes a text which reads one of its inputs.
const INCLUDER: &str = "---\ninput:\n  topic: {type: text}\n---\n\nSay {topic} {include('style')}.\n\n\
                        <GenText as=\"a\" model=\"scripted:echo\" />\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_in_a_text_that_others_include_is_refused() {
    let mut editor = Editor::start(json!({})).await;
    editor.write("style.mdx", "Write about {topic}.\n");
    let document = editor.open("main.mdx", INCLUDER).await;
    let edit = editor.rename_text(&document, INCLUDER, "topic}", "subject").await.expect("nobody else includes it");
    assert!(edit.to_string().contains("style.mdx"), "{edit}");
    editor.write("sub/other.mdx", "Not this one {include('style')}\n");
    editor.write("other.mdx", INCLUDER);
    let refused = editor.rename_text(&document, INCLUDER, "topic}", "subject").await.expect_err("another includes it");
    assert!(refused.contains("other.mdx"), "{refused}");
    editor.end_conversation().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_renamed_in_all_folders_that_use_it() {
    let edits = json!({"workspace": {"workspaceEdit": {"documentChanges": true, "resourceOperations": ["rename"]}}});
    let mut editor = Editor::start(edits).await;
    let graph = r#"{"id": "g", "name": "G", "entrypointNodeId": "n", "nodes": [
  {"id": "n", "nodeType": "AGENT", "nodeName": "Orders", "agentId": "orders"}], "edges": []}"#;
    editor.write("agents/orders/jsonSchema.json", r#"{"id": "orders", "tools": []}"#);
    editor.write("agents/orders/systemPrompt.md", "You look up orders.\n");
    editor.write("sub/g3.json", &graph.replace("\"g\"", "\"g3\""));
    let document = editor.open("g.json", graph).await;
    let edit = editor.rename_text(&document, graph, "orders\"", "shop").await.expect("an answer").to_string();
    for file in ["/g.json", "sub/g3.json", "jsonSchema.json", "agents/shop"] {
        assert!(edit.contains(file), "{file}: {edit}");
    }
    editor.end_conversation().await;
}
