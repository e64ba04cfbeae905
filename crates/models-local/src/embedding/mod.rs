//! The embedding model of this process: finds its files, loads them at the first call, and lets one call at a time use
//! the cores. `minilm` computes.

pub(crate) mod error;
mod minilm;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flowloom_core::StepFailure;
use flowloom_runtime::effects::BoxFuture;
use rayon::prelude::*;

use error::EmbeddingError;
use flowloom_models::LOCAL_EMBEDDING_MODEL as NAME;
use flowloom_models::embed::{Embed, Vector, normalize};
use minilm::MiniLm;

use crate::error::LocalModelError;
use crate::stop::StopOnDrop;

/// The model, loaded when it is first needed.
type ModelSlot = Arc<tokio::sync::Mutex<Option<MiniLm>>>;

/// all-MiniLM-L6-v2 from the cache folder.
pub(crate) struct LocalEmbedder {
    model: String,
    tokenizer: PathBuf,
    weights: PathBuf,
    slot: ModelSlot,
}

impl LocalEmbedder {
    /// The model in a folder.
    pub(crate) fn new(folder: &Path) -> Result<LocalEmbedder, LocalModelError> {
        let [tokenizer, weights] =
            ["tokenizer.json", "safetensors"].map(|ending| folder.join(format!("{NAME}.{ending}")));
        if let Some(missing) = [&tokenizer, &weights].into_iter().find(|file| !file.is_file()) {
            return Err(LocalModelError::FileMissing { file: missing.clone() });
        }
        Ok(LocalEmbedder { model: format!("local:{NAME}"), tokenizer, weights, slot: ModelSlot::default() })
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vector>, LocalModelError> {
        // Waiting for the lock here, not on a thread, lets a dropped call leave the queue.
        let mut slot = self.slot.clone().lock_owned().await;
        let stop = StopOnDrop(Arc::default());
        let flag = stop.0.clone();
        let (texts, tokenizer, weights) = (texts.to_vec(), self.tokenizer.clone(), self.weights.clone());
        let work = tokio::task::spawn_blocking(move || {
            let model = match &mut *slot {
                Some(model) => model,
                empty => empty.insert(MiniLm::load_files(&tokenizer, &weights)?),
            };
            let embed = |text: &String| {
                if flag.load(Ordering::Relaxed) {
                    return Err(LocalModelError::EmbeddingCancelled);
                }
                Ok(normalize(model.embed_text(text)?))
            };
            // One text at a time: padding texts to one length would cost more than one large product saves, and an
            // embedding would depend on the other texts of its batch.
            texts.par_iter().map(embed).collect()
        });
        work.await.map_err(EmbeddingError::Crashed)?
    }
}

impl Embed for LocalEmbedder {
    fn model_name(&self) -> &str {
        &self.model
    }

    fn embed_texts<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vector>, StepFailure>> {
        Box::pin(async move { Ok(self.embed_all(texts).await?) })
    }
}

#[cfg(test)]
mod tests;
