//! `POST /v1/chat/completions`: OpenAI's chat interface.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chunks;
use super::format::{AnswerFormat, FormatRequest};
use super::messages::{ChatMessage, Conversation};
use super::names::{created_seconds, run_headers};
use super::reply::{ClientToolCall, RunAnswer};
use super::run::{ModelRequest, OpenAiContext};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::state::RunHost;

/// Prefix of the ids of chat responses.
pub(crate) const COMPLETION_ID_PREFIX: &str = "chatcmpl-";

/// A chat request to a workflow. Other parameters of OpenAI's API are accepted and ignored.
#[derive(Deserialize, ToSchema)]
#[schema(as = ChatRequest)]
pub(crate) struct ChatRequest {
    /// Id of the workflow.
    model: String,
    messages: Vec<ChatMessage>,
    /// Whether the response is streamed as server-sent events.
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// Inputs of the workflow by name; `thread` names the conversation.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map>,
    /// Limits of the run, such as `tokens=2000,usd=0.05`. They can only narrow the configured ones.
    #[serde(default)]
    budget: Option<String>,
    /// Number of answers; only 1 is supported.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1)]
    n: Option<u64>,
    /// The form of the answer. If it is JSON, the output of the workflow must be an object that fits.
    #[serde(default)]
    response_format: Option<FormatRequest>,
    /// Tools of the client. The workflow decides which it calls.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// `auto`, `none`, or the one function that the answer must call with the output of the workflow.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    tool_choice: Option<Value>,
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
pub(crate) struct ChatCompletion {
    /// `chatcmpl-` and the run's id, with a number if the run was continued.
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: [Choice; 1],
    usage: TokenUsage,
}

/// The only answer.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatChoice)]
struct Choice {
    index: u32,
    message: AssistantMessage,
    /// `stop` or `tool_calls`.
    finish_reason: &'static str,
}

/// The message of the assistant.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatAnswer)]
struct AssistantMessage {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<RequestedCall>,
}

/// A tool call for the client; a `tool` message with its id returns the result.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatCalled)]
pub(crate) struct RequestedCall {
    /// Index of the call in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: RequestedFunction,
}

/// The called function.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatCalledFunction)]
struct RequestedFunction {
    name: String,
    arguments: String,
}

/// Tokens of all model calls of the run.
#[derive(Serialize, ToSchema)]
#[schema(as = ChatUsage)]
pub(crate) struct TokenUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> TokenUsage {
        let (prompt_tokens, completion_tokens) = (usage.input_tokens, usage.output_tokens);
        TokenUsage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

impl From<ClientToolCall> for RequestedCall {
    fn from(call: ClientToolCall) -> RequestedCall {
        let function = RequestedFunction { name: call.name, arguments: call.arguments };
        RequestedCall { index: None, id: call.id, kind: "function", function }
    }
}

impl RequestedCall {
    /// Sets the index of the call in a stream.
    pub(crate) fn with_index(self, index: usize) -> RequestedCall {
        RequestedCall { index: Some(index), ..self }
    }
}

/// Runs a workflow with the user's last message and returns its output. The header `x-flowloom-run-id` names the run.
/// Closing the connection cancels the run, unless the request has an `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "OpenAI", operation_id = "openai_chat", security(("key" = ["run"])), request_body = ChatRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"),
        ("x-flowloom-thread" = Option<String>, Header, description = "The conversation, for graphs; `metadata.thread` takes precedence")),
    responses((status = 200, description = "The response", content((ChatCompletion = "application/json"), (String = "text/event-stream"))),
        (status = 404, description = "The workflow does not exist"), (status = 409, description = "Another turn of the conversation is running, or the Idempotency-Key was used for another request")))]
pub(crate) async fn complete_chat(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(new, text): JsonObject<ChatRequest>,
) -> ApiResult<Response> {
    if new.n.is_some_and(|n| n != 1) {
        return Err(Problem::new(Code::RequestInvalid, "a workflow returns one answer; n must be 1"));
    }
    let tools = new.tools.unwrap_or_default();
    let format = AnswerFormat::parse(new.response_format)?.with_tool_choice(new.tool_choice.as_ref(), &tools)?;
    let with_usage = new.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
    let wanted = ModelRequest {
        model: new.model,
        conversation: Conversation::new(new.messages)?,
        metadata: new.metadata.unwrap_or_default(),
        thread: None,
        previous: None,
        budget: new.budget,
        is_background: false,
    };
    let wanted = wanted.with_thread(&headers)?;
    let asking = OpenAiContext { host: &host, caller: &caller, headers: &headers };
    let stream = asking.start_answer(&wanted, &format!("chat\n{text}")).await?.in_format(format);
    let (run, id) = (stream.run_id(), stream.answer_id(COMPLETION_ID_PREFIX));
    if new.stream == Some(true) {
        stream.wait_until_stored().await?;
        return Ok((run_headers(run), chunks::stream_chunks(stream, wanted.model, with_usage)).into_response());
    }
    let answer = stream.wait_for_answer().await?;
    let finish_reason = answer.finish_reason();
    let RunAnswer { text, calls, usage, .. } = answer;
    let content = (calls.is_empty() || !text.is_empty()).then_some(text);
    let tool_calls = calls.into_iter().map(RequestedCall::from).collect();
    let message = AssistantMessage { role: "assistant", content, refusal: None, tool_calls };
    let completion = ChatCompletion {
        id,
        object: "chat.completion",
        created: created_seconds(run),
        model: wanted.model,
        choices: [Choice { index: 0, message, finish_reason }],
        usage: usage.into(),
    };
    Ok((run_headers(run), Json(completion)).into_response())
}
