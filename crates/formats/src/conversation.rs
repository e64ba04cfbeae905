//! Conversations in the form of the formats' results.

use flowloom_core::chat::{Message, Role, Thread, ToolCall};
use flowloom_core::value::{Map, Value};

/// The messages as a list of `{role, content}`.
pub(crate) fn messages_value(thread: &Thread) -> Value {
    Value::list(thread.messages().iter().map(message_value).collect())
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
