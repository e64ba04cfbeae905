//! The debugger, in the debug adapter protocol. A recorded run is played from its record, forwards and backwards; nothing is
//! performed. A new run halts before each of its effects, and its past can be looked at in the same way.

mod breakpoints;
mod numbering;
mod recorded;
mod session;
mod values;

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use crate::framing::{Frame, is_closed_stream, read_frame, write_frame};
use crate::server::LoadConfig;

use session::{Answer, DebugEvent, DebugSession};

/// Maximum number of messages that are read ahead.
const MAX_WAITING_MESSAGES: usize = 64;

/// Why the debugger ended before its client asked it to: the stream failed.
#[derive(Debug, thiserror::Error)]
#[error("the editor's stream failed: {0}")]
pub struct DebugError(#[from] io::Error);

/// Answers the messages of an editor until it ends the conversation or closes a stream. Fails if the streams cannot be
/// read or written.
pub async fn serve_debugger(
    load_config: LoadConfig,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin,
) -> Result<(), DebugError> {
    match answer_messages(load_config, input, output).await {
        Err(DebugError(error)) if is_closed_stream(&error) => Ok(()),
        result => result,
    }
}

/// Answers messages until the last one, or until a stream fails.
async fn answer_messages(
    load_config: LoadConfig,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin,
) -> Result<(), DebugError> {
    let (sender, mut messages) = mpsc::channel(MAX_WAITING_MESSAGES);
    // A message that is half read must not be given up when the run moves.
    let reader = tokio::spawn(async move {
        let mut input = BufReader::new(input);
        while let Some(message) = read_message(&mut input).await.transpose() {
            let is_last = message.is_err();
            if sender.send(message).await.is_err() || is_last {
                break;
            }
        }
    });
    let mut session = DebugSession::new(load_config);
    let mut writer = MessageWriter { output, sequence: 0 };
    loop {
        tokio::select! {
            message = messages.recv() => {
                let request = match message.transpose()? {
                    None => break,
                    Some(Ok(request)) => request,
                    Some(Err(reason)) => {
                        let output = format!("a message of the editor cannot be read: {reason}\n");
                        let event = ("output", json!({"category": "stderr", "output": output}));
                        writer.write_events(vec![event]).await?;
                        continue;
                    }
                };
                let command = request["command"].as_str().unwrap_or_default();
                let answer = session.answer(command, &request["arguments"]).await;
                writer.write_answer(&request, answer).await?;
                if command == "disconnect" {
                    break;
                }
            }
            event = session.wait_for_run() => {
                let events = session.show_progress(event).await;
                writer.write_events(events).await?;
            }
        }
    }
    reader.abort();
    Ok(())
}

/// Writes messages, and counts them.
struct MessageWriter<W> {
    output: W,
    sequence: u64,
}

impl<W: AsyncWrite + Unpin> MessageWriter<W> {
    async fn write_answer(&mut self, request: &Value, answer: Answer) -> Result<(), DebugError> {
        let head = json!({"type": "response", "request_seq": request["seq"], "command": request["command"]});
        let response = match answer.body {
            Ok(body) => merge(head, json!({"success": true, "body": body})),
            Err(message) => merge(head, json!({"success": false, "message": message})),
        };
        self.write_message(response).await?;
        self.write_events(answer.events).await
    }

    async fn write_events(&mut self, events: Vec<DebugEvent>) -> Result<(), DebugError> {
        for (name, body) in events {
            self.write_message(json!({"type": "event", "event": name, "body": body})).await?;
        }
        Ok(())
    }

    async fn write_message(&mut self, message: Value) -> Result<(), DebugError> {
        self.sequence += 1;
        let content = merge(message, json!({"seq": self.sequence})).to_string();
        self.output.write_all(&write_frame(&content)).await?;
        Ok(self.output.flush().await?)
    }
}

/// One object with the keys of both.
fn merge(mut first: Value, second: Value) -> Value {
    if let (Some(first), Value::Object(second)) = (first.as_object_mut(), second) {
        first.extend(second);
    }
    first
}

/// Reads a message, or why it is none; `None` at the end of the stream.
async fn read_message(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Result<Value, String>>, DebugError> {
    Ok(read_frame(input).await?.map(|frame| match frame {
        Frame::Malformed(reason) => Err(reason.to_owned()),
        Frame::Content(content) => serde_json::from_slice(&content).map_err(|error| format!("it is not JSON: {error}")),
    }))
}
