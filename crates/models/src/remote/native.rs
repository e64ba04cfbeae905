//! Anthropic and Gemini through the genai crate: converts our request to its types, and its stream to ours.

use std::time::SystemTime;

use flowloom_core::chat::{Message, MessagePart, Role, ToolCall};
use flowloom_core::effect::{FinishReason, GenerateRequest};
use futures_util::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatResponse, ChatResponseFormat, ChatStreamEvent, ContentPart, JsonSpec,
    MessageContent, StopReason, StreamEnd, Tool, ToolCall as TheirCall, ToolChoice, ToolResponse, Usage,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget, webc};
use serde_json::{Value as Json, json};

use super::answer::ProviderAnswer;
use super::error::ProviderError;
use super::idle::{IdleTimer, with_idle_timeout};
use super::openai::{parse_arguments, repair_arguments, stream_failure, to_json, write_count};
use super::status::status_error;
use super::{ProviderCall, Target};
use crate::catalog::Protocol;

/// Sends one request and reads the answer.
pub(crate) async fn call_once(
    http: reqwest::Client,
    call: &ProviderCall<'_>,
    now: SystemTime,
    show: &mut (dyn FnMut(&str) + Send),
) -> Result<ProviderAnswer, ProviderError> {
    let client = genai::Client::builder().with_reqwest(http).build().map_err(|error| convert_error(error, now))?;
    let request = chat_request(call.request);
    let options = chat_options(call);
    if call.request.options.stream == Some(false) {
        let response = client.exec_chat(service_target(call.target), request, Some(&options)).await;
        return read_response(response.map_err(|error| convert_error(error, now))?, show);
    }
    let opened = client.exec_chat_stream(service_target(call.target), request, Some(&options));
    let mut stream = with_idle_timeout(call.idle, opened).await?.map_err(|error| convert_error(error, now))?.stream;
    let mut answer = ProviderAnswer::default();
    let mut idle = IdleTimer::start(call.idle);
    while let Some(event) = idle.wait_for(stream.next()).await? {
        match event.map_err(|error| convert_error(error, now))? {
            // A ping.
            ChatStreamEvent::Heartbeat => continue,
            ChatStreamEvent::Chunk(chunk) if chunk.content.is_empty() => continue,
            ChatStreamEvent::Chunk(chunk) => answer.push_text(&chunk.content, show)?,
            ChatStreamEvent::End(end) => return read_end(answer, end),
            _ => {}
        }
        idle.restart();
    }
    Err(ProviderError::AnswerCutOff)
}

fn service_target(target: &Target) -> ServiceTarget {
    let kind = match target.protocol {
        Protocol::Gemini => AdapterKind::Gemini,
        Protocol::Anthropic | Protocol::OpenAi => AdapterKind::Anthropic,
    };
    ServiceTarget {
        endpoint: Endpoint::from_owned(format!("{}/", target.base_url)),
        auth: AuthData::from_single(target.key.clone().unwrap_or_default()),
        model: ModelIden::new(kind, target.model.clone()),
    }
}

fn chat_options(call: &ProviderCall<'_>) -> ChatOptions {
    let asked = &call.request.options;
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_tool_calls(true)
        .with_extra_headers(extra_headers(call))
        .with_max_tokens(asked.max_tokens.unwrap_or(call.max_tokens));
    options.temperature = asked.temperature;
    options.top_p = asked.top_p;
    options.seed = asked.seed;
    options.stop_sequences = asked.stop.clone();
    options.tool_choice = asked.must_call.then_some(ToolChoice::Required);
    options.extra_body = match call.target.protocol {
        Protocol::Gemini => gemini_configuration(call),
        Protocol::Anthropic | Protocol::OpenAi => asked.top_k.map(|count| json!({ "top_k": write_count(count) })),
    };
    if let Some(schema) = call.request.schema.as_ref().filter(|_| call.native_schema) {
        options.response_format = Some(ChatResponseFormat::JsonSpec(JsonSpec::new("answer", to_json(schema))));
    }
    options
}

/// Gemini's `generationConfig`, if an option is asked for that genai does not know; the whole object, because it replaces
/// the one of genai.
fn gemini_configuration(call: &ProviderCall<'_>) -> Option<Json> {
    let asked = &call.request.options;
    if asked.top_k.is_none() && asked.presence_penalty.is_none() && asked.frequency_penalty.is_none() {
        return None;
    }
    let schema = call.request.schema.as_ref().filter(|_| call.native_schema);
    let entries = [
        ("temperature", asked.temperature.map(Json::from)),
        ("maxOutputTokens", Some(asked.max_tokens.unwrap_or(call.max_tokens).into())),
        ("topP", asked.top_p.map(Json::from)),
        ("topK", asked.top_k.map(write_count)),
        ("seed", asked.seed.map(Json::from)),
        ("stopSequences", (!asked.stop.is_empty()).then(|| json!(asked.stop))),
        ("presencePenalty", asked.presence_penalty.map(Json::from)),
        ("frequencyPenalty", asked.frequency_penalty.map(Json::from)),
        ("responseMimeType", schema.map(|_| "application/json".into())),
        ("responseJsonSchema", schema.map(to_json)),
    ];
    let given = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Some(json!({ "generationConfig": given.collect::<serde_json::Map<_, _>>() }))
}

fn extra_headers(call: &ProviderCall<'_>) -> Vec<(String, String)> {
    let key = ("Idempotency-Key".to_owned(), call.key.to_owned());
    let traceparent = call.traceparent.clone().map(|traceparent| ("traceparent".to_owned(), traceparent));
    std::iter::once(key).chain(traceparent).collect()
}

