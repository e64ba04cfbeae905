//! A language server in this process, and the editor's side of a conversation with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_app::config::{Config, Overrides};
use flowloom_lsp::{ConversationEnd, LanguageServer, LoadConfig, ServerError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinHandle;

/// Bytes that a stream holds.
pub(crate) const STREAM_BYTES: usize = 1 << 20;

/// The server, and an editor's side of the conversation.
pub(crate) struct Editor {
    pub(crate) server: JoinHandle<Result<ConversationEnd, ServerError>>,
    pub(crate) input: DuplexStream,
    pub(crate) output: BufReader<DuplexStream>,
    pub(crate) folder: tempfile::TempDir,
    /// Messages that were not waited for.
    pub(crate) others: Vec<Value>,
    pub(crate) next_id: i64,
}

impl Editor {
    /// Starts a server, and waits until it is ready.
    pub(crate) async fn start(capabilities: Value) -> Editor {
        let load_config: LoadConfig = Arc::new(|path: &Path| {
            let folder = path.parent().unwrap_or(path);
            let file = folder.ancestors().map(|one| one.join("flowloom.toml")).find(|file| file.exists());
            Config::load(Overrides { file, ..Overrides::default() })
        });
        let (input, server_input) = tokio::io::duplex(STREAM_BYTES);
        let (server_output, output) = tokio::io::duplex(STREAM_BYTES);
        let server = tokio::spawn(LanguageServer::new(load_config).serve(server_input, server_output));
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("flowloom.toml"), "default_model = \"scripted:echo\"\n").expect("written");
        let output = BufReader::new(output);
        let mut editor = Editor { server, input, output, folder, others: Vec::new(), next_id: 0 };
        editor
            .request_result("initialize", json!({"processId": null, "capabilities": capabilities}))
            .await
            .expect("an answer");
        editor.send_notification("initialized", json!({})).await;
        editor
    }

    pub(crate) async fn send(&mut self, content: &str) {
        let frame = format!("Content-Length: {}\r\n\r\n{content}", content.len());
        self.input.write_all(frame.as_bytes()).await.expect("sent");
    }

    pub(crate) async fn send_notification(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Sends a request. Returns its id.
    pub(crate) async fn send_request(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        id
    }

    /// Sends a request, and waits for its result, or for the message of its error.
    pub(crate) async fn request_result(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.send_request(method, params).await;
        let answer = self.wait_for(|message| message["id"] == id && message.get("method").is_none()).await;
        match answer.get("error") {
            Some(error) => Err(error["message"].as_str().unwrap_or_default().to_owned()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub(crate) async fn wait_for(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.receive_message().await.expect("a message");
            if is_wanted(&message) {
                return message;
            }
            self.others.push(message);
        }
    }

    /// The next message; `None` at the end.
    pub(crate) async fn receive_message(&mut self) -> Option<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).await.expect("a line") == 0 {
                return None;
            }
            match line.trim_end().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().expect("a number"),
                None => break,
            }
        }
        let mut content = vec![0; length];
        self.output.read_exact(&mut content).await.expect("a message");
        Some(serde_json::from_slice(&content).expect("JSON"))
    }

    pub(crate) fn file_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.file_path(name).parent().expect("a folder")).expect("created");
        std::fs::write(self.file_path(name), text).expect("written");
    }

    pub(crate) fn file_uri(&self, name: &str) -> String {
        format!("file://{}", self.file_path(name).display())
    }

    /// Writes and opens a document.
    pub(crate) async fn open(&mut self, name: &str, text: &str) -> Value {
        self.write(name, text);
        let uri = self.file_uri(name);
        let document = json!({"uri": uri, "languageId": "json", "version": 1, "text": text});
        self.send_notification("textDocument/didOpen", json!({"textDocument": document})).await;
        json!({"uri": uri})
    }

    /// The answer to a rename of the first `old` in a document.
    pub(crate) async fn rename_text(
        &mut self,
        document: &Value,
        text: &str,
        old: &str,
        new: &str,
    ) -> Result<Value, String> {
        let at = text.find(old).expect("the name");
        let line = text[..at].matches('\n').count();
        let character = at - text[..at].rfind('\n').map_or(0, |end| end + 1);
        let position = json!({"line": line, "character": character});
        self.request_result(
            "textDocument/rename",
            json!({"textDocument": document, "position": position, "newName": new}),
        )
        .await
    }

    /// Ends the conversation as the protocol wants it.
    pub(crate) async fn end_conversation(mut self) {
        self.request_result("shutdown", Value::Null).await.expect("an answer");
        self.send_notification("exit", Value::Null).await;
        let end = self.server.await.expect("it ends").expect("a conversation");
        assert_eq!(end, ConversationEnd::Regular);
    }
}
