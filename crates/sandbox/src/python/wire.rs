//! Messages between this process, the launcher and an interpreter.

use std::path::PathBuf;

use flowloom_core::chat::{Message, Role};
use flowloom_core::effect::PythonReply;
use flowloom_core::json;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

use super::error::MessageError;
use crate::config::KernelFeatures;
use crate::frame::FrameMark;
use crate::lock::jail::JailView;
use crate::lock::report::LockReport;

/// The launcher's frame: what to start, and its limits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaunchMessage {
    pub(super) view: JailView,
    pub(super) boot: String,
    pub(super) mark: FrameMark,
    pub(super) memory_bytes: u64,
    pub(super) cpu_seconds: u64,
    pub(super) kernel: KernelFeatures,
    pub(super) cgroup: Option<PathBuf>,
}

/// The launcher's frame once the interpreter is locked down.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeldMessage {
    pub(super) held: LockReport,
}

/// The launcher's frame once the interpreter exists: its process id.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartedMessage {
    pub(super) process: i32,
}

/// The interpreter's first frame: the mark of its frames, and their maximum size.
#[derive(Serialize)]
pub(super) struct HelloMessage {
    pub(super) mark: FrameMark,
    pub(super) output_bytes: usize,
}

/// A block to run.
#[derive(Serialize)]
pub(super) struct BlockMessage<'a> {
    pub(super) source: &'a str,
    pub(super) inputs: &'a Value,
    pub(super) user: &'a Value,
    pub(super) user_id: &'a str,
    pub(super) memory: Value,
    pub(super) environment: &'a [(String, String)],
}

/// A message from an interpreter.
#[derive(Debug)]
pub(super) enum InterpreterMessage {
    /// It waits for a block.
    Ready,
    /// The lock-down or the start failed; the text describes the missing requirement.
    Missing(String),
    /// Its process.
    Started(i32),
    /// Its protections.
    LockedDown(LockReport),
    /// The block returned.
    Done(PythonReply),
    /// The block failed.
    Failed(BlockFailure, String),
    /// The block sends a request under a number.
    Request(i64, BlockRequest),
}

/// How a block failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockFailure {
    Raised,
    Memory,
    Result,
}

/// A request of a block to its run.
#[derive(Debug)]
pub(super) enum BlockRequest {
    Http { method: String, url: String, headers: Vec<(String, String)>, body: Option<String> },
    Generate(Vec<Message>),
}

impl InterpreterMessage {
    /// Parses a frame. Nothing in it is trusted.
    pub(super) fn parse_frame(frame: &[u8]) -> Result<InterpreterMessage, MessageError> {
        let text = std::str::from_utf8(frame).map_err(|_| MessageError::NotUtf8)?;
        let message = json::parse_value(text).map_err(MessageError::NotJson)?;
        if let Some(done) = message.get("done") {
            return parse_reply(done).map(InterpreterMessage::Done).ok_or(MessageError::NotAResult);
        }
        if let Some(missing) = message.get("missing").and_then(Value::as_str) {
            return Ok(InterpreterMessage::Missing(missing.to_owned()));
        }
        if message.get("held").is_some() {
            let held = serde_json::from_str::<HeldMessage>(text).map_err(|_| MessageError::Unknown)?;
            return Ok(InterpreterMessage::LockedDown(held.held));
        }
        if message.get("process").is_some() {
            let started = serde_json::from_str::<StartedMessage>(text).map_err(|_| MessageError::Unknown)?;
            return Ok(InterpreterMessage::Started(started.process));
        }
        if let Some(failure) = message.get("failed").and_then(Value::as_str) {
            let why = match message.get("kind").and_then(Value::as_str) {
                Some("memory") => BlockFailure::Memory,
                Some("result") => BlockFailure::Result,
                _ => BlockFailure::Raised,
            };
            return Ok(InterpreterMessage::Failed(why, failure.to_owned()));
        }
        if message.get("ready").is_some() {
            return Ok(InterpreterMessage::Ready);
        }
        let id = message.get("id").and_then(Value::as_i64);
        let question = message.get("http").and_then(parse_http).or_else(|| message.get("llm").and_then(parse_messages));
        id.zip(question).map(|(id, question)| InterpreterMessage::Request(id, question)).ok_or(MessageError::Unknown)
    }
}

fn parse_reply(done: &Value) -> Option<PythonReply> {
    let output = done.get("output")?.clone();
    let change = |change: &Value| {
        let [key, value] = change.as_list()? else { return None };
        Some((key.as_str()?.to_owned(), value.as_list()?.first().cloned()))
    };
    let mut memory = done.get("memory")?.as_list()?.iter().map(change).collect::<Option<Vec<_>>>()?;
    // Sorted by key and without duplicates, whatever the block sends.
    memory.sort_by(|a, b| a.0.cmp(&b.0));
    memory.dedup_by(|a, b| a.0 == b.0);
    Some(PythonReply { output, memory, queued_ms: None })
}

fn parse_http(request: &Value) -> Option<BlockRequest> {
    let text = |key: &str| request.get(key).and_then(Value::as_str).map(str::to_owned);
    let pair = |pair: &Value| {
        let [name, value] = pair.as_list()? else { return None };
        Some((name.as_str()?.to_owned(), value.as_str()?.to_owned()))
    };
    let headers = request.get("headers")?.as_list()?.iter().map(pair).collect::<Option<Vec<_>>>()?;
    Some(BlockRequest::Http { method: text("method")?, url: text("url")?, headers, body: text("body") })
}

fn parse_messages(request: &Value) -> Option<BlockRequest> {
    let message = |message: &Value| {
        let role = match message.get("role")?.as_str()? {
            "system" => Role::System,
            "assistant" => Role::Assistant,
            _ => Role::User,
        };
        Some(Message::new(role, message.get("content")?.as_str()?))
    };
    request.as_list()?.iter().map(message).collect::<Option<Vec<_>>>().map(BlockRequest::Generate)
}
