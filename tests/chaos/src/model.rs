//! The model: its answer is a function of the conversation, so a repeated call gets the same answer.

use serde_json::{Value, json};

/// Number of calls that an agent makes before it answers.
const AGENT_CALLS: usize = 2;

/// The answer to a request of OpenAI's chat protocol, as a stream.
pub(crate) fn answer_stream(request: &Value) -> String {
    let delta = choose_answer(request);
    let reason = if delta.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7});
    let chunk = |delta: Value, reason: Value, usage: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice], "usage": usage});
        format!("data: {chunk}\n\n")
    };
    chunk(delta, Value::Null, Value::Null) + &chunk(json!({}), reason.into(), usage) + "data: [DONE]\n\n"
}

fn choose_answer(request: &Value) -> Value {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tools: Vec<&str> = request["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool.pointer("/function/name").and_then(Value::as_str))
        .collect();
    let asked = messages.iter().rev().find(|message| message["role"] == "user");
    let asked = asked.and_then(|message| message["content"].as_str()).unwrap_or_default();
    let results = messages.iter().filter(|message| message["role"] == "tool").count();
    if tools.contains(&"book") && results == 0 {
        return call_tool("book", results, &json!({"room": "7"}));
    }
    if tools.contains(&"lookup") && results < AGENT_CALLS {
        let tag = asked.rsplit(' ').next().unwrap_or_default();
        return call_tool("lookup", results, &json!({"tag": tag, "item": results.to_string()}));
    }
    if request.get("response_format").is_some() {
        return json!({"role": "assistant", "content": json!({"text": format!("said {asked}")}).to_string()});
    }
    let text = json!({"role": "assistant", "content": format!("I heard: {}", asked.to_lowercase())});
    if tools.contains(&"end") {
        let mut ending = call_tool("end", results, &json!({}));
        ending["content"] = text["content"].clone();
        return ending;
    }
    text
}

fn call_tool(name: &str, number: usize, arguments: &Value) -> Value {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    json!({"role": "assistant", "tool_calls": [{"index": 0, "id": format!("call-{number}"), "type": "function", "function": function}]})
}
