//! The embedding model itself; skipped where it is not cached.

use flowloom_core::Code;
use flowloom_models::embed::Embed;
use flowloom_models::{InferenceEngine, LOCAL_EMBEDDING_MODEL, ProcessEnvironment, cache_dir};

use super::*;
use crate::LocalEngine;

#[allow(clippy::print_stderr)]
fn cached_embedder() -> Option<Box<dyn Embed>> {
    let embedder = LocalEngine::default().open_embedder(&cache_dir(&ProcessEnvironment));
    embedder.inspect_err(|_| eprintln!("SKIP embedding model not cached")).ok()
}

fn to_texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn dot_product(a: &Vector, b: &Vector) -> f32 {
    a.iter().zip(&**b).map(|(a, b)| a * b).sum()
}

#[tokio::test]
async fn the_local_model_gives_what_its_makers_publish() {
    let Some(embedder) = cached_embedder() else { return };
    assert_eq!(embedder.model_name(), "local:all-minilm-l6-v2");
    let long = "word ".repeat(5_000);
    let all = to_texts(&["That is a happy person", "That is a happy dog", "Today is a sunny day", "", &long]);
    let vectors = embedder.embed_texts(&all).await.unwrap();
    assert!(vectors.iter().all(|vector| vector.len() == 384 && (dot_product(vector, vector) - 1.0).abs() < 1e-4));
    // The figures on the card of the model, whose example these sentences are; eight-bit weights change them a little.
    let (dog, day) = (dot_product(&vectors[0], &vectors[1]), dot_product(&vectors[0], &vectors[2]));
    assert!((dog - 0.695).abs() < 0.01 && (day - 0.257).abs() < 0.01, "{dog} {day}");
    let alone = cached_embedder().unwrap().embed_texts(&all[..1]).await.unwrap();
    assert_eq!(alone[0], vectors[0], "a vector does not depend on the company");
}

#[tokio::test]
async fn a_dropped_call_frees_the_local_model() {
    let Some(embedder) = cached_embedder() else { return };
    let many: Vec<String> = (0..2_000).map(|n| format!("{n} {}", "long text ".repeat(200))).collect();
    embedder.embed_texts(&many[..1]).await.unwrap();
    let waited = tokio::time::timeout(std::time::Duration::from_millis(20), embedder.embed_texts(&many)).await;
    assert!(waited.is_err(), "two thousand texts take minutes");
    let next = tokio::time::timeout(std::time::Duration::from_secs(20), embedder.embed_texts(&many[1..2])).await;
    assert!(next.unwrap().is_ok());
}

#[tokio::test]
async fn missing_files_and_files_that_are_not_a_model_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let open = || LocalEngine::default().open_embedder(folder.path());
    let missing = open().map(|_| ()).unwrap_err();
    assert_eq!(missing.code, Code::ModelFileMissing);
    assert!(missing.message.contains("flowloom models pull"), "{}", missing.message);
    std::fs::write(folder.path().join(format!("{LOCAL_EMBEDDING_MODEL}.tokenizer.json")), "{}").unwrap();
    std::fs::write(folder.path().join(format!("{LOCAL_EMBEDDING_MODEL}.onnx")), "no weights").unwrap();
    let error = open().unwrap().embed_texts(&to_texts(&["x"])).await.unwrap_err();
    assert_eq!(error.code, Code::ModelFailed, "{}", error.message);
}
