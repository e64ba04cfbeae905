//! Requests to Anthropic and Gemini that genai does not write by itself.

use std::time::Duration;

use flowloom_core::chat::GenerateOptions;
use flowloom_core::effect::Purpose;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// The body of a request that is not streamed, and the text of the answer.
async fn exchange_request(protocol: Protocol, options: GenerateOptions, answer: &str) -> (Json, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let target = Target { provider: "p".into(), protocol, base_url, key: Some("k".into()), model: "gemini-m".into() };
    let request = GenerateRequest {
        model: "p:m".to_owned(),
        messages: vec![Message::new(Role::User, "hi")].into(),
        tools: Vec::new(),
        schema: None,
        options: GenerateOptions { stream: Some(false), ..options },
        purpose: Purpose::Step,
    };
    let call = ProviderCall {
        target: &target,
        request: &request,
        key: "key",
        traceparent: None,
        max_tokens: 9,
        native_schema: false,
        idle: Duration::from_secs(9),
    };
    let length = answer.len();
    let reply =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{answer}");
    let server = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        loop {
            let mut piece = [0; 4096];
            let count = connection.read(&mut piece).await.unwrap();
            received.extend_from_slice(&piece[..count]);
            let text = String::from_utf8_lossy(&received).into_owned();
            let body = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Json>(body).ok());
            if let Some(body) = body {
                connection.write_all(reply.as_bytes()).await.unwrap();
                return body;
            }
        }
    };
    let mut shown = String::new();
    let mut show = |text: &str| shown.push_str(text);
    let called = call_once(reqwest::Client::new(), &call, SystemTime::UNIX_EPOCH, &mut show);
    let (body, answered) = tokio::join!(server, called);
    answered.unwrap();
    (body, shown)
}

fn sampling_options() -> GenerateOptions {
    GenerateOptions {
        top_k: Some(40.0),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(-1.0),
        temperature: Some(0.25),
        ..GenerateOptions::default()
    }
}

#[tokio::test]
async fn gemini_gets_all_sampling_options() {
    let answer = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2,"totalTokenCount":6}}"#;
    let (body, text) = exchange_request(Protocol::Gemini, sampling_options(), answer).await;
    assert_eq!(text, "Hi");
    let expected = json!({"temperature": 0.25, "maxOutputTokens": 9, "topK": 40, "presencePenalty": 0.5, "frequencyPenalty": -1.0});
    assert_eq!(body["generationConfig"], expected);
}

#[tokio::test]
async fn anthropic_gets_top_k() {
    let answer = r#"{"content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}"#;
    let (body, text) = exchange_request(Protocol::Anthropic, sampling_options(), answer).await;
    assert_eq!(text, "Hi");
    assert_eq!((&body["top_k"], body.get("presence_penalty")), (&json!(40), None));
    assert_ne!(body.get("stream"), Some(&json!(true)));
}
