//! The projects of files in an editor: the one around each file, wherever the language server was started.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};
use support::Workspace;

const SCRIPTED: &str = "default_model = \"scripted:echo\"\n";

fn write_file(place: &Workspace, file: &str, text: &str) {
    let path = place.path(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    std::fs::write(path, text).expect("written");
}

/// The diagnostics that the language server, started in a folder, publishes for a file when it is opened.
fn open_in_editor(place: &Workspace, folder: &str, file: &str) -> Value {
    let mut command = place.build_command(&["lsp"]);
    command.current_dir(place.path(folder)).env_remove("FLOWLOOM_DATA_DIR");
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut input = server.stdin.take().expect("a pipe");
    let mut send = |message: &Value| {
        let content = message.to_string();
        write!(input, "Content-Length: {}\r\n\r\n{content}", content.len()).expect("sent");
    };
    let (path, text) = (place.path(file), std::fs::read_to_string(place.path(file)).expect("there"));
    let document =
        json!({"uri": format!("file://{}", path.display()), "languageId": "json", "version": 1, "text": text});
    send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}));
    send(&json!({"jsonrpc": "2.0", "method": "initialized", "params": {}}));
    let opened = json!({"textDocument": document});
    send(&json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": opened}));
    let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
    let found = loop {
        let mut head = String::new();
        output.read_line(&mut head).expect("a head");
        let length: usize = head.trim_end().strip_prefix("Content-Length: ").expect("a length").parse().expect("bytes");
        let mut content = vec![0; length + 2];
        output.read_exact(&mut content).expect("a message");
        let message: Value = serde_json::from_slice(&content).expect("JSON");
        if message["method"] == "textDocument/publishDiagnostics" {
            break message["params"]["diagnostics"].clone();
        }
    };
    drop(input);
    assert!(server.wait().expect("it ends").success());
    found
}

#[test]
fn an_editor_uses_the_project_around_each_file_wherever_the_server_was_started() {
    let place = Workspace::new("");
    std::fs::remove_file(place.path("flowloom.toml")).expect("removed");
    write_file(&place, "a/flowloom.toml", SCRIPTED);
    write_file(&place, "b/flowloom.toml", &format!("{SCRIPTED}[functions.\"crm::find\"]\nurl = \"http://a.test/\"\n"));
    let step = json!({"name": "x", "functionId": "crm::find", "mode": "sequential"});
    let list = json!({"id": "s", "name": "S", "description": "d", "steps": [step]}).to_string();
    write_file(&place, "b/s.json", &list);
    write_file(&place, "a/s.json", &list);
    for folder in ["a", "b"] {
        assert_eq!(open_in_editor(&place, folder, "b/s.json"), json!([]), "started in {folder}");
        let found = open_in_editor(&place, folder, "a/s.json");
        assert!(found.to_string().contains("there is no function"), "{found}");
    }
}
