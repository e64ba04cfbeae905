//! Chats with a one-step workflow, compared with calling its model directly: added latency of an answer and of its
//! first word, and the cost of many concurrent chats.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::Failure;
use crate::client::{Connection, request};
use crate::measure::{Row, Sample, by_turns};
use crate::serving::{Program, folder};
use crate::talking_model::{self, TalkingModel, WORD};

/// Sequential calls per repetition.
const CALLS: usize = 500;

/// Number of chats whose first word is timed.
const WORDS: usize = 300;

/// Number of concurrent chats.
const CROWD: usize = 1000;

fn asked(model: &str, stream: bool) -> Vec<u8> {
    let messages = json!([{"role": "user", "content": "hi"}]);
    request(
        "POST",
        "/v1/chat/completions",
        &json!({"model": model, "messages": messages, "stream": stream}).to_string(),
    )
}

fn config(model: &TalkingModel) -> String {
    format!("default_model = \"test:m\"\n[providers.test]\nbase_url = \"http://{}/v1\"\n", model.address)
}

/// Median duration of a call, in seconds.
async fn middle(address: SocketAddr, model: &str) -> Result<f64, Failure> {
    let (mut connection, call) = (Connection::open(address).await?, asked(model, false));
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let since = Instant::now();
        let (status, body) = connection.call(&call).await?;
        if status != 200 {
            return Err(format!("status {status}: {}", String::from_utf8_lossy(body)).into());
        }
        times.push(since.elapsed().as_secs_f64());
    }
    Ok(Sample::of(times).median)
}

/// A streamed chat in progress.
struct Chat {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Chat {
    async fn begin(address: SocketAddr) -> Result<Chat, Failure> {
        let stream = Connection::open(address).await?.begin(&asked("one", true)).await?;
        Ok(Chat { stream, heard: Vec::new() })
    }

    /// Reads until `text` has been received.
    async fn hear(&mut self, text: &str) -> Result<(), Failure> {
        while !self.heard.windows(text.len()).any(|heard| heard == text.as_bytes()) {
            if self.stream.read_buf(&mut self.heard).await? == 0 {
                return Err(format!("the stream ended without {text}: {}", String::from_utf8_lossy(&self.heard)).into());
            }
        }
        Ok(())
    }
}

pub(crate) async fn chats() -> Result<Vec<Row>, Failure> {
    Ok(vec![added().await?, first_word().await?, crowd().await?])
}

async fn added() -> Result<Row, Failure> {
    let model = talking_model::start(true).await?;
    let folder = folder(&config(&model))?;
    let server = Program::flowloom(folder.path(), "normal", &[])?;
    let (ours, floor) =
        by_turns(7, async || middle(server.address, "one").await, async || middle(model.address, "m").await).await?;
    let row = Row::new("chats", "chat with one step: p50 added to its model", CALLS);
    Ok(row.measured(ours, Some(floor), 1).at_most((ours.median - floor.median) * 1e3, 1.0, "ms"))
}

/// Time from the model's first word until the client has it.
async fn first_word() -> Result<Row, Failure> {
    let mut model = talking_model::start(true).await?;
    let folder = folder(&config(&model))?;
    let server = Program::flowloom(folder.path(), "normal", &[])?;
    let mut times = Vec::with_capacity(WORDS);
    for _ in 0..WORDS {
        let mut chat = Chat::begin(server.address).await?;
        chat.hear(&format!("\"content\":\"{WORD}\"")).await?;
        let heard = Instant::now();
        let said = model.said.recv().await.ok_or("the model has ended")?;
        times.push(heard.duration_since(said).as_secs_f64());
        chat.hear("[DONE]").await?;
    }
    let times = Sample::of(times);
    Ok(Row::new("chats", "first word, after the model sent it: p50", WORDS).measured(times, None, 1).at_most(
        times.median * 1e3,
        2.0,
        "ms",
    ))
}

/// Chats that all receive their first word, and then their last.
async fn crowd() -> Result<Row, Failure> {
    let model = talking_model::start(false).await?;
    let folder = folder(&config(&model))?;
    let server = Program::flowloom(folder.path(), "normal", &["--max-runs", "2000"])?;
    let mut chats = vec![Chat::begin(server.address).await?];
    let before = server.memory("VmRSS");
    for _ in 1..CROWD {
        chats.push(Chat::begin(server.address).await?);
    }
    for chat in &mut chats {
        chat.hear(&format!("\"content\":\"{WORD}\"")).await?;
    }
    let more = server.memory("VmRSS") - before;
    model.may_end.send_replace(true);
    for chat in &mut chats {
        chat.hear("[DONE]").await?;
    }
    Ok(Row::new("chats", "concurrent streamed chats: memory", CROWD).at_most(more, 100.0, "MB more"))
}
