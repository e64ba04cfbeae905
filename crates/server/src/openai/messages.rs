//! Messages of a client, in the forms of both OpenAI interfaces.

use std::sync::Arc;

use flowloom_core::chat::{read_user_message, split_data_url};
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::value::{Blob, Value};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::problem::{ApiResult, Problem};

/// A message of a conversation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatMessage)]
pub(crate) struct ChatMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) content: Option<MessageContent>,
    /// Tool calls requested by the assistant.
    #[serde(default)]
    pub(crate) tool_calls: Option<Vec<MessageToolCall>>,
    /// The call to which a `tool` message is the result.
    #[serde(default)]
    pub(crate) tool_call_id: Option<String>,
}

/// A text, or a list of parts.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ChatContent)]
pub(crate) enum MessageContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A text, or an image as a `data:` URL. Audio and files are rejected.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatContentPart)]
pub(crate) struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    image_url: Option<ImageUrl>,
}

/// The address of an image, as the two interfaces write it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ChatImageUrl)]
pub(crate) enum ImageUrl {
    Address(String),
    Object { url: String },
}

/// A tool call.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatToolCall)]
pub(crate) struct MessageToolCall {
    pub(crate) id: String,
    /// The function that is called.
    #[serde(default)]
    pub(crate) function: Option<CalledFunction>,
    /// The custom tool that is called instead.
    #[serde(default)]
    pub(crate) custom: Option<CustomCall>,
}

/// A call of a custom tool, whose input is text.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatCustomCall)]
pub(crate) struct CustomCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) input: String,
}

/// The called function.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatFunctionCall)]
pub(crate) struct CalledFunction {
    pub(crate) name: String,
    /// Arguments as JSON text.
    #[serde(default)]
    pub(crate) arguments: String,
}

/// The messages of a client.
#[derive(Debug)]
pub(crate) struct Conversation(pub(crate) Vec<ChatMessage>);

impl Conversation {
    /// The messages of a request. Fails with `RequestInvalid` unless a user or a tool had the last word.
    pub(crate) fn new(messages: Vec<ChatMessage>) -> ApiResult<Conversation> {
        let last = messages.iter().rev().find(|message| !is_instruction(message));
        let problem = match last.map(|message| message.role.as_str()) {
            Some("user" | "tool") => return Ok(Conversation(messages)),
            None => "there is no message of the user".to_owned(),
            Some(role) => format!("the last message is of the role {role}; expected user or tool"),
        };
        Err(Problem::new(Code::RequestInvalid, problem))
    }

    /// The tool results at the end of the conversation, as pairs of call id and text. Messages of the user may follow
    /// them. There are none if the assistant has answered since.
    pub(crate) fn tool_results(&self) -> ApiResult<Vec<(&str, String)>> {
        let last = self.0.iter().rposition(|message| message.role == "tool");
        let is_open =
            |message: &&ChatMessage| is_instruction(message) || message.role == "tool" || calls_tools(message);
        let after = last.map_or(&[][..], |last| &self.0[last + 1..]);
        if after.iter().any(|message| message.role == "assistant") {
            return Ok(Vec::new());
        }
        let round = self.0[..last.map_or(0, |last| last + 1)].iter().rev().take_while(is_open);
        let result = |message| message_text(message).map(|text| (tool_call_id(message), text));
        let mut results = round.filter(|message| message.role == "tool").map(result).collect::<ApiResult<Vec<_>>>()?;
        results.reverse();
        Ok(results)
    }

    /// Whether the last message is the user's, apart from instructions.
    pub(crate) fn ends_with_user(&self) -> bool {
        self.0.iter().rev().find(|message| !is_instruction(message)).is_some_and(|last| last.role == "user")
    }

    /// Whether a message of the assistant contains the tool call with this id.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.0.iter().flat_map(|message| message.tool_calls.iter().flatten()).any(|call| call.id == id)
    }

    /// The text of the last user message.
    pub(crate) fn last_user_text(&self) -> ApiResult<String> {
        self.last_user_index().map_or(Ok(String::new()), |at| message_text(&self.0[at]))
    }

    /// The inputs of a graph: the last user message, and all other messages. If the conversation ends with a tool
    /// result, all messages count as earlier.
    pub(crate) fn to_graph_inputs(&self) -> ApiResult<Value> {
        let last = self.last_user_index().filter(|_| self.ends_with_user());
        let others = self.0.iter().enumerate().filter(|(at, _)| Some(*at) != last);
        let before = others.filter_map(|(_, message)| to_graph_message(message).transpose());
        let before = ("messages", Value::list(before.collect::<ApiResult<_>>()?));
        Ok(match last {
            Some(last) => Value::map([("message", message_value(&self.0[last])?), before]),
            None => Value::map([before]),
        })
    }

    /// The instructions, and the messages after the last tool result: the part that a continued conversation lacks.
    pub(crate) fn without_tool_results(&self) -> Conversation {
        let since = self.0.iter().rposition(|message| message.role == "tool").map_or(0, |last| last + 1);
        let is_kept = |(at, message): &(usize, &ChatMessage)| *at >= since || is_instruction(message);
        Conversation(self.0.iter().enumerate().filter(is_kept).map(|(_, message)| message.clone()).collect())
    }

    fn last_user_index(&self) -> Option<usize> {
        self.0.iter().rposition(|message| message.role == "user")
    }
}

