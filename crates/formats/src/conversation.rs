//! Conversations in the form of the formats' results.

use std::sync::Arc;

use flowloom_core::chat::{Message, Role, Thread, ToolCall};
use flowloom_core::value::{Map, Value};

/// The messages as a list of `{role, content}`.
pub(crate) fn messages_value(thread: &Thread) -> Value {
    Value::list(thread.messages().iter().map(message_value).collect())
}

/// The stored messages of a conversation as results write them: the arguments of a tool call are `args`.
pub fn present_stored_messages(messages: &Value) -> Value {
    let call = |call: &Value| {
        let Some(map) = call.as_map() else { return call.clone() };
        let rename = |name: &Arc<str>| if **name == *"arguments" { "args".into() } else { name.clone() };
        // Signatures are for the provider only.
        let shown = map.iter().filter(|(name, _)| ***name != *"signatures");
        shown.map(|(name, value)| (rename(name), value.clone())).collect::<Map>().into()
    };
    let message = |message: &Value| match (message.as_map(), message.get("tool_calls").and_then(Value::as_list)) {
        (Some(map), Some(calls)) => {
            let mut map = map.clone();
            map.insert("tool_calls".into(), Value::list(calls.iter().map(call).collect()));
            map.into()
        }
        _ => message.clone(),
    };
    Value::list(messages.as_list().unwrap_or_default().iter().map(message).collect())
}

/// The text of the model's last message; empty if there is none.
pub(crate) fn last_answer(thread: &Thread) -> Value {
    let message = thread.messages().iter().rev().find(|message| message.role == Role::Assistant);
    message.map_or("", |message| message.content.as_str()).into()
}

fn message_value(message: &Message) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut map = Map::from_iter([("role".into(), role.into()), ("content".into(), message.content.as_str().into())]);
    if !message.tool_calls.is_empty() {
        let call = |call: &ToolCall| {
            Value::map([
                ("id", Value::from(call.id.as_str())),
                ("name", call.name.as_str().into()),
                ("args", call.arguments.clone()),
            ])
        };
        map.insert("tool_calls".into(), Value::list(message.tool_calls.iter().map(call).collect()));
    }
    if let Some(id) = &message.tool_call_id {
        map.insert("tool_call_id".into(), id.as_str().into());
    }
    map.into()
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::parse_value;

    use super::*;

    #[test]
    fn stored_messages_are_presented_like_those_of_a_result() {
        let stored = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"1","name":"f","arguments":{"arguments":2}}]}]"#;
        let presented = present_stored_messages(&parse_value(stored).expect("JSON"));
        let calls = presented.as_list().and_then(|list| list[1].get("tool_calls")?.as_list()?.first()).cloned();
        assert_eq!(calls, parse_value(r#"{"id":"1","name":"f","args":{"arguments":2}}"#).ok());
        assert_eq!(
            presented.as_list().map(|list| list[0].clone()),
            parse_value(r#"{"role":"user","content":"hi"}"#).ok()
        );
    }
}
