//! Checks messages between the editor and the protocol library: a message that cannot be read is answered with an error,
//! where the library would end the conversation.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::AsyncWrite;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::framing::{Frame, read_frame, write_frame};

/// The error code for a message that is not JSON.
const PARSE_ERROR: i32 = -32700;
/// The error code for JSON that is not a valid message.
const INVALID_REQUEST: i32 = -32600;

/// Passes the messages of the editor on until its stream ends, and answers invalid input. Ends early if nothing reads
/// the messages any more.
pub(super) async fn pass_messages(
    input: impl AsyncRead + Unpin,
    mut server: DuplexStream,
    answers: UnboundedSender<Vec<u8>>,
) {
    let mut input = BufReader::new(input);
    // A stream that fails or breaks off within a message has ended.
    while let Ok(Some(frame)) = read_frame(&mut input).await {
        let is_passed_on = match check_frame(frame) {
            Ok(content) => server.write_all(&write_frame(content)).await.is_ok(),
            Err(refusal) => answers.send(write_frame(refusal.to_string())).is_ok(),
        };
        if !is_passed_on {
            return;
        }
    }
}

/// The content of a frame with a message, or else the answer to the frame.
fn check_frame(frame: Frame) -> Result<Vec<u8>, Value> {
    let refuse = |id: Value, code: i32, reason: &str| {
        let error = json!({"code": code, "message": format!("the message cannot be read: {reason}")});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    };
    let content = match frame {
        Frame::Malformed(reason) => return Err(refuse(Value::Null, PARSE_ERROR, reason)),
        Frame::Content(content) => content,
    };
    let message: Value = serde_json::from_slice(&content)
        .map_err(|error| refuse(Value::Null, PARSE_ERROR, &format!("it is not JSON: {error}")))?;
    match find_problem(&message) {
        Some(reason) => Err(refuse(readable_id(&message), INVALID_REQUEST, reason)),
        None => Ok(content),
    }
}

/// Why a value is not a message; `None` if it is one.
fn find_problem(message: &Value) -> Option<&'static str> {
    let is_id = |id: &Value| id.is_string() || id.as_i64().is_some_and(|id| i32::try_from(id).is_ok());
    let is_result = || message.get("result").is_some() || message.get("error").is_some();
    if message["jsonrpc"] != "2.0" {
        return Some("\"jsonrpc\" must be \"2.0\"");
    }
    if message.get("id").is_some_and(|id| !is_id(id)) {
        return Some("\"id\" must be a string or a number of 32 bits");
    }
    match (message.get("method"), message.get("id")) {
        (Some(Value::String(_)), _) => None,
        (None, Some(_)) if is_result() => match message.get("error") {
            Some(error) if !(error["code"].is_i64() && error["message"].is_string()) => {
                Some("\"error\" must have a \"code\" and a \"message\"")
            }
            _ => None,
        },
        _ => Some("it has neither a \"method\" nor a \"result\""),
    }
}

/// The id of a message to which an answer can refer.
fn readable_id(message: &Value) -> Value {
    message.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default()
}

/// Writes messages to the editor until all senders are closed.
pub(super) async fn write_messages(
    mut messages: UnboundedReceiver<Vec<u8>>,
    mut output: impl tokio::io::AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        output.write_all(&message).await?;
        output.flush().await?;
    }
    Ok(())
}

/// The library's output: each message is sent as a whole, so that none is written into another.
pub(super) struct MessageSender {
    sender: UnboundedSender<Vec<u8>>,
    written: Vec<u8>,
}

impl MessageSender {
    pub(super) fn new(sender: UnboundedSender<Vec<u8>>) -> MessageSender {
        MessageSender { sender, written: Vec::new() }
    }
}

impl AsyncWrite for MessageSender {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.written.extend_from_slice(buffer);
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = std::mem::take(&mut self.written);
        if !written.is_empty() && self.sender.send(written).is_err() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
