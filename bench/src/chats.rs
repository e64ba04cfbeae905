//! Chats with a one-step workflow, compared with calling its model directly: added latency of an answer and of its
//! first word, and the cost of many concurrent chats.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::BenchError;
use crate::client::{ClientConnection, build_request};
use crate::measure::{ReportRow, SampleStats, measure_in_turns};
use crate::serving::{ServerProgram, create_folder};
use crate::streaming_model::{self, FIRST_WORD, StreamingModel};

/// Sequential calls per repetition.
const CHAT_CALLS: usize = 500;

/// Number of chats whose first word is timed.
const TIMED_WORDS: usize = 300;

/// Number of concurrent chats.
const CONCURRENT_CHATS: usize = 1000;

fn chat_request(model: &str, stream: bool) -> Vec<u8> {
    let messages = json!([{"role": "user", "content": "hi"}]);
    build_request(
        "POST",
        "/v1/chat/completions",
        &json!({"model": model, "messages": messages, "stream": stream}).to_string(),
    )
}

fn model_config(model: &StreamingModel) -> String {
    format!("default_model = \"test:m\"\n[providers.test]\nbase_url = \"http://{}/v1\"\n", model.address)
}

/// Median duration of a call, in seconds.
async fn median_call_seconds(address: SocketAddr, model: &str) -> Result<f64, BenchError> {
    let (mut connection, call) = (ClientConnection::open(address).await?, chat_request(model, false));
    let mut times = Vec::with_capacity(CHAT_CALLS);
    for _ in 0..CHAT_CALLS {
        let since = Instant::now();
        connection.send_request(&call).await?.require_status(200)?;
        times.push(since.elapsed().as_secs_f64());
    }
    Ok(SampleStats::from_seconds(times).median)
}

/// A streamed chat in progress.
struct StreamedChat {
    stream: TcpStream,
    received: Vec<u8>,
}

impl StreamedChat {
    async fn begin_chat(address: SocketAddr) -> Result<StreamedChat, BenchError> {
        let stream = ClientConnection::open(address).await?.begin_stream(&chat_request("one", true)).await?;
        Ok(StreamedChat { stream, received: Vec::new() })
    }

    /// Reads until `text` has been received.
    async fn read_until(&mut self, text: &str) -> Result<(), BenchError> {
        while !self.received.windows(text.len()).any(|window| window == text.as_bytes()) {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(
                    format!("the stream ended without {text}: {}", String::from_utf8_lossy(&self.received)).into()
                );
            }
        }
        Ok(())
    }
}

pub(crate) async fn measure_chats() -> Result<Vec<ReportRow>, BenchError> {
    Ok(vec![measure_added_latency().await?, measure_first_word().await?, measure_crowd().await?])
}

async fn measure_added_latency() -> Result<ReportRow, BenchError> {
    let model = streaming_model::start_model(true).await?;
    let folder = create_folder(&model_config(&model))?;
    let server = ServerProgram::start_flowloom(folder.path(), "normal", &[])?;
    let (ours, floor) = measure_in_turns(
        7,
        async || median_call_seconds(server.address, "one").await,
        async || median_call_seconds(model.address, "m").await,
    )
    .await?;
    let row = ReportRow::new("chats", "chat with one step: p50 added to its model", CHAT_CALLS);
    Ok(row.with_samples(ours, Some(floor), 1).with_maximum((ours.median - floor.median) * 1e3, 1.0, "ms"))
}

/// Time from the model's first word until the client has it.
async fn measure_first_word() -> Result<ReportRow, BenchError> {
    let mut model = streaming_model::start_model(true).await?;
    let folder = create_folder(&model_config(&model))?;
    let server = ServerProgram::start_flowloom(folder.path(), "normal", &[])?;
    let mut times = Vec::with_capacity(TIMED_WORDS);
    for _ in 0..TIMED_WORDS {
        let mut chat = StreamedChat::begin_chat(server.address).await?;
        chat.read_until(&format!("\"content\":\"{FIRST_WORD}\"")).await?;
        let window = Instant::now();
        let sent = model.sent_times.recv().await.ok_or("the model has ended")?;
        times.push(window.duration_since(sent).as_secs_f64());
        chat.read_until("[DONE]").await?;
    }
    let times = SampleStats::from_seconds(times);
    Ok(ReportRow::new("chats", "first word, after the model sent it: p50", TIMED_WORDS)
        .with_samples(times, None, 1)
        .with_maximum(times.median * 1e3, 2.0, "ms"))
}

/// Chats that all receive their first word, and then their last.
async fn measure_crowd() -> Result<ReportRow, BenchError> {
    let model = streaming_model::start_model(false).await?;
    let folder = create_folder(&model_config(&model))?;
    let server = ServerProgram::start_flowloom(folder.path(), "normal", &["--max-runs", "2000"])?;
    let mut chats = vec![StreamedChat::begin_chat(server.address).await?];
    let before = server.memory_mb("VmRSS");
    for _ in 1..CONCURRENT_CHATS {
        chats.push(StreamedChat::begin_chat(server.address).await?);
    }
    for chat in &mut chats {
        chat.read_until(&format!("\"content\":\"{FIRST_WORD}\"")).await?;
    }
    let more = server.memory_mb("VmRSS") - before;
    model.may_end.send_replace(true);
    for chat in &mut chats {
        chat.read_until("[DONE]").await?;
    }
    Ok(ReportRow::new("chats", "concurrent streamed chats: memory", CONCURRENT_CHATS)
        .with_maximum(more, 100.0, "MB more"))
}
