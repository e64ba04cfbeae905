//! Streams a response as typed events.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::answer_stream::{AnswerPiece, AnswerStream};
use super::chunks::HEARTBEAT_INTERVAL;
use super::reply::RunAnswer;
use super::responses::{ResponseBuilder, text_part};
use crate::problem::Problem;

/// The state of a stream.
struct ResponseEncoder {
    shape: ResponseBuilder,
    /// Sequence number of the next event.
    number: u64,
    /// The text so far; `None` before the message is open.
    text: Option<String>,
}

/// Streams the answer of a run as events; the first ones announce the response.
pub(crate) fn stream_response(stream: AnswerStream, shape: ResponseBuilder) -> Response {
    let mut events = ResponseEncoder { shape, number: 0, text: None };
    let created = events.shape.build_response("in_progress", &[]);
    let first = [
        events.build_event("response.created", json!({"response": created})),
        events.build_event("response.in_progress", json!({"response": created})),
    ];
    let rest = stream.into_pieces().flat_map(move |piece| stream::iter(events.encode_piece(piece)));
    let all = stream::iter(first).chain(rest).map(Ok::<_, Infallible>);
    Sse::new(all).keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL)).into_response()
}

impl ResponseEncoder {
    fn encode_piece(&mut self, piece: AnswerPiece) -> Vec<Event> {
        match piece {
            AnswerPiece::Text(text) => self.encode_text(&text),
            AnswerPiece::End(Ok(reply)) => self.encode_end(reply),
            AnswerPiece::End(Err(problem)) => vec![self.failed_event(&problem)],
        }
    }

    fn failed_event(&mut self, problem: &Problem) -> Event {
        let response = self.shape.failed_response(problem);
        self.build_event("response.failed", json!({"response": response}))
    }

    /// Encodes more text; opens the message first, if necessary.
    fn encode_text(&mut self, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        if self.text.is_none() {
            let item = self.shape.message_item("in_progress", None);
            events.push(self.build_event("response.output_item.added", json!({"output_index": 0, "item": item})));
            events.push(self.text_event("response.content_part.added", json!({"part": text_part("")})));
        }
        self.text.get_or_insert_default().push_str(text);
        if !text.is_empty() {
            events.push(self.text_event("response.output_text.delta", json!({"delta": text, "logprobs": []})));
        }
        events
    }

    fn encode_end(&mut self, mut reply: RunAnswer) -> Vec<Event> {
        let mut events = Vec::new();
        if reply.calls.is_empty() || !reply.text.is_empty() {
            events.extend(self.encode_text(&reply.text));
        }
        let text = self.text.take();
        let first = usize::from(text.is_some());
        if let Some(text) = text {
            events.push(self.text_event("response.output_text.done", json!({"text": text, "logprobs": []})));
            events.push(self.text_event("response.content_part.done", json!({"part": text_part(&text)})));
            let item = self.shape.message_item("completed", Some(&text));
            events.push(self.build_event("response.output_item.done", json!({"output_index": 0, "item": item})));
            reply.text = text;
        }
        for index in 0..reply.calls.len() {
            events.extend(self.encode_call(&reply, index, first + index));
        }
        let response = self.shape.completed_response(&reply);
        let kind = if reply.is_cut { "response.incomplete" } else { "response.completed" };
        events.push(self.build_event(kind, json!({"response": response})));
        events
    }

    fn encode_call(&mut self, reply: &RunAnswer, index: usize, place: usize) -> Vec<Event> {
        let (created, done) =
            (self.shape.call_item("in_progress", reply, index), self.shape.call_item("completed", reply, index));
        let (id, arguments, name) = (&done["id"], &done["arguments"], &done["name"]);
        vec![
            self.build_event("response.output_item.added", json!({"output_index": place, "item": created})),
            self.build_event(
                "response.function_call_arguments.delta",
                json!({"output_index": place, "item_id": id, "delta": arguments}),
            ),
            self.build_event(
                "response.function_call_arguments.done",
                json!({"output_index": place, "item_id": id, "name": name, "arguments": arguments}),
            ),
            self.build_event("response.output_item.done", json!({"output_index": place, "item": done})),
        ]
    }

    /// An event about the text.
    fn text_event(&mut self, kind: &str, mut data: Value) -> Event {
        data["item_id"] = self.shape.message_id.as_str().into();
        data["output_index"] = 0.into();
        data["content_index"] = 0.into();
        self.build_event(kind, data)
    }

    fn build_event(&mut self, kind: &str, mut data: Value) -> Event {
        data["type"] = kind.into();
        data["sequence_number"] = self.number.into();
        self.number += 1;
        Event::default().event(kind).data(data.to_string())
    }
}
