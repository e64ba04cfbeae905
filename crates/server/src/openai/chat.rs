//! `POST /v1/chat/completions`: OpenAI's chat interface.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
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

/// A chat request to a workflow. Other parameters of OpenAI's API are accepted and ignored.
#[derive(Deserialize, ToSchema)]
#[schema(as = ChatRequest)]
pub(crate) struct NewChat {
    /// Id of the workflow.
    model: String,
    messages: Vec<Message>,
    /// Whether the response is streamed as server-sent events.
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// Inputs of the workflow by name; `thread` names the conversation.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map>,
    /// Number of answers; only 1 is supported.
    #[serde(default)]
    n: Option<u64>,
}

/// Options of a stream.
#[derive(Deserialize, ToSchema)]
#[schema(as = ChatStreamOptions)]
pub(crate) struct StreamOptions {
    /// Whether the last event contains the usage.
    #[serde(default)]
    include_usage: Option<bool>,
}

/// The response to a chat request.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatCompletion)]
pub(crate) struct Completion {
    /// `chatcmpl-` followed by the run's id.
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: [Choice; 1],
    usage: Tokens,
}

/// The only answer.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatChoice)]
struct Choice {
    index: u32,
    message: Said,
    /// `stop` or `tool_calls`.
    finish_reason: &'static str,
}

/// The message of the assistant.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatAnswer)]
struct Said {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called>,
}

/// A tool call for the client; a `tool` message with its id returns the result.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatCalled)]
pub(crate) struct Called {
    /// Index of the call in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

/// The called function.
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
    /// Sets the index of the call in a stream.
    pub(crate) fn at(self, index: usize) -> Called {
        Called { index: Some(index), ..self }
    }
}

/// Runs a workflow with the user's last message and returns its output. The header `x-flowloom-run-id` names the run.
/// Closing the connection cancels the run, unless the request has an `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "OpenAI", operation_id = "openai_chat", security(("key" = ["run"])), request_body = NewChat,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"),
        ("x-flowloom-thread" = Option<String>, Header, description = "The conversation, for graphs; `metadata.thread` takes precedence")),
    responses((status = 200, description = "The response", content((Completion = "application/json"), (String = "text/event-stream"))),
        (status = 404, description = "The workflow does not exist"), (status = 409, description = "Another turn of the conversation is running, or the Idempotency-Key was used for another request")))]
pub(crate) async fn complete(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(new, text): Body<NewChat>,
) -> Answer<Response> {
    if new.n.is_some_and(|n| n > 1) {
        return Err(Problem::new(Code::RequestInvalid, "a workflow returns one answer; n must be 1"));
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

/// The id of a chat response.
pub(crate) fn id_of(run: flowloom_core::id::RunId) -> String {
    format!("chatcmpl-{run}")
}
