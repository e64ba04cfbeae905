//! OpenAI's chat protocol, as OpenAI, Ollama and almost every other server implement it: the request body and the
//! response stream. Implemented here because genai fails on a finished answer without `[DONE]`, ignores `event: error`,
//! and lets a server's tool index determine how much memory is allocated.

use flowloom_core::chat::{Message, MessagePart, Role, ToolCall};
use flowloom_core::effect::{FinishReason, GenerateRequest};
use flowloom_core::{Value, json};
use serde_json::{Value as Json, json};

use super::answer::ProviderAnswer;
use super::error::ProviderError;
use super::sse::SseEvent;
use super::status::find_provider_message;

/// Maximum number of tool calls in one answer, more than any model makes.
const MAX_TOOL_CALLS: usize = 128;

/// Providers whose API has no `top_k`, and may refuse unknown fields.
const WITHOUT_TOP_K: [&str; 6] = ["openai", "ollama", "groq", "deepseek", "mistral", "xai"];

/// Builds the body of a request to `model` of `provider`.
pub(crate) fn request_body(provider: &str, model: &str, request: &GenerateRequest, native_schema: bool) -> Json {
    let options = &request.options;
    let streams = options.stream.unwrap_or(true);
    let mut body = json!({
        "model": model,
        "messages": request.messages.iter().map(message_json).collect::<Vec<_>>(),
        "stream": streams,
    });
    let mut set = |key: &str, value: Option<Json>| {
        if let (Some(value), Some(body)) = (value, body.as_object_mut()) {
            body.insert(key.to_owned(), value);
        }
    };
    set("stream_options", streams.then(|| json!({ "include_usage": true })));
    // Reasoning models reject `max_tokens`.
    let reasons = ["o1", "o3", "o4", "gpt-5"].iter().any(|start| model.starts_with(start));
    let most = if reasons { "max_completion_tokens" } else { "max_tokens" };
    set(most, options.max_tokens.map(Json::from));
    set("temperature", options.temperature.map(Json::from));
    set("top_p", options.top_p.map(Json::from));
    set("top_k", options.top_k.filter(|_| !WITHOUT_TOP_K.contains(&provider)).map(write_count));
    set("presence_penalty", options.presence_penalty.map(Json::from));
    set("frequency_penalty", options.frequency_penalty.map(Json::from));
    set("seed", options.seed.map(Json::from));
    set("stop", (!options.stop.is_empty()).then(|| json!(options.stop)));
    let tools = request.tools.iter().map(|tool| {
        let function =
            json!({ "name": tool.name, "description": tool.description, "parameters": to_json(&tool.parameters) });
        json!({ "type": "function", "function": function })
    });
    set("tools", (!request.tools.is_empty()).then(|| tools.collect()));
    set("tool_choice", options.must_call.then(|| "required".into()));
    if let Some(schema) = request.schema.as_ref().filter(|_| native_schema) {
        let schema = to_json(schema);
        let strict = is_strict(&schema);
        let format = json!({ "name": "answer", "schema": schema, "strict": strict });
        set("response_format", Some(json!({ "type": "json_schema", "json_schema": format })));
    }
    body
}

fn message_json(message: &Message) -> Json {
    match message.role {
        Role::System => json!({ "role": "system", "content": message.content }),
        Role::User if !message.parts.is_empty() => json!({ "role": "user", "content": parts_json(&message.parts) }),
        Role::User => json!({ "role": "user", "content": message.content }),
        Role::Tool => json!({ "role": "tool", "content": message.content, "tool_call_id": message.tool_call_id }),
        Role::Assistant if message.tool_calls.is_empty() => json!({ "role": "assistant", "content": message.content }),
        Role::Assistant => {
            let calls = message.tool_calls.iter().map(|call| {
                let function =
                    json!({ "name": call.name, "arguments": json::write_json(&repair_arguments(&call.arguments)) });
                json!({ "id": call.id, "type": "function", "function": function })
            });
            let content = (!message.content.is_empty()).then_some(&message.content);
            json!({ "role": "assistant", "content": content, "tool_calls": calls.collect::<Vec<_>>() })
        }
    }
}

/// The arguments of a call as an object: broken ones are repaired as they were for the call, because strict providers
/// refuse anything else.
pub(super) fn repair_arguments(arguments: &Value) -> Value {
    let repaired = arguments.as_str().map(|text| json::read_lenient(text).unwrap_or_default());
    match repaired.as_ref().unwrap_or(arguments) {
        object @ Value::Map(_) => object.clone(),
        _ => Value::map::<&str>([]),
    }
}

