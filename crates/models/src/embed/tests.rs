//! Which models can make vectors, and how a provider is asked for them.

use std::sync::Mutex;

use flowloom_core::Code;
use flowloom_core::error::Retry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::ModelSettings;

fn to_texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn dot_product(a: &Vector, b: &Vector) -> f32 {
    a.iter().zip(&**b).map(|(a, b)| a * b).sum()
}

#[test]
fn who_cannot_embed_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ModelSettings { cache_dir: Some(folder.path().into()), ..ModelSettings::default() };
    let environment = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "k".to_owned());
    let models = Models::new(settings, Arc::new(environment));
    let refused = |named: Option<&str>| models.open_embedder(named).map(|_| ()).unwrap_err();
    assert_eq!(refused(None).code(), Code::ModelFailed, "there is no inference engine here");
    assert_eq!(refused(Some("openai:text-embedding-3-small")).code(), Code::ModelKeyMissing);
    for named in ["local:smollm2-135m", "scripted:x", "anthropic:claude-sonnet-4-5", "nobody:m"] {
        assert_eq!(refused(Some(named)).code(), Code::ModelUnknown, "{named}");
    }
    assert!(models.open_embedder(Some("ollama:nomic-embed-text")).is_ok());
}

/// Answers one request after another with the result of `answer` for its body.
async fn serve_answers(
    listener: TcpListener,
    bodies: Arc<Mutex<Vec<serde_json::Value>>>,
    answer: fn(&serde_json::Value) -> String,
) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        let body = loop {
            let whole = String::from_utf8_lossy(&read).into_owned();
            if let Some((head, body)) = whole.split_once("\r\n\r\n")
                && let Ok(body) = serde_json::from_str::<serde_json::Value>(body)
            {
                let head = head.to_lowercase();
                assert!(
                    head.starts_with("post /embeddings ") && head.contains("authorization: bearer sk-secret"),
                    "{head}"
                );
                break body;
            }
            let mut piece = [0; 4096];
            let count = socket.read(&mut piece).await.unwrap();
            assert_ne!(count, 0, "the request broke off");
            read.extend_from_slice(&piece[..count]);
        };
        let text = answer(&body);
        bodies.lock().unwrap().push(body);
        socket.write_all(text.as_bytes()).await.unwrap();
    }
}

async fn ask_server(
    all: &[String],
    answer: fn(&serde_json::Value) -> String,
) -> (Result<Vec<Vector>, StepFailure>, Vec<serde_json::Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let server = tokio::spawn(serve_answers(listener, bodies.clone(), answer));
    let environment = move |name: &str| match name {
        "OPENAI_BASE_URL" => Some(address.clone()),
        "OPENAI_API_KEY" => Some("sk-secret".to_owned()),
        _ => None,
    };
    let models = Models::new(ModelSettings::default(), Arc::new(environment));
    let embedder = models.open_embedder(Some("openai:text-embedding-3-small")).unwrap();
    let result = embedder.embed_texts(all).await;
    server.abort();
    let bodies = bodies.lock().unwrap().clone();
    (result, bodies)
}

fn http_reply(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// Returns the embeddings in reverse order, as a server may. Each consists of the length of its text and a one.
fn reply_in_reverse(body: &serde_json::Value) -> String {
    let inputs = body["input"].as_array().unwrap().iter().enumerate().rev();
    let data = inputs.map(|(index, text)| {
        serde_json::json!({ "index": index, "embedding": [text.as_str().unwrap().len() as f32, 1.0], "object": "embedding" })
    });
    http_reply("200 OK", &serde_json::json!({ "data": data.collect::<Vec<_>>() }).to_string())
}

#[tokio::test]
async fn a_provider_is_asked_in_batches_and_its_vectors_have_length_one() {
    let all: Vec<String> = (0..300).map(|n| "x".repeat(n)).collect();
    let (result, bodies) = ask_server(&all, reply_in_reverse).await;
    let vectors = result.unwrap();
    let sizes: Vec<usize> = bodies.iter().map(|body| body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [128, 128, 44]);
    assert_eq!(bodies[0]["model"], "text-embedding-3-small");
    for (length, vector) in vectors.iter().enumerate() {
        assert!((dot_product(vector, vector) - 1.0).abs() < 1e-4);
        assert!((vector[0] / vector[1] - length as f32).abs() < 1e-2, "{length} {vector:?}");
    }
}

#[tokio::test]
async fn what_is_no_vector_of_each_text_is_refused() {
    let answers: [fn(&serde_json::Value) -> String; 6] = [
        |_| http_reply("200 OK", r#"{"data": [{"index": 0, "embedding": [1.0]}]}"#),
        |_| http_reply("200 OK", r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}"#),
        |_| http_reply("200 OK", r#"{"data": [{"index": 0, "embedding": [0]}, {"index": 1, "embedding": [0]}]}"#),
        |_| http_reply("200 OK", r#"{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}"#),
        |_| http_reply("200 OK", r#"{"data": [{"index": 99999999999, "embedding": [1]}]}"#),
        |_| http_reply("200 OK", "nonsense"),
    ];
    for answer in answers {
        let error = ask_server(&to_texts(&["a", "b"]), answer).await.0.unwrap_err();
        assert_eq!((error.code, error.retry), (Code::ModelFailed, Retry::Never), "{}", error.message);
    }
    let (refused, bodies) =
        ask_server(&to_texts(&["a"]), |_| http_reply("401 Unauthorized", "no such key: sk-secret")).await;
    let error = refused.unwrap_err();
    assert!(error.message.contains("401") && !error.message.contains("sk-secret"), "{}", error.message);
    assert_eq!(bodies.len(), 1);
}
