//! Computes missing embeddings of blocks in the background, one batch at a time. Built-in blocks get theirs with the
//! first search: a server that only runs workflows does not need the model, which takes 100 MB.

use std::sync::atomic::Ordering;
use std::time::Duration;

use flowloom_core::error::StepError;

use super::Registry;
use super::embeddings::{PATIENCE, clipped};

/// Number of texts per embedding call.
const BATCH: usize = 64;

/// How long to wait between two checks without a local change: failed batches are retried, and another process may have
/// stored blocks.
const PAUSE: Duration = Duration::from_secs(300);

impl Registry {
    /// Computes embeddings of stored blocks that lack one, now and whenever blocks are stored.
    pub async fn keep_embedding(&self) {
        loop {
            // The failure is recorded, and the next round tries again.
            if self.lacks_kept().await.unwrap_or(true) {
                let _ = self.embed_missing().await;
            }
            let _ = tokio::time::timeout(PAUSE, self.changed.notified()).await;
        }
    }

    /// Computes the embeddings of all blocks that lack one. A failure is recorded; until it is resolved, search uses
    /// full text only.
    pub async fn embed_missing(&self) -> Result<(), StepError> {
        let done = self.embed_batches().await;
        self.embeddings.note(done.as_ref().err());
        self.is_embedded.fetch_or(done.is_ok(), Ordering::Relaxed);
        done
    }

    /// Computes the embeddings of the built-in blocks before the first search. If that fails now, the search reports it
    /// and the next search tries again.
    pub(super) async fn embed_built_in(&self) {
        let is_done = self.is_embedded.load(Ordering::Relaxed) || self.embeddings.is_resting();
        // Where stored blocks lack embeddings, the background task computes them; a search should not wait for that
        // many.
        if !is_done && !self.lacks_kept().await.unwrap_or(true) {
            let _ = tokio::time::timeout(PATIENCE, self.embed_missing()).await;
        }
    }

    /// Whether a stored block lacks its embedding.
    async fn lacks_kept(&self) -> Result<bool, StepError> {
        let Some(embedder) = self.embeddings.embedder()? else { return Ok(false) };
        let model = embedder.model().to_owned();
        self.blocking(move |store| store.lacks_embedding(&model)).await
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

    /// Why search uses full text only at the moment, if embeddings were expected.
    pub fn embedding_failure(&self) -> Option<StepError> {
        self.embeddings.failure()
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    #[allow(clippy::print_stderr)]
    async fn built_in_blocks_get_their_vectors_with_the_first_search() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = crate::blocks::tests::registry(folder.path());
        let Ok(Some(embedder)) = registry.embeddings.embedder() else {
            eprintln!("SKIP embedding model not cached");
            return;
        };
        registry.bring().await.expect("brought");
        assert!(!registry.lacks_kept().await.expect("a store"), "no block was stored");
        let missing = || registry.store.unembedded(embedder.model(), 1).expect("a store").len();
        assert_eq!(missing(), 1);
        let finding = registry.search("ann", "read a page of the web", 3).await.expect("a search");
        assert_eq!(finding.by_words, None);
        assert!(finding.found[0].similarity.is_some(), "{finding:?}");
        assert_eq!(missing(), 0);
    }
}