fn parts_json(parts: &[MessagePart]) -> Json {
    let part = |part: &MessagePart| match part {
        MessagePart::Text { text } => json!({ "type": "text", "text": text }),
        MessagePart::Image { mime, data, .. } => {
            json!({ "type": "image_url", "image_url": { "url": format!("data:{mime};base64,{data}") } })
        }
    };
    parts.iter().map(part).collect()
}

/// A number that APIs expect without a fraction, if it has none.
pub(crate) fn write_count(count: f64) -> Json {
    if count.fract() == 0.0 && count.abs() < 1e9 { Json::from(count as i64) } else { Json::from(count) }
}

/// Converts a value to the type that provider libraries use.
pub(crate) fn to_json(value: &Value) -> Json {
    serde_json::from_str(&json::write_json(value)).unwrap_or_default()
}

/// Whether OpenAI accepts the schema as strict: every object is closed and all its properties are required.
fn is_strict(schema: &Json) -> bool {
    match schema {
        Json::Object(entries) => {
            let closed = entries.get("properties").and_then(Json::as_object).is_none_or(|properties| {
                let required: Vec<&str> = entries
                    .get("required")
                    .and_then(Json::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Json::as_str)
                    .collect();
                entries.get("additionalProperties") == Some(&Json::Bool(false))
                    && properties.keys().all(|key| required.contains(&key.as_str()))
            });
            let open =
                entries.get("type").and_then(Json::as_str) == Some("object") && !entries.contains_key("properties");
            closed && !open && entries.values().all(is_strict)
        }
        Json::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

/// A tool call as it arrives, piece by piece.
#[derive(Default)]
struct Pieces {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

/// The kind of progress that an event makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A part of the answer: text, reasoning, a tool call, the end or the usage.
    Answer,
    /// Nothing, such as a ping or an empty chunk.
    Nothing,
}

/// An answer as it arrives.
#[derive(Default)]
pub(crate) struct AnswerAssembler {
    answer: ProviderAnswer,
    calls: Vec<Pieces>,
    /// Size of the arguments of all calls, in bytes.
    argument_bytes: usize,
    finish: Option<String>,
    /// Whether the server has marked the end.
    pub(crate) done: bool,
}

impl AnswerAssembler {
    /// Processes an event; passes text to `show`.
    pub(crate) fn push_event(
        &mut self,
        event: &SseEvent,
        show: &mut dyn FnMut(&str),
    ) -> Result<Progress, ProviderError> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Progress::Answer);
        }
        if event.name == "error" {
            return Err(stream_failure(&event.data));
        }
        if event.name == "ping" || event.data.trim().is_empty() {
            return Ok(Progress::Nothing);
        }
        let chunk: Json = serde_json::from_str(&event.data).map_err(ProviderError::AnswerNotJson)?;
        self.push_chunk(&chunk, show)
    }

    /// Processes a chunk, or the whole answer of a server that does not stream.
    pub(crate) fn push_chunk(&mut self, chunk: &Json, show: &mut dyn FnMut(&str)) -> Result<Progress, ProviderError> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(stream_failure(&chunk.to_string()));
        }
        let usage = chunk.get("usage").or_else(|| chunk.pointer("/x_groq/usage"));
        let tokens = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Json::as_u64);
        if let Some(model) = chunk.get("model").and_then(Json::as_str) {
            self.answer.set_model(model);
        }
        let mut progress = Progress::Nothing;
        let used = tokens("prompt_tokens").zip(tokens("completion_tokens"));
        // Some servers repeat the usage in every chunk.
        if used.is_some() && used != self.answer.usage {
            self.answer.usage = used;
            progress = Progress::Answer;
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(progress) };
        let delta = choice.get("delta");
        let part = delta.or_else(|| choice.get("message")).unwrap_or(&Json::Null);
        match part.get("content") {
            Some(Json::String(text)) => self.answer.push_text(text, show)?,
            Some(Json::Array(pieces)) => {
                for text in pieces.iter().filter_map(|piece| piece.get("text").and_then(Json::as_str)) {
                    self.answer.push_text(text, show)?;
                }
            }
            _ => {}
        }
        if let Some(refusal) = part.get("refusal").and_then(Json::as_str).filter(|text| !text.is_empty()) {
            self.answer.push_text(refusal, show)?;
        }
        for piece in part.get("tool_calls").and_then(Json::as_array).into_iter().flatten() {
            self.push_tool_call(piece, delta.is_none())?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Json::as_str).filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason.to_owned());
            progress = Progress::Answer;
        }
        Ok(if is_part_of_answer(part) { Progress::Answer } else { progress })
    }

    /// Adds a call, or a piece of one. Without a stream each is a call of its own, whatever ids and indexes they have.
    fn push_tool_call(&mut self, piece: &Json, is_whole: bool) -> Result<(), ProviderError> {
        let id = piece.get("id").and_then(Json::as_str).unwrap_or_default();
        let function = piece.get("function").unwrap_or(&Json::Null);
        let name = function.get("name").and_then(Json::as_str).filter(|name| !name.is_empty());
        let open = match piece.get("index").and_then(Json::as_u64).filter(|_| !is_whole) {
            // Some servers give all calls of an answer the same index. Others give each piece of a call another id, but only
            // the first one a name.
            Some(index) => {
                let is_other = |call: &Pieces| name.is_some() && !call.id.is_empty() && !id.is_empty() && call.id != id;
                let last = self.calls.iter().rposition(|call| call.index == index);
                last.filter(|at| !is_other(&self.calls[*at])).ok_or(index)
            }
            // Servers that omit the index send whole calls, which have names, or pieces of the last one.
            None if !is_whole && id.is_empty() && name.is_none() && !self.calls.is_empty() => Ok(self.calls.len() - 1),
            None if is_whole || id.is_empty() => Err(self.calls.len() as u64),
            None => self.calls.iter().position(|call| call.id == id).ok_or(self.calls.len() as u64),
        };
        let at = match open {
            Ok(at) => at,
            Err(_) if self.calls.len() == MAX_TOOL_CALLS => {
                return Err(ProviderError::TooManyToolCalls { limit: MAX_TOOL_CALLS });
            }
            Err(index) => {
                self.calls.push(Pieces { index, ..Pieces::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        match function.get("arguments") {
            Some(Json::String(text)) => {
                self.argument_bytes += text.len();
                call.arguments.push_str(text);
            }
            Some(whole @ Json::Object(_)) => {
                call.arguments = whole.to_string();
                self.argument_bytes += call.arguments.len();
            }
            _ => {}
        }
        self.answer.check_size(self.argument_bytes)
    }

    /// Returns the finished answer. Fails if it is incomplete.
    pub(crate) fn finish_answer(mut self) -> Result<ProviderAnswer, ProviderError> {
        match self.finish.as_deref() {
            None => return Err(ProviderError::AnswerCutOff),
            Some("error") => return Err(ProviderError::EndedWithError),
            Some("content_filter") => return Err(ProviderError::ContentFilter { reason: None }),
            Some("length" | "max_tokens") => self.answer.finish_reason = Some(FinishReason::Length),
            // `stop`, `tool_calls`, and other names of a regular end.
            Some(_) => {}
        }
        for (index, call) in self.calls.into_iter().enumerate() {
            // Results are matched to calls by id.
            let is_used = self.answer.calls.iter().any(|earlier| earlier.id == call.id);
            let id = if call.id.is_empty() || is_used { format!("call_{index}") } else { call.id };
            self.answer.calls.push(ToolCall::new(id, call.name, parse_arguments(&call.arguments)));
        }
        Ok(self.answer)
    }
}

/// Whether a delta contains anything besides the role. Servers name reasoning in different ways.
fn is_part_of_answer(delta: &Json) -> bool {
    let is_filled = |value: &Json| match value {
        Json::Null => false,
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(entries) => !entries.is_empty(),
        Json::Bool(_) | Json::Number(_) => true,
    };
    delta.as_object().is_some_and(|entries| entries.iter().any(|(name, value)| name != "role" && is_filled(value)))
}

/// Arguments as the model wrote them: parsed as JSON if possible, otherwise the text.
pub(crate) fn parse_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::map::<&str>([]);
    }
    json::parse_value(text).unwrap_or_else(|_| text.into())
}

/// An error that the provider sent in place of the rest of an answer.
pub(crate) fn stream_failure(data: &str) -> ProviderError {
    let passing = ["overloaded", "rate_limit", "server_error", "timeout", "unavailable"];
    ProviderError::StreamFailed {
        message: find_provider_message(data),
        is_transient: passing.iter().any(|word| data.contains(word)),
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
