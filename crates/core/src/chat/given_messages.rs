//! A whole conversation that is given to a run as its input.

use super::content::build_message;
use super::user_message::read_part;
use super::{Message, MessagePart, Role, ToolCall};
use crate::json::parse_value;
use crate::render;
use crate::value::{Map, Value};

/// Reads the messages of a conversation, as results and stored conversations write them. The forms of OpenAI and LangChain
/// are read as well: a content of parts, calls with a `function`, the roles `human` and `ai`.
///
/// # Errors
///
/// If the value is not a list, or one of its entries is not a message. The text names the entry.
pub fn read_messages(value: &Value) -> Result<Vec<Message>, String> {
    let Some(items) = value.as_list() else {
        return Err(format!("messages is a list of messages, not {}", value.kind_name()));
    };
    let read = |(index, item)| read_message(item).map_err(|why| format!("messages[{index}]: {why}"));
    items.iter().enumerate().map(read).collect()
}

fn read_message(item: &Value) -> Result<Message, String> {
    if let Ok(message) = serde_json::from_str(&render::to_json(item)) {
        return Ok(message);
    }
    let Some(map) = item.as_map() else {
        return Err(format!("a message is an object with \"role\" and \"content\", not {}", item.kind_name()));
    };
    let role = read_role(map)?;
    let calls = map.get("tool_calls").filter(|calls| **calls != Value::Null).map(read_calls).transpose()?;
    let tool_calls = calls.unwrap_or_default();
    let message = match map.get("content") {
        None | Some(Value::Null) if !tool_calls.is_empty() => Message::new(role, ""),
        Some(Value::String(text)) => Message::new(role, &**text),
        Some(Value::List(parts)) => {
            build_message(role, parts.iter().map(read_content_part).collect::<Result<Vec<_>, _>>()?)
        }
        None | Some(Value::Null) => return Err("it has no \"content\"".to_owned()),
        Some(other) => return Err(format!("\"content\" is a text or a list of parts, not {}", other.kind_name())),
    };
    let tool_call_id = map.get("tool_call_id").and_then(Value::as_str).map(str::to_owned);
    Ok(Message { tool_calls, tool_call_id, ..message })
}

fn read_role(map: &Map) -> Result<Role, String> {
    match map.get("role").map(|role| role.as_str().unwrap_or_default()) {
        Some("system" | "developer") => Ok(Role::System),
        Some("user" | "human") => Ok(Role::User),
        Some("assistant" | "ai") => Ok(Role::Assistant),
        Some("tool") => Ok(Role::Tool),
        Some(other) => Err(format!("there is no role {other:?}; expected system, user, assistant or tool")),
        None => Err("it has no \"role\"; expected system, user, assistant or tool".to_owned()),
    }
}

/// A part of a content: OpenAI's texts and images, or what the message of a user may hold.
fn read_content_part(part: &Value) -> Result<MessagePart, String> {
    match part.get("type").and_then(Value::as_str) {
        Some("text" | "input_text" | "output_text") => match part.get("text").and_then(Value::as_str) {
            Some(text) => Ok(MessagePart::Text { text: text.to_owned() }),
            None => Err("a part of the type \"text\" has no \"text\"".to_owned()),
        },
        Some("image_url" | "input_image") => {
            let url = part.get("image_url").map(|image| image.get("url").unwrap_or(image));
            let Some((mime, data)) = url.and_then(Value::as_str).and_then(split_data_url) else {
                return Err("an image is a \"data:\" URL in base64; no address is fetched".to_owned());
            };
            Ok(MessagePart::Image { mime: mime.to_owned(), data: data.into(), name: "".into() })
        }
        Some(other) => Err(format!("there is no type of parts {other:?}; expected text or image_url")),
        None => read_part(part),
    }
}

/// The media type and the base64 text of a `data:` URL; `None` for any other URL.
pub fn split_data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

fn read_calls(calls: &Value) -> Result<Vec<ToolCall>, String> {
    let Some(calls) = calls.as_list() else {
        return Err(format!("\"tool_calls\" is a list, not {}", calls.kind_name()));
    };
    let read = |call: &Value| {
        let function = call.get("function").unwrap_or(call);
        let id = call.get("id").and_then(Value::as_str);
        let (Some(id), Some(name)) = (id, function.get("name").and_then(Value::as_str)) else {
            return Err("a call of \"tool_calls\" needs an \"id\" and a \"name\"".to_owned());
        };
        let given = function.get("arguments").or_else(|| function.get("args")).cloned().unwrap_or_default();
        let arguments = given.as_str().and_then(|text| parse_value(text).ok()).unwrap_or(given);
        Ok(ToolCall::new(id, name, arguments))
    };
    calls.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Message>, String> {
        read_messages(&parse_value(text).expect("JSON"))
    }

    #[test]
    fn the_forms_of_others_are_read() {
        let messages = read(
            r#"[
              {"role": "human", "content": "hi"},
              {"role": "user", "content": [{"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}]},
              {"role": "ai", "content": null,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
              {"role": "tool", "tool_call_id": "c1", "content": "2"},
              {"role": "assistant", "content": "", "tool_calls": [{"id": "c2", "name": "f", "args": {}}]}
            ]"#,
        )
        .expect("valid");
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
        assert_eq!((messages[1].content.as_str(), messages[1].parts.len()), ("look", 2));
        assert_eq!(messages[2].tool_calls[0].arguments.get("a"), Some(&1.into()));
        assert_eq!(messages[4].tool_calls[0].id, "c2");
    }

    #[test]
    fn what_is_no_message_is_named() {
        for (text, why) in [
            ("5", "messages is a list of messages, not a number"),
            (r#"["hi"]"#, "messages[0]: a message is an object with \"role\" and \"content\", not text"),
            (r#"[{"role":"user"}]"#, "messages[0]: it has no \"content\""),
            (r#"[{"content":"x"}]"#, "messages[0]: it has no \"role\"; expected system, user, assistant or tool"),
            (
                r#"[{"role":"bot","content":"x"}]"#,
                "messages[0]: there is no role \"bot\"; expected system, user, assistant or tool",
            ),
            (
                r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.example/x.png"}}]}]"#,
                "messages[0]: an image is a \"data:\" URL in base64; no address is fetched",
            ),
        ] {
            assert_eq!(read(text).expect_err("refused"), why);
        }
    }
}
