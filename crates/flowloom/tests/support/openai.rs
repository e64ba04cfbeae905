//! Requests to the OpenAI-compatible API, and what their answers contain.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use super::Workspace;
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

/// Writes a graph with one scripted agent and its tools.
pub(crate) fn write_graph(place: &Workspace, script: &Value, tools: Value) {
    let script = place.write("script.json", &script.to_string());
    let node = |id: &str, kind: &str| json!({"id": id, "nodeName": id, "nodeType": kind, "agentId": if kind == "AGENT" { json!("a") } else { Value::Null }});
    let edge = |id: &str, from: &str, to: Value, value: &str| json!({"id": id, "sourceNodeId": from, "targetNodeId": to, "conditionType": "CONDITIONAL", "conditionValue": value});
    let workflow = json!({"id": "talk", "isConversational": true, "entrypointNodeId": "desk",
        "nodes": [node("desk", "AGENT"), node("tool_executor", "TOOL_EXECUTOR"), node("human_handoff", "AGENT")],
        "edges": [edge("e1", "desk", json!("tool_executor"), "tool_executor"), edge("e2", "desk", json!("human_handoff"), "human_handoff"), edge("e3", "desk", Value::Null, "END")]});
    let agent = json!({"id": "a", "tools": tools, "model": format!("scripted:{}", script.display())});
    place.write("talk.json", &json!({"workflow": workflow, "agents": [agent]}).to_string());
}

/// A graph whose agent calls a tool of the client, unless a message contains one of two words.
pub(crate) fn write_weather_graph(place: &Workspace) {
    let call = json!({"text": "Let me look.", "tool_calls": [{"name": "weather", "arguments": {"city": "Bonn"}}]});
    let answers =
        json!([{"contains": "thanks", "answer": "You are welcome."}, {"contains": "sunny", "answer": "Fine."}]);
    write_graph(
        place,
        &json!({"match": answers, "default": call}),
        json!([{"name": "weather", "execution_location": "client", "parameters": {"type": "object"}}]),
    );
}
