//! Streams a chat response as chunks.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::answer_stream::{AnswerPiece, AnswerStream};
use super::chat::{COMPLETION_ID_PREFIX, RequestedCall, TokenUsage};
use super::failure::OpenAiError;
use super::names::created_seconds;
use super::reply::RunAnswer;

/// Interval of heartbeats while nothing happens.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// The fields that all chunks of a response share.
struct ChunkEncoder {
    id: String,
    created: u64,
    model: String,
    /// Whether the last chunk contains the usage.
    with_usage: bool,
}

/// Streams the answer of a run as chunks; the first chunk contains the role.
pub(crate) fn stream_chunks(stream: AnswerStream, model: String, with_usage: bool) -> Response {
    let chunks = ChunkEncoder {
        id: stream.answer_id(COMPLETION_ID_PREFIX),
        created: created_seconds(stream.run_id()),
        model,
        with_usage,
    };
    let first = chunks.build_chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    let rest = stream.into_pieces().flat_map(move |piece| stream::iter(chunks.encode_piece(piece)));
    let events = stream::iter([first]).chain(rest).map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL)).into_response()
}

impl ChunkEncoder {
    fn encode_piece(&self, piece: AnswerPiece) -> Vec<Event> {
        let done = Event::default().data("[DONE]");
        match piece {
            AnswerPiece::Text(text) => vec![self.text_chunk(&text)],
            AnswerPiece::End(Ok(reply)) => {
                let mut events = self.encode_end(reply);
                events.push(done);
                events
            }
            AnswerPiece::End(Err(problem)) => {
                let failure = serde_json::to_string(&OpenAiError::from(&problem)).unwrap_or_default();
                vec![Event::default().data(failure), done]
            }
        }
    }

    /// Encodes the remaining text, the tool calls and the finish reason.
    fn encode_end(&self, reply: RunAnswer) -> Vec<Event> {
        let reason = reply.finish_reason();
        let RunAnswer { text, calls, usage, .. } = reply;
        let mut events = Vec::new();
        if !text.is_empty() {
            events.push(self.text_chunk(&text));
        }
        for (index, call) in calls.into_iter().enumerate() {
            let called = RequestedCall::from(call).with_index(index);
            events.push(self.build_chunk(json!({"tool_calls": [called]}), Value::Null));
        }
        events.push(self.build_chunk(json!({}), reason.into()));
        if self.with_usage {
            events.push(self.build_event(json!([]), json!(TokenUsage::from(usage))));
        }
        events
    }

    fn text_chunk(&self, text: &str) -> Event {
        self.build_chunk(json!({"content": text}), Value::Null)
    }

    fn build_chunk(&self, delta: Value, reason: Value) -> Event {
        self.build_event(json!([{"index": 0, "delta": delta, "finish_reason": reason}]), Value::Null)
    }

    fn build_event(&self, choices: Value, usage: Value) -> Event {
        let mut chunk = json!({"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model, "choices": choices});
        // A client that requested the usage expects the field in every chunk; it is null before the end.
        if self.with_usage {
            chunk["usage"] = usage;
        }
        Event::default().data(chunk.to_string())
    }
}
