//! A model with the OpenAI protocol that obeys every instruction that it reads: in messages, results of tools, and
//! descriptions of tools. An instruction is `CALL(name, {arguments})`.

use std::io::{BufReader, Write as _};
use std::net::TcpStream;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::listener::{RecordingServer, read_request};

/// How an instruction begins.
const INSTRUCTION_START: &str = "CALL(";

/// Starts the model. It records everything that the program sent it.
pub(crate) fn start_obedient_model() -> RecordingServer {
    RecordingServer::start(answer_request)
}

fn answer_request(mut stream: TcpStream, requests: &Mutex<Vec<String>>) {
    let Ok(handle) = stream.try_clone() else { return };
    let Some((_, body)) = read_request(&mut BufReader::new(handle)) else { return };
    let reply = reply_obediently(&serde_json::from_str(&body).unwrap_or_default()).to_string();
    requests.lock().push(body);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let _ = write!(stream, "{head}content-length: {}\r\n\r\n{reply}", reply.len());
}

/// Calls the functions that it was asked to call and has not called yet; otherwise answers with what it has read.
fn reply_obediently(request: &Value) -> Value {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let done: Vec<String> = messages.iter().flat_map(list_calls).collect();
    let mut read: Vec<String> = messages.iter().map(|message| text_of(&message["content"])).collect();
    let tools = request["tools"].as_array().into_iter().flatten();
    read.extend(tools.map(|tool| tool["function"]["description"].as_str().unwrap_or_default().to_owned()));
    let orders: Vec<(String, Value)> = read.iter().flat_map(|text| find_instructions(text)).collect();
    let mut calls: Vec<Value> = Vec::new();
    for (name, arguments) in orders {
        let call = format!("{name} {arguments}");
        let is_new = !done.contains(&call) && calls.iter().all(|one| one["id"] != call.as_str());
        if is_new {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            calls.push(json!({"id": call, "type": "function", "function": function}));
        }
    }
    let message = match calls.is_empty() {
        true => json!({"role": "assistant", "content": format!("I read: {}", read.join("\n"))}),
        false => json!({"role": "assistant", "content": null, "tool_calls": calls}),
    };
    let reason = if message["content"].is_null() { "tool_calls" } else { "stop" };
    json!({"id": "c", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
}

/// The calls of a message of its own, as `name arguments`.
fn list_calls(message: &Value) -> Vec<String> {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let call = |call: &Value| {
        let arguments: Value = serde_json::from_str(&text_of(&call["function"]["arguments"])).unwrap_or_default();
        format!("{} {arguments}", text_of(&call["function"]["name"]))
    };
    calls.map(call).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The instructions in a text, also if the text is within JSON.
fn find_instructions(text: &str) -> Vec<(String, Value)> {
    let mut forms = vec![text.to_owned()];
    for _ in 0..3 {
        let inner = forms.last().map(|form| form.replace("\\\"", "\"").replace("\\\\", "\\")).unwrap_or_default();
        forms.push(inner);
    }
    let mut found = Vec::new();
    for form in forms {
        for (at, _) in form.match_indices(INSTRUCTION_START) {
            let Some((name, rest)) = form[at + INSTRUCTION_START.len()..].split_once(", ") else { continue };
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            if let Some(Ok(arguments @ Value::Object(_))) = values.next() {
                found.push((name.to_owned(), arguments));
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}
