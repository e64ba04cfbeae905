//! `/v1/responses`: OpenAI's newer interface.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::value::Map;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::format::{AnswerFormat, FormatRequest};
use super::messages::{CalledFunction, ChatMessage, Conversation, CustomCall, MessageContent, MessageToolCall};
use super::names::{answer_id, created_seconds, run_headers};
use super::repeated::read_repeated_fields;
use super::reply::RunAnswer;
use super::response_events;
use super::run::{ModelRequest, OpenAiContext, can_have_answers};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::runs::answer::{find_own_run, open_run};
use crate::state::RunHost;

/// Prefix of response ids; the run's id follows.
const RESPONSE_ID_PREFIX: &str = "resp_";

/// A request to a workflow. Other parameters of OpenAI's API are accepted and ignored.
#[derive(Deserialize, ToSchema)]
#[schema(as = ResponseRequest)]
pub(crate) struct ResponseRequest {
    /// Id of the workflow.
    model: String,
    /// A text, or messages and tool results.
    input: ResponseInput,
    /// A system message before all other messages.
    #[serde(default)]
    instructions: Option<String>,
    /// Whether the response is streamed as server-sent events.
    #[serde(default)]
    stream: Option<bool>,
    /// The response that this one continues.
    #[serde(default)]
    previous_response_id: Option<String>,
    /// The conversation to which the turn belongs.
    #[serde(default)]
    conversation: Option<ConversationRef>,
    /// Inputs of the workflow by name; `thread` names the conversation.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map>,
    /// Limits of the run, such as `tokens=2000,usd=0.05`. They can only narrow the configured ones.
    #[serde(default)]
    budget: Option<String>,
    /// Whether to answer immediately, while the run continues; `GET /v1/responses/{id}` then returns its state.
    #[serde(default)]
    background: Option<bool>,
    /// The form of the answer.
    #[serde(default)]
    text: Option<TextOptions>,
    /// Tools of the client. The workflow decides which it calls.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<flowloom_core::value::Value>>,
    /// `auto`, `none`, or the one function that the answer must call with the output of the workflow.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    tool_choice: Option<flowloom_core::value::Value>,
}

/// Options of the text of a response.
#[derive(Deserialize, ToSchema)]
#[schema(as = ResponseTextOptions)]
pub(crate) struct TextOptions {
    /// If it is JSON, the output of the workflow must be an object that fits.
    #[serde(default)]
    format: Option<FormatRequest>,
}

/// The input of a response.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ResponseInput)]
pub(crate) enum ResponseInput {
    Text(String),
    Items(Vec<ResponseItem>),
}

/// A message, a tool call, or a tool result. Items of other types are ignored.
#[derive(Deserialize, ToSchema)]
#[schema(as = ResponseItem)]
pub(crate) struct ResponseItem {
    /// `message` (default), `function_call`, `custom_tool_call`, or the output of one with `_output` at its end.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    content: Option<MessageContent>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
    /// The input of a custom tool.
    #[serde(default)]
    input: Option<String>,
    #[serde(default)]
    output: Option<MessageContent>,
}

/// A conversation: its id, or `{id}`.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ResponseConversation)]
pub(crate) enum ConversationRef {
    Id(String),
    Object { id: String },
}

impl ResponseRequest {
    /// The form that the answer must have.
    fn read_format(&mut self) -> ApiResult<AnswerFormat> {
        let format = self.text.take().and_then(|text| text.format);
        let tools = self.tools.take().unwrap_or_default();
        AnswerFormat::parse(format)?.with_tool_choice(self.tool_choice.as_ref(), &tools)
    }

    fn into_request(self) -> ApiResult<ModelRequest> {
        let mut messages: Vec<ChatMessage> =
            self.instructions.map(|text| build_message("system", MessageContent::Text(text))).into_iter().collect();
        match self.input {
            ResponseInput::Text(text) => messages.push(build_message("user", MessageContent::Text(text))),
            ResponseInput::Items(items) => messages.extend(items.into_iter().filter_map(to_message)),
        }
        if self.previous_response_id.is_some() && self.conversation.is_some() {
            let message = "conversation and previous_response_id exclude each other; send one of them";
            return Err(Problem::new(Code::RequestInvalid, message));
        }
        let previous = self.previous_response_id.as_deref().map(ResponseId::parse).transpose()?.map(|id| id.run);
        let thread = self.conversation.map(|named| match named {
            ConversationRef::Id(id) | ConversationRef::Object { id } => id,
        });
        let metadata = self.metadata.unwrap_or_default();
        let conversation = Conversation::new(messages)?;
        let is_background = self.background == Some(true);
        let (model, budget) = (self.model, self.budget);
        Ok(ModelRequest { model, conversation, metadata, thread, previous, budget, is_background })
    }
}

