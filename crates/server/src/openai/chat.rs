//! `POST /v1/chat/completions`.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use flowloom_core::code::Code;
use flowloom_core::request::Usage;
use flowloom_core::value::Map;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chunks;
use super::messages::{Conversation, Message};
use super::names::{created, named};
use super::reply::{Reply, ToolCall};
use super::run::{Asking, Wanted};
use crate::body::Body;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// What is asked of a workflow. Parameters that are not named here are the workflow's affair, and have no effect.
#[derive(Deserialize, ToSchema)]
#[schema(as = ChatRequest)]
pub(crate) struct NewChat {
    /// The id of a workflow.
    model: String,
    messages: Vec<Message>,
    /// Whether the answer comes as server-sent events.
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// Inputs of the workflow by name; `thread` names the conversation.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map>,
    /// Answers; there is one.
    #[serde(default)]
    n: Option<u64>,
}

/// What comes with a stream.
#[derive(Deserialize, ToSchema)]
#[schema(as = ChatStreamOptions)]
pub(crate) struct StreamOptions {
    /// Whether the last event tells the usage.
    #[serde(default)]
    include_usage: Option<bool>,
}

/// An answer.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatCompletion)]
pub(crate) struct Completion {
    /// `chatcmpl-` and the run's id.
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: [Choice; 1],
    usage: Tokens,
}

/// The one answer there is.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatChoice)]
struct Choice {
    index: u32,
    message: Said,
    /// `stop`, or `tool_calls`.
    finish_reason: &'static str,
}

/// What is answered.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatAnswer)]
struct Said {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called>,
}

/// A tool that the client is to run; a `tool` message with its id gives the result.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatCalled)]
pub(crate) struct Called {
    /// Its place in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

/// The tool.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatCalledFunction)]
struct Function {
    name: String,
    arguments: String,
}

/// Tokens of all model calls of the run.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatUsage)]
pub(crate) struct Tokens {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Tokens {
        let (prompt_tokens, completion_tokens) = (usage.input_tokens, usage.output_tokens);
        Tokens { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

impl From<ToolCall> for Called {
    fn from(call: ToolCall) -> Called {
        let function = Function { name: call.name, arguments: call.arguments };
        Called { index: None, id: call.id, kind: "function", function }
    }
}

impl Called {
    /// The same at a place in a stream.
    pub(crate) fn at(self, index: usize) -> Called {
        Called { index: Some(index), ..self }
    }
}

/// Runs a workflow with what the user said last, and answers with what it gives. The header `x-flowloom-run-id` names the
/// run. A client that closes the connection cancels the run, unless the call has an `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "OpenAI", operation_id = "openai_chat", security(("key" = ["run"])), request_body = NewChat,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body start one run"),
        ("x-flowloom-thread" = Option<String>, Header, description = "The conversation, for graphs; `metadata.thread` goes before it")),
    responses((status = 200, description = "The answer", content((Completion = "application/json"), (String = "text/event-stream"))),
        (status = 404, description = "There is no such workflow"), (status = 409, description = "The thread has a turn under way, or the Idempotency-Key was used for another call")))]
pub(crate) async fn complete(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(new, text): Body<NewChat>,
) -> Answer<Response> {
    if new.n.is_some_and(|n| n > 1) {
        return Err(Problem::new(Code::RequestInvalid, "a workflow gives one answer: n must be 1"));
    }
    let with_usage = new.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
    let wanted = Wanted {
        model: new.model,
        conversation: Conversation(new.messages),
        metadata: new.metadata.unwrap_or_default(),
        thread: None,
        previous: None,
    };
    let wanted = wanted.with_thread(&headers);
    let asking = Asking { server: &server, caller: &caller, headers: &headers };
    let speaker = asking.begin(&wanted, &format!("chat\n{text}")).await?;
    let run = speaker.run();
    if new.stream == Some(true) {
        return Ok((named(run), chunks::stream(speaker, wanted.model, with_usage)).into_response());
    }
    let Reply { text, calls, usage } = speaker.whole().await?;
    let finish_reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    let content = (calls.is_empty() || !text.is_empty()).then_some(text);
    let tool_calls = calls.into_iter().map(Called::from).collect();
    let message = Said { role: "assistant", content, refusal: None, tool_calls };
    let completion = Completion {
        id: id_of(run),
        object: "chat.completion",
        created: created(run),
        model: wanted.model,
        choices: [Choice { index: 0, message, finish_reason }],
        usage: usage.into(),
    };
    Ok((named(run), Json(completion)).into_response())
}

/// The id of an answer.
pub(crate) fn id_of(run: flowloom_core::id::RunId) -> String {
    format!("chatcmpl-{run}")
}
