//! Requests to the OpenAI-compatible API, and what their answers contain.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use super::http::{HttpAnswer, RunningServer};

pub(crate) const CHAT_PATH: &str = "/v1/chat/completions";
pub(crate) const JSON_CONTENT_TYPE: &str = "Content-Type: application/json";

pub(crate) fn step_json(name: &str, prompt: &str) -> Value {
    json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": prompt})
}

pub(crate) fn steps_json(id: &str, steps: Value) -> String {
    json!({"id": id, "name": id, "description": "d", "steps": steps}).to_string()
}

pub(crate) fn chat_request(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}]})
}

pub(crate) fn answer_text(reply: &HttpAnswer) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["choices"][0]["message"]["content"].as_str().expect("a text").to_owned()
}

/// Checks the form of an error response and returns its message.
pub(crate) fn check_error(reply: &HttpAnswer, status: u16, kind: &str) -> String {
    assert_eq!(reply.status, status, "{reply:?}");
    assert!(reply.head.contains("content-type: application/json"), "{reply:?}");
    let error = &reply.json()["error"];
    assert_eq!((error["type"].as_str(), &error["param"]), (Some(kind), &Value::Null), "{reply:?}");
    assert!(error["code"].as_str().is_some_and(|code| code.starts_with("FL")), "{reply:?}");
    error["message"].as_str().expect("a message").to_owned()
}

/// Sends a streaming request. Returns the status and the chunks.
pub(crate) fn open_stream(
    server: &RunningServer,
    path: &str,
    mut body: Value,
) -> (u16, impl Iterator<Item = String> + use<>) {
    body["stream"] = true.into();
    let mut reader = BufReader::new(server.send("POST", path, &[JSON_CONTENT_TYPE], &body.to_string()));
    let mut head = String::new();
    reader.read_line(&mut head).expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let data = reader.lines().map_while(Result::ok).filter_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    (status, data)
}

/// The texts of the chunks, up to the end.
pub(crate) fn chunk_texts(chunks: impl Iterator<Item = String>) -> Vec<String> {
    let text = |chunk: String| {
        let chunk: Value = serde_json::from_str(&chunk).ok()?;
        let text = chunk["choices"][0]["delta"]["content"].as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    chunks.take_while(|chunk| chunk != "[DONE]").filter_map(text).collect()
}