fn build_message(role: &str, content: MessageContent) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content: Some(content), tool_calls: None, tool_call_id: None }
}

/// A message of the assistant that calls tools.
fn build_calls(calls: Vec<MessageToolCall>) -> ChatMessage {
    ChatMessage { role: "assistant".to_owned(), content: None, tool_calls: Some(calls), tool_call_id: None }
}

/// Converts an item to a message; `None` if it is ignored.
fn to_message(item: ResponseItem) -> Option<ChatMessage> {
    match item.kind.as_deref() {
        None | Some("message") => {
            Some(ChatMessage { role: item.role?, content: item.content, tool_calls: None, tool_call_id: None })
        }
        Some("function_call") => {
            let function = CalledFunction { name: item.name?, arguments: item.arguments.unwrap_or_default() };
            let calls = vec![MessageToolCall { id: item.call_id?, function: Some(function), custom: None }];
            Some(build_calls(calls))
        }
        Some("custom_tool_call") => {
            let custom = CustomCall { name: item.name?, input: item.input.unwrap_or_default() };
            let calls = vec![MessageToolCall { id: item.call_id?, function: None, custom: Some(custom) }];
            Some(build_calls(calls))
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            Some(ChatMessage { tool_call_id: item.call_id, ..build_message("tool", item.output?) })
        }
        Some(_) => None,
    }
}

/// The parts of the id of a response.
pub(crate) struct ResponseId {
    pub(crate) run: RunId,
    /// The number of answers and tool results that the run had before.
    pub(crate) given_answers: usize,
}

impl ResponseId {
    /// Parses the id of a response. Fails with `NotThere` if no response can have it.
    pub(crate) fn parse(id: &str) -> ApiResult<ResponseId> {
        let read = || {
            let named = id.strip_prefix(RESPONSE_ID_PREFIX)?;
            let (run, number) = named.split_once('_').map_or((named, "0"), |(run, number)| (run, number));
            let (run, given_answers) = (RunId::parse(run)?, number.parse().ok()?);
            // Each response has one id.
            answer_id(RESPONSE_ID_PREFIX, run, given_answers)
                .eq_ignore_ascii_case(id)
                .then_some(ResponseId { run, given_answers })
        };
        read().ok_or_else(|| Problem::not_found("response", id))
    }

    /// Finds the run of the response with this id. Fails with `NotThere` if the caller has no such response.
    pub(crate) async fn find_run(host: &Arc<RunHost>, caller: &Caller, id: &str) -> ApiResult<RunId> {
        let ResponseId { run, given_answers } = ResponseId::parse(id)?;
        let missing = || Problem::not_found("response", id);
        find_own_run(&host.app.store, caller, &run.to_string()).await.map_err(|_| missing())?;
        if given_answers == 0 {
            return Ok(run);
        }
        let opened = open_run(&host.app.runs, run).await?;
        if can_have_answers(&opened, given_answers) { Ok(run) } else { Err(missing()) }
    }
}

/// Runs a workflow with the user's last message and returns its output. With `stream`, the response is a stream of
/// typed events. Closing the connection cancels the run, unless the request has an `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/responses", tag = "OpenAI", operation_id = "openai_respond", security(("key" = ["run"])), request_body = ResponseRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"),
        ("x-flowloom-thread" = Option<String>, Header, description = "The conversation, for graphs; `metadata.thread` takes precedence")),
    responses((status = 200, description = "The response", content((Object = "application/json"), (String = "text/event-stream"))),
        (status = 404, description = "The workflow or the previous response does not exist"), (status = 409, description = "Another turn of the conversation is running, or the Idempotency-Key was used for another request")))]
