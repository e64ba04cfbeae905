//! Calls over a real socket to a server in this process whose answers each test defines.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use flowloom_core::chat::{GenerateOptions, Message, Role, ToolDeclaration, Usage};
use flowloom_core::effect::{GenerateReply, GenerateRequest, Purpose};
use flowloom_core::error::Retry;
use flowloom_core::limits::Limits;
use flowloom_core::{Code, Path, RunId, StepFailure, Value, json};
use flowloom_runtime::effects::{BoxFuture, BudgetAllowance, Deltas, EffectContext, Model};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::RetryClock;
use crate::{ModelSettings, Models};

const API_KEY: &str = "sk-very-secret-1234";

/// The reaction of the server to one connection.
enum ServerAction {
    /// Sends these bytes and closes.
    Send(String),
    /// Sends these bytes and stays silent.
    Hang(String),
    /// Sends these bytes, then the ping again and again.
    Ping(String, &'static str),
}

fn sse_response(events: &[&str]) -> String {
    let body: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

fn status_response(line: &str, headers: &str, body: &str) -> ServerAction {
    let length = body.len();
    ServerAction::Send(format!(
        "HTTP/1.1 {line}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
}

fn text_chunk(text: &str) -> String {
    serde_json::json!({ "choices": [{ "delta": { "content": text } }] }).to_string()
}

const STOP_CHUNK: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const USAGE_CHUNK: &str = r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}"#;

fn text_answer(answer: &str) -> ServerAction {
    ServerAction::Send(sse_response(&[&text_chunk(answer), STOP_CHUNK, USAGE_CHUNK, "[DONE]"]))
}

#[derive(Default)]
struct Pauses(Mutex<Vec<Duration>>);

impl RetryClock for Pauses {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn wait_for(&self, length: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(length);
        Box::pin(std::future::ready(()))
    }
}

#[derive(Default)]
struct DeltaRecorder(Mutex<String>);

impl Deltas for DeltaRecorder {
    fn push(&self, _: &Path, _: u32, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

/// The result of one call, and what it caused.
struct CallResult {
    result: Result<GenerateReply, StepFailure>,
    requests: Vec<String>,
    pauses: Vec<Duration>,
    deltas: String,
    /// The usage of answers that were refused.
    refused: Option<Usage>,
}

impl CallResult {
    fn expect_error(&self) -> &StepFailure {
        self.result.as_ref().expect_err("the call should fail")
    }

    fn expect_text(&self) -> &str {
        self.result.as_ref().unwrap().text.as_deref().unwrap()
    }

    fn request_body(&self, index: usize) -> serde_json::Value {
        serde_json::from_str(self.requests[index].split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

fn new_request(model: &str) -> GenerateRequest {
    GenerateRequest {
        model: model.to_owned(),
        messages: vec![Message::new(Role::User, "hi")].into(),
        tools: Vec::new(),
        schema: None,
        options: GenerateOptions::default(),
        purpose: Purpose::Step,
    }
}

/// The idempotency key of every request here.
fn idempotency_key() -> String {
    context_with(Arc::default()).idempotency_key()
}

fn context_with(shown: Arc<DeltaRecorder>) -> EffectContext {
    EffectContext {
        run: RunId::new(0, [0; 10]),
        epoch: 1,
        path: Path::root(),
        attempt: 1,
        retried_attempt: 0,
        user: "local".into(),
        agent: None,
        definition: Arc::default(),
        depth: 0,
        trace: None,
        asks_first: false,
        allowance: Some(Arc::new(BudgetAllowance::new(Limits::default()))),
        deltas: shown,
    }
}

async fn serve_actions(listener: TcpListener, acts: Vec<ServerAction>, requests: Arc<Mutex<Vec<String>>>) {
    let mut open = Vec::new();
    for act in acts {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        loop {
            let whole = String::from_utf8_lossy(&read).into_owned();
            if let Some((head, body)) = whole.split_once("\r\n\r\n") {
                let length =
                    head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                if body.len() >= length.unwrap_or(0) {
                    break;
                }
            }
            let mut piece = [0; 4096];
            let count = socket.read(&mut piece).await.unwrap();
            assert_ne!(count, 0, "the request broke off");
            read.extend_from_slice(&piece[..count]);
        }
        requests.lock().unwrap().push(String::from_utf8(read).unwrap());
        match act {
            ServerAction::Send(bytes) => socket.write_all(bytes.as_bytes()).await.unwrap(),
            ServerAction::Hang(bytes) => {
                socket.write_all(bytes.as_bytes()).await.unwrap();
                open.push(socket);
            }
            ServerAction::Ping(bytes, ping) => {
                socket.write_all(bytes.as_bytes()).await.unwrap();
                while socket.write_all(ping.as_bytes()).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }
    std::future::pending::<()>().await;
}

async fn run_call(request: GenerateRequest, acts: Vec<ServerAction>) -> CallResult {
    run_call_with(request, acts, ModelSettings::default()).await
}

async fn run_call_with(request: GenerateRequest, acts: Vec<ServerAction>, settings: ModelSettings) -> CallResult {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let server = tokio::spawn(serve_actions(listener, acts, requests.clone()));
    let environment = move |name: &str| match name {
        "OPENAI_BASE_URL" | "ANTHROPIC_BASE_URL" | "GEMINI_BASE_URL" => Some(address.clone()),
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" | "GEMINI_API_KEY" => Some(API_KEY.to_owned()),
        _ => None,
    };
    let mut models = Models::new(settings, Arc::new(environment));
    let (pauses, shown) = (Arc::new(Pauses::default()), Arc::new(DeltaRecorder::default()));
    models.remote.pause = pauses.clone();
    let context = context_with(shown.clone());
    let result = models.generate_reply(&request, &context).await;
    server.abort();
    let requests = requests.lock().unwrap().clone();
    let pauses = pauses.0.lock().unwrap().clone();
    let shown = shown.0.lock().unwrap().clone();
    let refused = context.allowance.and_then(|allowance| allowance.recorded_usage());
    CallResult { result, requests, pauses, deltas: shown, refused }
}

#[tokio::test]
async fn a_streamed_answer_with_usage_and_price() {
    let stream = sse_response(&[&text_chunk("Hel"), &text_chunk("lo €"), STOP_CHUNK, USAGE_CHUNK, "[DONE]"]);
    let outcome = run_call(new_request("openai:gpt-4o"), vec![ServerAction::Send(stream)]).await;
    assert_eq!(outcome.expect_text(), "Hello €");
    assert_eq!(outcome.deltas, "Hello €");
    let usage = outcome.result.as_ref().unwrap().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.micro_usd), (11, 7, Some(98)));
    assert!(outcome.result.as_ref().unwrap().response.first_token_ms.is_some());
    let head = outcome.requests[0].to_lowercase();
    assert!(head.starts_with("post /chat/completions "), "{head}");
    assert!(head.contains(&format!("idempotency-key: {}\r\n", idempotency_key())), "{head}");
    assert!(head.contains(&format!("authorization: bearer {API_KEY}\r\n")));
    assert_eq!(outcome.request_body(0)["model"], "gpt-4o");
}

#[tokio::test]
async fn a_server_that_neither_streams_nor_counts() {
    let body = r#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#;
    let act = status_response("200 OK", "content-type: application/json\r\n", body);
    let outcome = run_call(new_request("openai:gpt-4o"), vec![act]).await;
    assert_eq!(outcome.expect_text(), "whole");
    let usage = outcome.result.unwrap().usage;
    assert!(usage.input_tokens > 0 && usage.output_tokens > 0 && usage.micro_usd.is_none(), "{usage:?}");
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_after_the_time_it_names() {
    let busy = |headers| status_response("429 Too Many Requests", headers, "slow down");
    let outcome = run_call(
        new_request("openai:m"),
        vec![busy("retry-after: 7\r\n"), busy("retry-after-ms: 90\r\n"), text_answer("ok")],
    )
    .await;
    assert_eq!(outcome.expect_text(), "ok");
    assert_eq!(outcome.pauses, [Duration::from_secs(7), Duration::from_millis(90)]);

    let acts = (0..3).map(|_| busy("retry-after: 99999999\r\n")).collect();
    let outcome = run_call(new_request("openai:m"), acts).await;
    assert_eq!((outcome.requests.len(), outcome.expect_error().code), (3, Code::ModelFailed));
    assert_eq!(outcome.expect_error().retry, Retry::After(60_000));
    assert!(outcome.expect_error().message.contains("429") && outcome.expect_error().message.contains("slow down"));
}

#[tokio::test]
async fn back_off_grows_and_is_never_the_same_twice() {
    let acts = (0..3).map(|_| status_response("529 Overloaded", "", "")).collect();
    let outcome = run_call(new_request("openai:m"), acts).await;
    assert_eq!((outcome.pauses.len(), outcome.expect_error().retry), (2, Retry::Maybe));
    assert!(outcome.pauses[0] >= Duration::from_millis(500) && outcome.pauses[0] <= Duration::from_secs(1));
    assert!(outcome.pauses[1] >= Duration::from_secs(1) && outcome.pauses[1] <= Duration::from_secs(2));
}

#[tokio::test]
async fn a_refused_request_is_not_sent_again_and_never_shows_the_key() {
    let body = format!(r#"{{"error":{{"message":"bad key {API_KEY}, bad {API_KEY}"}}}}"#);
    for line in ["400 Bad Request", "401 Unauthorized", "404 Not Found", "307 Temporary Redirect"] {
        let outcome =
            run_call(new_request("openai:m"), vec![status_response(line, "location: http://127.0.0.1:1/\r\n", &body)])
                .await;
        assert_eq!((outcome.requests.len(), outcome.expect_error().retry), (1, Retry::Never), "{line}");
        let message = &outcome.expect_error().message;
        assert!(
            !message.contains(API_KEY) && message.contains("[redacted]") && message.contains("openai"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_never_a_short_answer() {
    let half = text_chunk("half");
    let event = format!("{}event: error\ndata: {{\"message\":\"overloaded {API_KEY}\"}}\n\n", sse_response(&[&half]));
    let table = [
        (sse_response(&[&half]), Code::ModelTruncated),
        (sse_response(&[&half, "[DONE]"]), Code::ModelTruncated),
        (sse_response(&[&half, r#"{"error":{"message":"boom"}}"#, STOP_CHUNK]), Code::ModelFailed),
        (event, Code::ModelFailed),
    ];
    for (bytes, code) in table {
        let outcome = run_call(new_request("openai:m"), vec![ServerAction::Send(bytes.clone())]).await;
        assert_eq!(outcome.expect_error().code, code, "{bytes}");
        assert_eq!((outcome.requests.len(), outcome.deltas.as_str()), (1, "half"), "shown text is not doubled");
        assert!(!outcome.expect_error().message.contains(API_KEY));
    }
    // Sent again if nothing has been shown yet.
    let outcome =
        run_call(new_request("openai:m"), vec![ServerAction::Send(sse_response(&[])), text_answer("ok")]).await;
    assert_eq!(outcome.expect_text(), "ok");
}

#[tokio::test]
async fn a_finished_answer_without_done_counts() {
    let outcome =
        run_call(new_request("openai:m"), vec![ServerAction::Send(sse_response(&[&text_chunk("all"), STOP_CHUNK]))])
            .await;
    assert_eq!(outcome.expect_text(), "all");
}

#[tokio::test]
async fn silence_ends_a_call() {
    let settings = || ModelSettings { idle_timeout: Duration::from_millis(30), ..ModelSettings::default() };
    for act in [ServerAction::Hang(String::new()), ServerAction::Hang(sse_response(&[&text_chunk("half")]))] {
        let outcome = run_call_with(new_request("openai:m"), vec![act], settings()).await;
        assert_eq!(outcome.expect_error().code, Code::ModelTruncated);
        assert_eq!(outcome.expect_error().retry, Retry::Maybe);
    }
    let total = ModelSettings { total_timeout: Duration::from_millis(30), ..ModelSettings::default() };
    let outcome =
        run_call_with(new_request("openai:m"), vec![ServerAction::Hang(sse_response(&[&text_chunk("half")]))], total)
            .await;
    assert_eq!(outcome.expect_error().code, Code::ModelFailed);
}

#[tokio::test]
async fn pings_are_silence() {
    let settings = || ModelSettings {
        idle_timeout: Duration::from_millis(60),
        total_timeout: Duration::from_secs(5),
        ..ModelSettings::default()
    };
    let half = sse_response(&[&text_chunk("half")]);
    let empty_chunk = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    for ping in
        [": ping\n\n", "\n", "event: ping\ndata: {}\n\n", "data:\n\n", empty_chunk, ":", "data: {\"choices\":[]}\n\n"]
    {
        let act = ServerAction::Ping(half.clone(), ping);
        let outcome = run_call_with(new_request("openai:m"), vec![act], settings()).await;
        assert_eq!(outcome.expect_error().code, Code::ModelTruncated, "{ping:?}");
    }
    let started = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
                 event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n";
    for ping in [": ping\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n"] {
        let act = ServerAction::Ping(format!("{}{started}", sse_response(&[])), ping);
        let outcome = run_call_with(new_request("anthropic:claude-sonnet-4-5"), vec![act], settings()).await;
        assert_eq!(outcome.expect_error().code, Code::ModelTruncated, "anthropic {ping:?}");
    }
}

#[tokio::test]
async fn each_part_of_an_answer_restarts_the_idle_timeout() {
    let settings = ModelSettings {
        idle_timeout: Duration::from_millis(400),
        total_timeout: Duration::from_millis(1200),
        ..ModelSettings::default()
    };
    let reasoning = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
    let act = ServerAction::Ping(sse_response(&[]), reasoning);
    let outcome = run_call_with(new_request("openai:m"), vec![act], settings).await;
    assert_eq!(outcome.expect_error().code, Code::ModelFailed, "the total timeout ends the call");
}

#[tokio::test]
async fn nobody_listening_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://user:{API_KEY}@{}", listener.local_addr().unwrap());
    drop(listener);
    let mut models = Models::new(
        ModelSettings::default(),
        Arc::new(move |name: &str| (name == "OPENAI_BASE_URL").then(|| address.clone())),
    );
    let pauses = Arc::new(Pauses::default());
    models.remote.pause = pauses.clone();
    let context = context_with(Arc::new(DeltaRecorder::default()));
    let error = models.generate_reply(&new_request("openai:m"), &context).await.unwrap_err();
    assert_eq!((error.code, error.retry), (Code::ModelFailed, Retry::Maybe));
    assert!(!error.message.contains(API_KEY), "{}", error.message);
    assert_eq!(pauses.0.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let models = Models::new(
        ModelSettings::default(),
        Arc::new(move |name: &str| (name == "OPENAI_BASE_URL").then(|| address.clone())),
    );
    let (request, context) = (new_request("openai:m"), context_with(Arc::new(DeltaRecorder::default())));
    let mut socket = {
        let mut call = models.generate_reply(&request, &context);
        tokio::select! {
            _ = &mut call => panic!("nobody answers"),
            accepted = listener.accept() => accepted.unwrap().0,
        }
    };
    let mut sent = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut sent)).await;
    assert!(closed.is_ok(), "the connection stays open");
}

#[tokio::test]
async fn json_is_asked_for_checked_and_repaired_once() {
    let schema =
        r#"{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}"#;
    let asking = || GenerateRequest { schema: json::parse_value(schema).ok(), ..new_request("openai:gpt-4o") };
    let outcome =
        run_call(asking(), vec![text_answer("{\"age\": \"three\"}"), text_answer("```json\n{\"age\": 3}\n```")]).await;
    assert_eq!(outcome.expect_text(), "{\"age\":3}");
    assert_eq!(outcome.request_body(0)["response_format"]["json_schema"]["strict"], true);
    let again = outcome.request_body(1)["messages"].to_string();
    assert!(again.contains("three") && again.contains("/age"), "{again}");
    assert!(outcome.requests[1].contains(&format!("{}-repair", idempotency_key())));
    assert_eq!(outcome.result.as_ref().unwrap().usage.input_tokens, 22);

    let outcome = run_call(asking(), vec![text_answer("no"), text_answer("still no")]).await;
    assert_eq!((outcome.expect_error().code, outcome.requests.len()), (Code::ModelNotJson, 2));
    assert_eq!(outcome.refused.map(|usage| usage.input_tokens), Some(22), "both answers were paid for");

    let outcome = run_call(asking(), vec![text_answer("no"), status_response("401 Unauthorized", "", "{}")]).await;
    assert!(outcome.result.is_err(), "the key was refused");
    assert_eq!(outcome.refused.map(|usage| usage.input_tokens), Some(11), "the first answer was paid for");

    let refusal = status_response("400 Bad Request", "", r#"{"error":{"message":"response_format is not supported"}}"#);
    let outcome = run_call(asking(), vec![refusal, text_answer("{\"age\":4}")]).await;
    assert_eq!(outcome.expect_text(), "{\"age\":4}");
    assert!(outcome.request_body(1).get("response_format").is_none());

    let invalid = GenerateRequest { schema: json::parse_value(r#"{"type":5}"#).ok(), ..new_request("openai:m") };
    assert_eq!(run_call(invalid, vec![]).await.expect_error().code, Code::SchemaInvalid);
}

#[tokio::test]
async fn anthropic_through_genai() {
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    let begin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n\
                 event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
                 event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n\
                 event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
    let end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
               event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let model = "anthropic:claude-sonnet-4-5";
    let busy = status_response("429 Too Many Requests", "retry-after: 3\r\n", r#"{"error":{"message":"slow"}}"#);
    let outcome = run_call(new_request(model), vec![busy, ServerAction::Send(format!("{stream}{begin}{end}"))]).await;
    assert_eq!((outcome.expect_text(), outcome.deltas.as_str()), ("Hi", "Hi"));
    assert_eq!(outcome.pauses, [Duration::from_secs(3)]);
    let usage = outcome.result.as_ref().unwrap().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.micro_usd), (5, 2, Some(45)));
    let head = outcome.requests[0].to_lowercase();
    assert!(
        head.starts_with("post /v1/messages ") && head.contains(&format!("idempotency-key: {}", idempotency_key())),
        "{head}"
    );

    let outcome = run_call(new_request(model), vec![ServerAction::Send(format!("{stream}{begin}"))]).await;
    assert_eq!(outcome.expect_error().code, Code::ModelTruncated);

    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let outcome = run_call(new_request(model), vec![ServerAction::Send(format!("{stream}{begin}{error}"))]).await;
    assert_eq!((outcome.expect_error().code, outcome.expect_error().retry), (Code::ModelFailed, Retry::Maybe));

    let outcome = run_call(
        new_request(model),
        vec![status_response("400 Bad Request", "", &format!(r#"{{"error":{{"message":"no {API_KEY}"}}}}"#))],
    )
    .await;
    assert_eq!((outcome.requests.len(), outcome.expect_error().retry), (1, Retry::Never));
    assert!(!outcome.expect_error().message.contains(API_KEY), "{}", outcome.expect_error().message);
}

#[tokio::test]
async fn gemini_through_genai() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let part = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"}}]}"#;
    let end = r#"{"candidates":[{"content":{"parts":[{"text":"!"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2,"totalTokenCount":6}}"#;
    let model = "gemini:gemini-2.5-flash";
    let outcome =
        run_call(new_request(model), vec![ServerAction::Send(format!("{head}data: {part}\n\ndata: {end}\n\n"))]).await;
    assert_eq!(outcome.expect_text(), "Hi!");
    assert_eq!(outcome.result.as_ref().unwrap().usage.input_tokens, 4);
    let outcome = run_call(new_request(model), vec![ServerAction::Send(format!("{head}data: {part}\n\n"))]).await;
    assert_eq!(outcome.expect_error().code, Code::ModelTruncated);
}

#[tokio::test]
async fn signatures_of_gemini_are_returned_with_their_call() {
    let call = r#"{"functionCall":{"name":"look","args":{"at":"a"},"id":"c1"},"thoughtSignature":"signed"}"#;
    let answer = sse_response(&[&format!(
        r#"{{"candidates":[{{"content":{{"parts":[{call}],"role":"model"}},"finishReason":"STOP"}}]}}"#
    )]);
    let model = "gemini:gemini-3-pro-preview";
    let look = ToolDeclaration { name: "look".into(), description: "Looks".into(), parameters: Value::Null };
    let request = GenerateRequest { tools: vec![look], ..new_request(model) };
    let calls = run_call(request, vec![ServerAction::Send(answer.clone())]).await.result.unwrap().tool_calls;
    assert_eq!((calls[0].name.as_str(), calls[0].signatures.as_slice()), ("look", ["signed".to_owned()].as_slice()));
    let result = Message { tool_call_id: Some(calls[0].id.clone()), ..Message::new(Role::Tool, "42") };
    let turn = Message { tool_calls: calls, ..Message::new(Role::Assistant, "") };
    let messages = vec![Message::new(Role::User, "hi"), turn, result];
    let request = GenerateRequest { messages: messages.into(), ..new_request(model) };
    let outcome = run_call(request, vec![ServerAction::Send(answer)]).await;
    assert_eq!(outcome.request_body(0)["contents"][1]["parts"][0]["thoughtSignature"], "signed");
}

#[tokio::test]
async fn an_empty_answer_is_a_text() {
    let streamed = ServerAction::Send(sse_response(&[r#"{"choices":[{"delta":{"content":""}}]}"#, STOP_CHUNK]));
    let body = r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#;
    let whole = status_response("200 OK", "content-type: application/json\r\n", body);
    for answer in [streamed, whole] {
        let outcome = run_call(new_request("openai:gpt-5-mini"), vec![answer]).await;
        assert_eq!(outcome.expect_text(), "");
    }
}
