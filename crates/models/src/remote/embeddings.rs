//! `POST …/embeddings`, which almost every provider supports: texts in batches, embeddings in the order of the texts.

use flowloom_core::Hash;
use serde::Deserialize;
use serde_json::json;

use super::error::ProviderError;
use super::idle::with_idle_timeout;
use super::{JsonPost, MAX_BODY_BYTES, MAX_CALL_ATTEMPTS, RemoteModels, Target, read_body};
use crate::error::ModelError;

/// Number of texts in one request.
const BATCH_TEXTS: usize = 128;

#[derive(Deserialize)]
struct EmbeddingsReply {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl RemoteModels {
    /// Computes the embeddings of texts, not normalised.
    pub(crate) async fn embed_texts(&self, target: &Target, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH_TEXTS) {
            vectors.append(&mut self.with_timeout(target, self.embed_batch(target, batch)).await?);
        }
        Ok(vectors)
    }

    async fn embed_batch(&self, target: &Target, texts: &[String]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let body = json!({ "model": target.model, "input": texts, "encoding_format": "float" }).to_string();
        let key = Hash::of_bytes(body.as_bytes()).to_string();
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.embed_once(target, &key, &body, texts.len()).await {
                Ok(vectors) => return Ok(vectors),
                Err(error) => error,
            };
            if !error.can_retry() || tries >= MAX_CALL_ATTEMPTS {
                return Err(error);
            }
            self.pause_after(&error, tries).await;
        }
    }

    async fn embed_once(
        &self,
        target: &Target,
        key: &str,
        body: &str,
        count: usize,
    ) -> Result<Vec<Vec<f32>>, ProviderError> {
        let post = JsonPost { path: "embeddings", key, traceparent: None, body: body.to_owned(), idle: self.idle };
        let mut reply = self.post_json(target, post).await?;
        let body = with_idle_timeout(self.idle, read_body(&mut reply, MAX_BODY_BYTES)).await?;
        let answer = serde_json::from_slice(&body.require_complete()?).map_err(ProviderError::AnswerNotJson)?;
        order_vectors(answer, count)
    }
}

/// Orders embeddings by their index. Every text must have one, and all must have the same width.
fn order_vectors(answer: EmbeddingsReply, count: usize) -> Result<Vec<Vec<f32>>, ProviderError> {
    let mut vectors = vec![Vec::new(); count];
    for Embedding { index, embedding } in answer.data {
        if let Some(place) = vectors.get_mut(index) {
            *place = embedding;
        }
    }
    let width = vectors.first().map_or(0, Vec::len);
    let is_good = |vector: &Vec<f32>| {
        vector.len() == width
            && vector.iter().all(|value| value.is_finite())
            && vector.iter().any(|value| *value != 0.0)
    };
    match vectors.iter().position(|vector| !is_good(vector)) {
        None => Ok(vectors),
        Some(place) => Err(ProviderError::EmbeddingMissing { number: place + 1 }),
    }
}
