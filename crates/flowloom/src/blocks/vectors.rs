//! Vectors for blocks that have none yet: made in the background, a batch at a time, after the blocks are kept.

use std::time::Duration;

use flowloom_core::error::StepError;

use super::Registry;
use super::embeddings::clipped;

/// Texts that are embedded at once.
const BATCH: usize = 64;

/// Between two looks when nothing was changed here: what failed is tried again, and another process may have left some.
const PAUSE: Duration = Duration::from_secs(300);

impl Registry {
    /// Makes vectors for the blocks that have none, now and whenever blocks are kept.
    pub(crate) async fn keep_embedding(&self) {
        loop {
            // What went wrong is noted, and tried again.
            let _ = self.embed_missing().await;
            let _ = tokio::time::timeout(PAUSE, self.changed.notified()).await;
        }
    }

    /// Makes vectors for the blocks that have none. What stands in the way is noted: they are found by words until it
    /// has gone.
    pub(crate) async fn embed_missing(&self) -> Result<(), StepError> {
        let done = self.embed_batches().await;
        self.embeddings.note(done.as_ref().err());
        done
    }

    async fn embed_batches(&self) -> Result<(), StepError> {
        self.bring().await?;
        let Some(embedder) = self.embeddings.embedder()? else { return Ok(()) };
        loop {
            let model = embedder.model().to_owned();
            let missing = self.blocking(move |store| store.unembedded(&model, BATCH)).await?;
            if missing.is_empty() {
                return Ok(());
            }
            let texts: Vec<String> = missing.iter().map(|one| clipped(&one.text)).collect();
            let vectors = embedder.embed(&texts).await?;
            let made = missing.into_iter().zip(vectors).map(|(one, vector)| (one.hash, vector.to_vec()));
            self.store.keep_embeddings(embedder.model(), made.collect()).await?;
        }
    }

    /// Why blocks are found by words alone at the moment, if vectors should decide, too.
    pub(crate) fn embedding_failure(&self) -> Option<StepError> {
        self.embeddings.failure()
    }
}
