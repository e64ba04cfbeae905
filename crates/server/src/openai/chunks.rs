//! Streams a chat response as chunks.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use flowloom_core::id::RunId;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::chat::{Called, Tokens, id_of};
use super::failure::Failure;
use super::names::created;
use super::reply::Reply;
use super::speaker::{Piece, Speaker};

/// Interval of heartbeats while nothing happens.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// The fields that all chunks of a response share.
struct Chunks {
    run: RunId,
    model: String,
    /// Whether the last chunk contains the usage.
    with_usage: bool,
}

/// Streams the answer of a run as chunks; the first chunk contains the role.
pub(crate) fn stream(speaker: Speaker, model: String, with_usage: bool) -> Response {
    let chunks = Chunks { run: speaker.run(), model, with_usage };
    let first = chunks.chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    let rest = speaker.pieces().flat_map(move |piece| stream::iter(chunks.of(piece)));
    let events = stream::iter([first]).chain(rest).map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

impl Chunks {
    fn of(&self, piece: Piece) -> Vec<Event> {
        let done = Event::default().data("[DONE]");
        match piece {
            Piece::Text(text) => vec![self.text(&text)],
            Piece::End(Ok(reply)) => {
                let mut events = self.end(reply);
                events.push(done);
                events
            }
            Piece::End(Err(problem)) => {
                let failure = serde_json::to_string(&Failure::from(&problem)).unwrap_or_default();
                vec![Event::default().data(failure), done]
            }
        }
    }

    /// Encodes the remaining text, the tool calls and the finish reason.
    fn end(&self, reply: Reply) -> Vec<Event> {
        let Reply { text, calls, usage } = reply;
        let mut events = Vec::new();
        if !text.is_empty() {
            events.push(self.text(&text));
        }
        let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
        for (index, call) in calls.into_iter().enumerate() {
            let called = Called::from(call).at(index);
            events.push(self.chunk(json!({"tool_calls": [called]}), Value::Null));
        }
        events.push(self.chunk(json!({}), reason.into()));
        if self.with_usage {
            events.push(self.event(json!([]), json!(Tokens::from(usage))));
        }
        events
    }

    fn text(&self, text: &str) -> Event {
        self.chunk(json!({"content": text}), Value::Null)
    }

    fn chunk(&self, delta: Value, reason: Value) -> Event {
        self.event(json!([{"index": 0, "delta": delta, "finish_reason": reason}]), Value::Null)
    }

    fn event(&self, choices: Value, usage: Value) -> Event {
        let mut chunk = json!({"id": id_of(self.run), "object": "chat.completion.chunk", "created": created(self.run), "model": self.model, "choices": choices});
        // A client that requested the usage expects the field in every chunk; it is null before the end.
        if self.with_usage {
            chunk["usage"] = usage;
        }
        Event::default().data(chunk.to_string())
    }
}
