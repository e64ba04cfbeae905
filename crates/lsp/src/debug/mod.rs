//! The debugger of recorded runs, in the debug adapter protocol. It performs nothing: a run is played from its record, forwards
//! and backwards.

mod session;
mod values;

use std::io;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

use crate::server::LoadConfig;
use session::Session;

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Why the debugger ended before its client asked it to.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// The stream failed.
    #[error("the editor's messages cannot be read: {0}")]
    Stream(#[from] io::Error),
    /// A message is not one of the protocol.
    #[error("a message of the editor is not valid: {0}")]
    Message(String),
}

/// Answers the messages of an editor until it ends the conversation or closes the stream.
pub async fn serve_debugger(
    load_config: LoadConfig,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> Result<(), DebugError> {
    let mut input = BufReader::new(input);
    let mut session = Session::new(load_config);
    let mut sequence = 0;
    while let Some(request) = read_message(&mut input).await? {
        let command = request["command"].as_str().unwrap_or_default();
        let answer = session.answer(command, &request["arguments"]).await;
        let head = json!({"type": "response", "request_seq": request["seq"], "command": command});
        let response = match answer.body {
            Ok(body) => merge(head, json!({"success": true, "body": body})),
            Err(message) => merge(head, json!({"success": false, "message": message})),
        };
        let events =
            answer.events.into_iter().map(|(name, body)| json!({"type": "event", "event": name, "body": body}));
        for message in std::iter::once(response).chain(events) {
            sequence += 1;
            write_message(&mut output, merge(message, json!({"seq": sequence}))).await?;
        }
        if command == "disconnect" {
            break;
        }
    }
    Ok(())
}

/// One object with the keys of both.
fn merge(mut first: Value, second: Value) -> Value {
    if let (Some(first), Value::Object(second)) = (first.as_object_mut(), second) {
        first.extend(second);
    }
    first
}

/// Reads a message; `None` at the end of the stream.
async fn read_message(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Value>, DebugError> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<usize>().ok().filter(|length| *length <= MAX_MESSAGE_BYTES);
            }
            Some(_) => {}
            None => break,
        }
    }
    let length = length.ok_or_else(|| DebugError::Message("it has no length, or is too large".to_owned()))?;
    let mut content = vec![0; length];
    input.read_exact(&mut content).await?;
    serde_json::from_slice(&content).map(Some).map_err(|error| DebugError::Message(error.to_string()))
}

async fn write_message(output: &mut (impl AsyncWrite + Unpin), message: Value) -> Result<(), DebugError> {
    let content = message.to_string();
    let whole = format!("Content-Length: {}\r\n\r\n{content}", content.len());
    output.write_all(whole.as_bytes()).await?;
    Ok(output.flush().await?)
}