/// Whether a message instructs the model, so that it is no turn of its own.
fn is_instruction(message: &ChatMessage) -> bool {
    matches!(message.role.as_str(), "system" | "developer")
}

fn calls_tools(message: &ChatMessage) -> bool {
    message.role == "assistant" && message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
}

fn tool_call_id(message: &ChatMessage) -> &str {
    message.tool_call_id.as_deref().unwrap_or_default()
}

/// Converts a message for a graph; `None` for other roles.
fn to_graph_message(message: &ChatMessage) -> ApiResult<Option<Value>> {
    let role = match message.role.as_str() {
        "developer" => "system",
        role @ ("system" | "user" | "assistant" | "tool") => role,
        _ => return Ok(None),
    };
    let mut fields = vec![("role", Value::from(role))];
    match message_value(message)? {
        parts @ Value::List(_) if role == "user" => {
            let message = read_user_message(&parts).map_err(|problem| Problem::new(Code::RequestInvalid, problem))?;
            fields.push(("content", message.content.as_str().into()));
            let parts = serde_json::to_string(&message.parts).ok().and_then(|parts| parse_value(&parts).ok());
            fields.extend(parts.map(|parts| ("parts", parts)));
        }
        _ => fields.push(("content", message_text(message)?.into())),
    }
    if let Some(calls) = message.tool_calls.as_ref().filter(|calls| !calls.is_empty()) {
        fields.push(("tool_calls", Value::list(calls.iter().map(to_graph_call).collect())));
    }
    if role == "tool" {
        fields.push(("tool_call_id", tool_call_id(message).into()));
    }
    Ok(Some(Value::map(fields)))
}

fn to_graph_call(call: &MessageToolCall) -> Value {
    let (name, arguments) = match (&call.function, &call.custom) {
        (Some(CalledFunction { name, arguments }), _) => {
            (name.as_str(), parse_value(arguments).unwrap_or_else(|_| arguments.as_str().into()))
        }
        (None, Some(CustomCall { name, input })) => {
            (name.as_str(), Value::map([("input", Value::from(input.as_str()))]))
        }
        (None, None) => ("", Value::Null),
    };
    Value::map([("id", Value::from(call.id.as_str())), ("name", name.into()), ("arguments", arguments)])
}

/// The content of a message: its text, or a list of texts and images if it has images.
fn message_value(message: &ChatMessage) -> ApiResult<Value> {
    let is_image = |part: &ContentPart| part.image_url.is_some();
    match &message.content {
        Some(MessageContent::Parts(parts)) if parts.iter().any(is_image) => {
            let part = |part: &ContentPart| match &part.image_url {
                Some(image) => read_image(image),
                None => Ok(part_text(part)?.into()),
            };
            Ok(Value::list(parts.iter().map(part).collect::<ApiResult<_>>()?))
        }
        _ => Ok(message_text(message)?.into()),
    }
}

/// The image of a `data:` URL. Other addresses are rejected: the server fetches nothing for a client.
fn read_image(image: &ImageUrl) -> ApiResult<Value> {
    let (ImageUrl::Address(url) | ImageUrl::Object { url }) = image;
    match split_data_url(url).filter(|(mime, _)| mime.starts_with("image/")) {
        Some((mime, data)) => Ok(Value::Blob(Arc::new(Blob::new("image", mime, data)))),
        None => Err(Problem::new(Code::RequestInvalid, "an image must be a URL that starts with data:image/…;base64,")),
    }
}

/// The text of a message. Fails with `RequestInvalid` for parts other than text.
fn message_text(message: &ChatMessage) -> ApiResult<String> {
    match &message.content {
        None => Ok(String::new()),
        Some(MessageContent::Text(text)) => Ok(text.clone()),
        Some(MessageContent::Parts(parts)) => {
            Ok(parts.iter().map(part_text).collect::<ApiResult<Vec<_>>>()?.join("\n"))
        }
    }
}

fn part_text(part: &ContentPart) -> ApiResult<&str> {
    match part.kind.as_str() {
        "text" | "input_text" | "output_text" => Ok(part.text.as_deref().unwrap_or_default()),
        "refusal" => Ok(part.refusal.as_deref().unwrap_or_default()),
        other => {
            let message = format!("unsupported content part {other:?}; expected text, or images in a conversation");
            Err(Problem::new(Code::RequestInvalid, message))
        }
    }
}
