//! A model that sends its first word immediately, and the rest on demand.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::BenchError;

/// The first word.
pub(crate) const FIRST_WORD: &str = "Hello";

/// The model's server, in this process.
pub(crate) struct StreamingModel {
    pub(crate) address: SocketAddr,
    /// Times at which first words were sent.
    pub(crate) sent_times: mpsc::UnboundedReceiver<Instant>,
    /// Whether the rest may be sent.
    pub(crate) may_end: watch::Sender<bool>,
}

#[derive(Clone)]
struct ModelState {
    sent_times: mpsc::UnboundedSender<Instant>,
    may_end: watch::Receiver<bool>,
}

/// Starts one on a free port.
pub(crate) async fn start_model(may_end: bool) -> Result<StreamingModel, BenchError> {
    let (sent, received) = mpsc::unbounded_channel();
    let (end, may_end) = watch::channel(may_end);
    let router = axum::Router::new().fallback(answer_request).with_state(ModelState { sent_times: sent, may_end });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Words are small, and each should be sent immediately.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(StreamingModel { address, sent_times: received, may_end: end })
}

async fn answer_request(State(state): State<ModelState>, Json(body): Json<Value>) -> Response {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7});
    if body["stream"] != true {
        let choice =
            json!({"index": 0, "message": {"role": "assistant", "content": "Hello there"}, "finish_reason": "stop"});
        return Json(json!({"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage})).into_response();
    }
    let ModelState { sent_times, mut may_end } = state;
    let chunk = |delta: Value, reason: Value, usage: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice], "usage": usage});
        Event::default().data(chunk.to_string())
    };
    let first = chunk(json!({"role": "assistant", "content": FIRST_WORD}), Value::Null, Value::Null);
    let rest = [
        chunk(json!({"content": " there"}), Value::Null, Value::Null),
        chunk(json!({}), json!("stop"), usage),
        Event::default().data("[DONE]"),
    ];
    let first = stream::once(async move {
        // The receiver may be gone.
        let _ = sent_times.send(Instant::now());
        first
    });
    let rest = stream::once(async move {
        // An error means that the benchmark has ended.
        let _ = may_end.wait_for(|may| *may).await;
        stream::iter(rest)
    });
    Sse::new(first.chain(rest.flatten()).map(Ok::<_, Infallible>)).into_response()
}
