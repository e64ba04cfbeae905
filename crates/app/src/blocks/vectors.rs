//! Vectors for blocks that have none yet: made in the background, a batch at a time, after the blocks are kept. Those that
//! are built in get theirs when somebody looks for a block first: a server that only runs things needs no model for that,
//! which takes 100 MB.

use std::sync::atomic::Ordering;
use std::time::Duration;

use flowloom_core::error::StepError;

use super::Registry;
use super::embeddings::{PATIENCE, clipped};

/// Texts that are embedded at once.
const BATCH: usize = 64;

/// Between two looks when nothing was changed here: what failed is tried again, and another process may have left some.
const PAUSE: Duration = Duration::from_secs(300);

impl Registry {
    /// Makes vectors where kept blocks have none, now and whenever blocks are kept.
    pub async fn keep_embedding(&self) {
        loop {
            // What went wrong is noted, and tried again.
            if self.lacks_kept().await.unwrap_or(true) {
                let _ = self.embed_missing().await;
            }
            let _ = tokio::time::timeout(PAUSE, self.changed.notified()).await;
        }
    }

    /// Makes vectors for the blocks that have none. What stands in the way is noted: they are found by words until it
    /// has gone.
    pub async fn embed_missing(&self) -> Result<(), StepError> {
        let done = self.embed_batches().await;
        self.embeddings.note(done.as_ref().err());
        self.is_embedded.fetch_or(done.is_ok(), Ordering::Relaxed);
        done
    }

    /// Makes the vectors of the built-in blocks before the first search. If that cannot be done now, the search says so,
    /// and the next one tries it again.
    pub(super) async fn embed_built_in(&self) {
        let is_done = self.is_embedded.load(Ordering::Relaxed) || self.embeddings.is_resting();
        // Where kept blocks lack theirs, they are being made, and nobody waits for many.
        if !is_done && !self.lacks_kept().await.unwrap_or(true) {
            let _ = tokio::time::timeout(PATIENCE, self.embed_missing()).await;
        }
    }

    /// Whether a block that somebody has kept has no vector.
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

    /// Why blocks are found by words alone at the moment, if vectors should decide, too.
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
        assert!(!registry.lacks_kept().await.expect("a store"), "nobody has kept a block");
        let missing = || registry.store.unembedded(embedder.model(), 1).expect("a store").len();
        assert_eq!(missing(), 1);
        let finding = registry.search("ann", "read a page of the web", 3).await.expect("a search");
        assert_eq!(finding.by_words, None);
        assert!(finding.found[0].similarity.is_some(), "{finding:?}");
        assert_eq!(missing(), 0);
    }
}