pub(crate) async fn create_response(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(mut new, text): JsonObject<ResponseRequest>,
) -> ApiResult<Response> {
    let (is_stream, previous) = (new.stream == Some(true), new.previous_response_id.clone());
    let is_background = new.background == Some(true);
    let format = new.read_format()?;
    if is_background && !format.is_text() {
        let message = "a response in the background is text; leave out background, or text.format and tool_choice";
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    let wanted = new.into_request()?.with_thread(&headers)?;
    if let Some(previous) = &previous {
        ResponseId::find_run(&host, &caller, previous).await?;
    }
    let asking = OpenAiContext { host: &host, caller: &caller, headers: &headers };
    let mut stream = asking.start_answer(&wanted, &format!("responses\n{text}")).await?.in_format(format);
    if is_background {
        stream = stream.cancel_on_drop(None);
    }
    let (run, id) = (stream.run_id(), stream.answer_id(RESPONSE_ID_PREFIX));
    let repeated = read_repeated_fields(&text);
    let conversation = wanted.thread;
    let shape = ResponseBuilder {
        previous,
        conversation,
        is_background,
        repeated,
        ..ResponseBuilder::new(run, id, wanted.model)
    };
    if is_background || is_stream {
        stream.wait_until_stored().await?;
    }
    if is_background && !is_stream {
        return Ok((run_headers(run), Json(shape.build_response("in_progress", &[]))).into_response());
    }
    if is_stream {
        return Ok((run_headers(run), response_events::stream_response(stream, shape)).into_response());
    }
    let reply = stream.wait_for_answer().await?;
    Ok((run_headers(run), Json(shape.completed_response(&reply))).into_response())
}

/// The fields that all forms of a response share.
pub(crate) struct ResponseBuilder {
    id: String,
    /// The id of its message.
    pub(crate) message_id: String,
    created: u64,
    pub(crate) model: String,
    previous: Option<String>,
    /// The thread of the run.
    pub(crate) conversation: Option<String>,
    pub(crate) is_background: bool,
    /// What it repeats from its request.
    repeated: serde_json::Map<String, Value>,
}

impl ResponseBuilder {
    /// The response with this id of a run of the workflow `model`.
    pub(crate) fn new(run: RunId, id: String, model: String) -> ResponseBuilder {
        let message_id = format!("msg_{}", id.strip_prefix(RESPONSE_ID_PREFIX).unwrap_or(&id));
        let created = created_seconds(run);
        let repeated = serde_json::Map::new();
        let (previous, conversation) = (None, None);
        ResponseBuilder { id, message_id, created, model, previous, conversation, is_background: false, repeated }
    }

    /// The response with a status and its items.
    pub(crate) fn build_response(&self, status: &str, output: &[Value]) -> Value {
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status,
            "background": self.is_background, "conversation": self.conversation.as_ref().map(|id| json!({"id": id})), "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "model": self.model,
            "output": output, "parallel_tool_calls": true, "previous_response_id": self.previous,
            "temperature": null, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": null,
            "usage": null,
        });
        for (name, value) in &self.repeated {
            response[name.as_str()] = value.clone();
        }
        response
    }

    pub(crate) fn completed_response(&self, reply: &RunAnswer) -> Value {
        let text = (reply.calls.is_empty() || !reply.text.is_empty())
            .then(|| self.message_item("completed", Some(&reply.text)));
        let calls = (0..reply.calls.len()).map(|index| self.call_item("completed", reply, index));
        let status = if reply.is_cut { "incomplete" } else { "completed" };
        let mut response = self.build_response(status, &text.into_iter().chain(calls).collect::<Vec<_>>());
        if reply.is_cut {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        let (input, output) = (reply.usage.input_tokens, reply.usage.output_tokens);
        response["usage"] = json!({
            "input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + output,
        });
        response
    }

    pub(crate) fn failed_response(&self, problem: &Problem) -> Value {
        let mut response = self.build_response("failed", &[]);
        response["error"] = json!({"code": problem.code().to_string(), "message": problem.detail()});
        response
    }

    /// The output item of the text.
    pub(crate) fn message_item(&self, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.map(text_part).into_iter().collect();
        json!({"id": self.message_id, "type": "message", "role": "assistant", "status": status, "content": content})
    }

    /// The output item of a tool call.
    pub(crate) fn call_item(&self, status: &str, reply: &RunAnswer, index: usize) -> Value {
        let call = &reply.calls[index];
        let arguments = if status == "completed" { call.arguments.as_str() } else { "" };
        json!({"id": format!("fc_{}", call.id), "type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments, "status": status})
    }
}

/// A text part of a message.
pub(crate) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}
