//! Streams a response as typed events.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::chunks::HEARTBEAT;
use super::reply::Reply;
use super::responses::{Shape, part};
use super::speaker::{Piece, Speaker};
use crate::problem::Problem;

/// The state of a stream.
struct Events {
    shape: Shape,
    /// Sequence number of the next event.
    number: u64,
    /// The text so far; `None` before the message is open.
    text: Option<String>,
}

/// Streams the answer of a run as events; the first ones announce the response.
pub(crate) fn stream(speaker: Speaker, shape: Shape) -> Response {
    let mut events = Events { shape, number: 0, text: None };
    let begun = events.shape.response("in_progress", &[]);
    let first = [
        events.event("response.created", json!({"response": begun})),
        events.event("response.in_progress", json!({"response": begun})),
    ];
    let rest = speaker.pieces().flat_map(move |piece| stream::iter(events.of(piece)));
    let all = stream::iter(first).chain(rest).map(Ok::<_, Infallible>);
    Sse::new(all).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

impl Events {
    fn of(&mut self, piece: Piece) -> Vec<Event> {
        match piece {
            Piece::Text(text) => self.said(&text),
            Piece::End(Ok(reply)) => self.end(reply),
            Piece::End(Err(problem)) => vec![self.failed(&problem)],
        }
    }

    fn failed(&mut self, problem: &Problem) -> Event {
        let response = self.shape.failed(problem);
        self.event("response.failed", json!({"response": response}))
    }

    /// Encodes more text; opens the message first, if necessary.
    fn said(&mut self, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        if self.text.is_none() {
            let item = self.shape.message("in_progress", None);
            events.push(self.event("response.output_item.added", json!({"output_index": 0, "item": item})));
            events.push(self.in_text("response.content_part.added", json!({"part": part("")})));
        }
        self.text.get_or_insert_default().push_str(text);
        if !text.is_empty() {
            events.push(self.in_text("response.output_text.delta", json!({"delta": text, "logprobs": []})));
        }
        events
    }

    fn end(&mut self, mut reply: Reply) -> Vec<Event> {
        let mut events = Vec::new();
        if reply.calls.is_empty() || !reply.text.is_empty() {
            events.extend(self.said(&reply.text));
        }
        let text = self.text.take();
        let first = usize::from(text.is_some());
        if let Some(text) = text {
            events.push(self.in_text("response.output_text.done", json!({"text": text, "logprobs": []})));
            events.push(self.in_text("response.content_part.done", json!({"part": part(&text)})));
            let item = self.shape.message("completed", Some(&text));
            events.push(self.event("response.output_item.done", json!({"output_index": 0, "item": item})));
            reply.text = text;
        }
        for index in 0..reply.calls.len() {
            events.extend(self.called(&reply, index, first + index));
        }
        let response = self.shape.completed(&reply);
        events.push(self.event("response.completed", json!({"response": response})));
        events
    }

    fn called(&mut self, reply: &Reply, index: usize, place: usize) -> Vec<Event> {
        let (begun, done) = (self.shape.call("in_progress", reply, index), self.shape.call("completed", reply, index));
        let (id, arguments, name) = (&done["id"], &done["arguments"], &done["name"]);
        vec![
            self.event("response.output_item.added", json!({"output_index": place, "item": begun})),
            self.event(
                "response.function_call_arguments.delta",
                json!({"output_index": place, "item_id": id, "delta": arguments}),
            ),
            self.event(
                "response.function_call_arguments.done",
                json!({"output_index": place, "item_id": id, "name": name, "arguments": arguments}),
            ),
            self.event("response.output_item.done", json!({"output_index": place, "item": done})),
        ]
    }

    /// An event about the text.
    fn in_text(&mut self, kind: &str, mut data: Value) -> Event {
        data["item_id"] = format!("msg_{}", self.shape.run).into();
        data["output_index"] = 0.into();
        data["content_index"] = 0.into();
        self.event(kind, data)
    }

    fn event(&mut self, kind: &str, mut data: Value) -> Event {
        data["type"] = kind.into();
        data["sequence_number"] = self.number.into();
        self.number += 1;
        Event::default().event(kind).data(data.to_string())
    }
}
