//! Computes missing embeddings of blocks in the background, one batch at a time. Built-in blocks get theirs with the
//! first search: a server that only runs workflows does not need the model, which takes 100 MB.

use std::sync::atomic::Ordering;
use std::time::Duration;

use flowloom_core::error::StepFailure;

use super::BlockRegistry;
use super::embeddings::{EMBEDDING_TIMEOUT, truncate_text};

/// Number of texts per embedding call.
const EMBEDDING_BATCH_TEXTS: usize = 64;

/// How long to wait between two checks without a local change: failed batches are retried, and another process may have
/// stored blocks.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

impl BlockRegistry {
    /// Computes embeddings of stored blocks that lack one, now and whenever blocks are stored.
    pub async fn run_embedding_task(&self) {
        loop {
            // The failure is recorded, and the next round tries again.
            if self.lacks_stored().await.unwrap_or(true) {
                let _ = self.embed_missing().await;
            }
            let _ = tokio::time::timeout(CHECK_INTERVAL, self.blocks_changed.notified()).await;
        }
    }

    /// Computes the embeddings of all blocks that lack one. A failure is recorded; until it is resolved, search uses
    /// full text only. Fails if the embedding model cannot be loaded or gives no vectors, or if the store cannot be
    /// read or written.
    pub async fn embed_missing(&self) -> Result<(), StepFailure> {
        let done = self.embed_batches().await;
        self.embeddings.record_outcome(done.as_ref().err());
        self.is_embedded_once.fetch_or(done.is_ok(), Ordering::Relaxed);
        done
    }

    /// Computes the embeddings of the built-in blocks before the first search. If that fails now, the search reports it
    /// and the next search tries again.
    pub(super) async fn embed_built_in(&self) {
        let is_done = self.is_embedded_once.load(Ordering::Relaxed) || self.embeddings.is_cooling_down();
        // Where stored blocks lack embeddings, the background task computes them; a search should not wait for that
        // many.
        if !is_done && !self.lacks_stored().await.unwrap_or(true) {
            let _ = tokio::time::timeout(EMBEDDING_TIMEOUT, self.embed_missing()).await;
        }
    }

    /// Whether a stored block lacks its embedding.
    async fn lacks_stored(&self) -> Result<bool, StepFailure> {
        let Some(embedder) = self.embeddings.load_embedder()? else { return Ok(false) };
        let model = embedder.model_name().to_owned();
        Ok(self.run_blocking(move |store| store.lacks_embedding(&model)).await?)
    }

    async fn embed_batches(&self) -> Result<(), StepFailure> {
        self.index_built_in().await?;
        let Some(embedder) = self.embeddings.load_embedder()? else { return Ok(()) };
        loop {
            let model = embedder.model_name().to_owned();
            let missing = self.run_blocking(move |store| store.list_unembedded(&model, EMBEDDING_BATCH_TEXTS)).await?;
            if missing.is_empty() {
                return Ok(());
            }
            let texts: Vec<String> = missing.iter().map(|one| truncate_text(&one.text)).collect();
            let vectors = embedder.embed_texts(&texts).await?;
            let made = missing.into_iter().zip(vectors).map(|(one, vector)| (one.hash, vector.to_vec()));
            self.store.store_embeddings(embedder.model_name(), made.collect()).await?;
        }
    }

    /// Why search uses full text only at the moment, if embeddings were expected.
    pub fn embedding_failure(&self) -> Option<StepFailure> {
        self.embeddings.last_failure()
    }

    /// That reason, unless only the default model, which no setting requests, is missing.
    pub fn requested_embedding_failure(&self) -> Option<StepFailure> {
        self.embedding_failure().filter(|failure| !self.embeddings.is_missing_default(failure))
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    #[allow(clippy::print_stderr)]
    async fn built_in_blocks_get_their_vectors_with_the_first_search() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = crate::blocks::tests::open_registry(folder.path());
        let Ok(Some(embedder)) = registry.embeddings.load_embedder() else {
            eprintln!("SKIP embedding model not cached");
            return;
        };
        registry.index_built_in().await.expect("brought");
        assert!(!registry.lacks_stored().await.expect("a store"), "no block was stored");
        let missing = || registry.store.list_unembedded(embedder.model_name(), 1).expect("a store").len();
        assert_eq!(missing(), 1);
        let finding = registry.search_blocks("ann", "read a page of the web", 3).await.expect("a search");
        assert_eq!(finding.fallback_reason, None);
        assert!(finding.matches[0].similarity.is_some(), "{finding:?}");
        assert_eq!(missing(), 0);
    }
}
