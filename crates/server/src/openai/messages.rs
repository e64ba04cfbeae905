//! Messages of a client, in the forms of both OpenAI interfaces.

use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::problem::{Answer, Problem};

/// A message of a conversation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatMessage)]
pub(crate) struct Message {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) content: Option<Content>,
    /// Tool calls requested by the assistant.
    #[serde(default)]
    pub(crate) tool_calls: Option<Vec<Call>>,
    /// The call to which a `tool` message is the result.
    #[serde(default)]
    pub(crate) tool_call_id: Option<String>,
}

/// A text, or a list of parts.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ChatContent)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A text part; images, audio and files are rejected.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatContentPart)]
pub(crate) struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

/// A tool call.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatToolCall)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) function: Function,
}

/// The called function.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = ChatFunctionCall)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Arguments as JSON text.
    #[serde(default)]
    pub(crate) arguments: String,
}

/// The messages of a client.
#[derive(Debug)]
pub(crate) struct Conversation(pub(crate) Vec<Message>);

impl Conversation {
    /// The tool results at the end of the conversation, as pairs of call id and text.
    pub(crate) fn results(&self) -> Answer<Vec<(&str, String)>> {
        let told = self.0.iter().rev().take_while(|message| message.role == "tool");
        let result = |message| text(message).map(|text| (id(message), text));
        let mut results = told.map(result).collect::<Answer<Vec<_>>>()?;
        results.reverse();
        Ok(results)
    }

    /// The text of the last user message.
    pub(crate) fn text(&self) -> Answer<String> {
        self.last_of_user().map_or(Ok(String::new()), |at| text(&self.0[at]))
    }

    /// The inputs of a graph: the last user message, and all messages before it. If the conversation ends with a tool
    /// result, all messages count as earlier.
    pub(crate) fn as_inputs(&self) -> Answer<Value> {
        let is_told = self.0.last().is_some_and(|last| last.role == "tool");
        let last = self.last_of_user().filter(|_| !is_told);
        let before = self.0[..last.unwrap_or(self.0.len())].iter().filter_map(|message| said(message).transpose());
        let before = ("messages", Value::list(before.collect::<Answer<_>>()?));
        Ok(match last {
            Some(last) => Value::map([before, ("message", text(&self.0[last])?.into())]),
            None => Value::map([before]),
        })
    }

    fn last_of_user(&self) -> Option<usize> {
        self.0.iter().rposition(|message| message.role == "user")
    }
}

fn id(message: &Message) -> &str {
    message.tool_call_id.as_deref().unwrap_or_default()
}

/// Converts a message for a graph; `None` for other roles.
fn said(message: &Message) -> Answer<Option<Value>> {
    let role = match message.role.as_str() {
        "developer" => "system",
        role @ ("system" | "user" | "assistant" | "tool") => role,
        _ => return Ok(None),
    };
    let mut said = vec![("role", Value::from(role)), ("content", text(message)?.into())];
    if let Some(calls) = message.tool_calls.as_ref().filter(|calls| !calls.is_empty()) {
        said.push(("tool_calls", Value::list(calls.iter().map(called).collect())));
    }
    if role == "tool" {
        said.push(("tool_call_id", id(message).into()));
    }
    Ok(Some(Value::map(said)))
}

fn called(call: &Call) -> Value {
    let arguments = &call.function.arguments;
    let read = parse_value(arguments).unwrap_or_else(|_| arguments.as_str().into());
    Value::map([
        ("id", Value::from(call.id.as_str())),
        ("name", call.function.name.as_str().into()),
        ("arguments", read),
    ])
}

/// The text of a message. Fails with `RequestInvalid` for parts other than text.
fn text(message: &Message) -> Answer<String> {
    match &message.content {
        None => Ok(String::new()),
        Some(Content::Text(text)) => Ok(text.clone()),
        Some(Content::Parts(parts)) => Ok(parts.iter().map(part).collect::<Answer<Vec<_>>>()?.join("\n")),
    }
}

fn part(part: &Part) -> Answer<&str> {
    match part.kind.as_str() {
        "text" | "input_text" | "output_text" => Ok(part.text.as_deref().unwrap_or_default()),
        "refusal" => Ok(part.refusal.as_deref().unwrap_or_default()),
        other => {
            let message = format!("unsupported content part {other:?}; expected text");
            Err(Problem::new(Code::RequestInvalid, message))
        }
    }
}