fn chat_request(request: &GenerateRequest) -> ChatRequest {
    let messages = request.messages.iter().map(|message| match message.role {
        Role::System => ChatMessage::system(message.content.clone()),
        Role::User => ChatMessage::user(user_content(message)),
        Role::Assistant => ChatMessage::assistant(assistant_content(message)),
        Role::Tool => {
            let id = message.tool_call_id.clone().unwrap_or_default();
            let response = ToolResponse::new(id.clone(), message.content.clone());
            // Gemini matches results to calls by name, not by id.
            let named = request.messages.iter().flat_map(|message| &message.tool_calls).find(|call| call.id == id);
            ChatMessage::tool(match named {
                Some(call) => response.with_fn_name(call.name.clone()),
                None => response,
            })
        }
    });
    let chat = ChatRequest::new(messages.collect());
    if request.tools.is_empty() {
        return chat;
    }
    chat.with_tools(request.tools.iter().map(|tool| {
        Tool::new(tool.name.clone()).with_description(tool.description.clone()).with_schema(to_json(&tool.parameters))
    }))
}

fn user_content(message: &Message) -> MessageContent {
    if message.parts.is_empty() {
        return MessageContent::from_text(message.content.clone());
    }
    let part = |part: &MessagePart| match part {
        MessagePart::Text { text } => ContentPart::from_text(text.clone()),
        MessagePart::Image { mime, data, .. } => ContentPart::from_binary_base64(mime.clone(), data.clone(), None),
    };
    MessageContent::from_parts(message.parts.iter().map(part).collect::<Vec<_>>())
}

fn assistant_content(message: &Message) -> MessageContent {
    let mut content = match message.content.is_empty() {
        true => MessageContent::default(),
        false => MessageContent::from_text(message.content.clone()),
    };
    for call in &message.tool_calls {
        content.push(TheirCall {
            call_id: call.id.clone(),
            fn_name: call.name.clone(),
            fn_arguments: to_json(&repair_arguments(&call.arguments)),
            thought_signatures: Some(call.signatures.clone()).filter(|signatures| !signatures.is_empty()),
        });
    }
    content
}

/// The answer of a stream that has ended.
fn read_end(answer: ProviderAnswer, end: StreamEnd) -> Result<ProviderAnswer, ProviderError> {
    let (stop, usage) = (end.captured_stop_reason.clone(), end.captured_usage.clone());
    finish_answer(answer, stop, usage.as_ref(), end.captured_into_tool_calls().unwrap_or_default())
}

/// The answer of a provider that was asked not to stream.
fn read_response(response: ChatResponse, show: &mut (dyn FnMut(&str) + Send)) -> Result<ProviderAnswer, ProviderError> {
    let mut answer = ProviderAnswer::default();
    for text in response.texts() {
        answer.push_text(text, show)?;
    }
    let (stop, usage) = (response.stop_reason.clone(), response.usage.clone());
    finish_answer(answer, stop, Some(&usage), response.into_tool_calls())
}

fn finish_answer(
    mut answer: ProviderAnswer,
    stop: Option<StopReason>,
    usage: Option<&Usage>,
    calls: Vec<TheirCall>,
) -> Result<ProviderAnswer, ProviderError> {
    match stop {
        None => return Err(ProviderError::AnswerCutOff),
        Some(StopReason::ContentFilter(reason)) => {
            return Err(ProviderError::ContentFilter { reason: Some(reason) });
        }
        Some(StopReason::MaxTokens(_)) => answer.finish_reason = Some(FinishReason::Length),
        Some(_) => {}
    }
    let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    answer.usage = usage.and_then(|usage| Some((tokens(usage.prompt_tokens)?, tokens(usage.completion_tokens)?)));
    for call in calls {
        let arguments = match &call.fn_arguments {
            Json::String(text) => parse_arguments(text),
            other => parse_arguments(&other.to_string()),
        };
        let signatures = call.thought_signatures.unwrap_or_default();
        answer.calls.push(ToolCall { id: call.call_id, name: call.fn_name, arguments, signatures });
    }
    Ok(answer)
}

fn convert_error(error: genai::Error, now: SystemTime) -> ProviderError {
    use genai::Error as E;
    match error {
        E::HttpError { status, body, headers, .. }
        | E::WebModelCall { webc_error: webc::Error::ResponseFailedStatus { status, body, headers }, .. } => {
            status_error(status.as_u16(), &headers, &body, now)
        }
        E::WebModelCall { webc_error: webc::Error::Reqwest(error), .. } if error.is_body() || error.is_decode() => {
            ProviderError::ConnectionLost(Some(error.without_url().into()))
        }
        E::WebModelCall { webc_error: webc::Error::Reqwest(error), .. } => ProviderError::from_request(error),
        E::ChatResponse { body, .. } => stream_failure(&body.to_string()),
        E::WebStream { model_iden, cause, error } => match error.downcast::<E>() {
            Ok(inner) => convert_error(*inner, now),
            Err(error) => match error.downcast::<reqwest::Error>() {
                Ok(inner) if inner.is_body() || inner.is_decode() => {
                    ProviderError::ConnectionLost(Some(inner.without_url().into()))
                }
                Ok(inner) => ProviderError::from_request(*inner),
                Err(error) => ProviderError::Library(Box::new(E::WebStream { model_iden, cause, error })),
            },
        },
        error => match (error.status(), error.headers()) {
            (Some(status), Some(headers)) => status_error(status.as_u16(), headers, &error.to_string(), now),
            _ => ProviderError::Library(Box::new(error)),
        },
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
