//! Embeddings for the block registry: the configured model, and its last failure.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use flowloom_core::block::Thresholds;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_models::Models;
use flowloom_models::embed::{Embed, Vector};
use parking_lot::Mutex;

use crate::config::Config;
use crate::wiring::{ModelChoice, build_models};

/// The model name that disables embeddings.
const DISABLED_MODEL: &str = "none";

/// How long a search waits for the embedding of its query before it falls back to full text.
pub(super) const EMBEDDING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a model that failed is not called again for queries: every search would wait in vain.
const FAILURE_COOLDOWN: Duration = Duration::from_secs(30);

/// Maximum number of characters of a text that are embedded: more than a block needs, less than any provider's limit.
const MAX_EMBEDDED_CHARS: usize = 8000;

/// Computes embeddings of texts.
pub(super) struct BlockEmbedder {
    config: Arc<Config>,
    models: OnceLock<Models>,
    /// The model, once it was loaded.
    embedder: Mutex<Option<Arc<dyn Embed>>>,
    /// The last failure of the model and its time.
    failure: Mutex<Option<(StepFailure, Instant)>>,
}

/// An embedding and the model that computed it.
pub(super) struct QueryEmbedding {
    pub(super) model: String,
    pub(super) vector: Vector,
}

impl BlockEmbedder {
    pub(super) fn new(config: &Arc<Config>) -> BlockEmbedder {
        BlockEmbedder {
            config: config.clone(),
            models: OnceLock::new(),
            embedder: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// The minimum similarities at which a block matches.
    pub(super) fn thresholds(&self) -> Thresholds {
        let defaults = Thresholds::default();
        Thresholds {
            similarity_threshold: self.config.embeddings.similarity_threshold.unwrap_or(defaults.similarity_threshold),
            ..defaults
        }
    }

    /// The embedding model; `None` if embeddings are disabled. Fails if the model cannot be used. A later call may
    /// succeed: the file of the local model can be downloaded while a server runs.
    pub(super) fn load_embedder(&self) -> Result<Option<Arc<dyn Embed>>, StepFailure> {
        let named = self.config.embeddings.model.as_deref();
        if named == Some(DISABLED_MODEL) {
            return Ok(None);
        }
        let mut embedder_slot = self.embedder.lock();
        if embedder_slot.is_none() {
            let choice = ModelChoice { default: None, aliases: &self.config.aliases, allows_named_files: true };
            let models = self.models.get_or_init(|| build_models(&self.config, choice, Arc::default()));
            *embedder_slot = Some(models.open_embedder(named)?);
        }
        Ok(embedder_slot.clone())
    }

    /// Whether no embedding model is configured.
    fn is_default(&self) -> bool {
        self.config.embeddings.model.is_none()
    }

    /// The embedding of a search query; `None` if embeddings are disabled. Fails with `ModelFailed` after a time-out.
    pub(super) async fn embed_query(&self, text: &str) -> Result<Option<QueryEmbedding>, StepFailure> {
        if self.is_cooling_down()
            && let Some(failure) = self.last_failure()
        {
            return Err(failure);
        }
        let Some(embedder) = self.load_embedder()? else { return Ok(None) };
        let texts = [truncate_text(text)];
        let made = tokio::time::timeout(EMBEDDING_TIMEOUT, embedder.embed_texts(&texts)).await.unwrap_or_else(|_| {
            let message = format!(
                "{} did not return an embedding within {} seconds",
                embedder.model_name(),
                EMBEDDING_TIMEOUT.as_secs()
            );
            Err(StepFailure::new_retryable(Code::ModelFailed, message))
        });
        self.record_outcome(made.as_ref().err());
        let vector = made?.into_iter().next();
        Ok(vector.map(|vector| QueryEmbedding { model: embedder.model_name().to_owned(), vector }))
    }

    /// Whether the model failed recently and is not called for now.
    pub(super) fn is_cooling_down(&self) -> bool {
        self.failure.lock().as_ref().is_some_and(|(_, at)| at.elapsed() < FAILURE_COOLDOWN)
    }

    /// The last failure, if it was not followed by a success.
    pub(super) fn last_failure(&self) -> Option<StepFailure> {
        self.failure.lock().as_ref().map(|(failure, _)| failure.clone())
    }

    /// Whether a failure reports that the default model, which no setting requests, is missing.
    pub(super) fn is_missing_default(&self, failure: &StepFailure) -> bool {
        failure.code == Code::ModelFileMissing && self.is_default()
    }

    /// Records the outcome of an embedding call; logs only changes.
    pub(super) fn record_outcome(&self, failure: Option<&StepFailure>) {
        let before = match failure {
            Some(failure) => self.failure.lock().replace((failure.clone(), Instant::now())),
            None => self.failure.lock().take(),
        };
        match (before, failure) {
            (None, Some(failure)) if self.is_missing_default(failure) => {
                tracing::debug!("block search uses full text only: {failure}");
            }
            (None, Some(failure)) => tracing::warn!("block search uses full text only: {failure}"),
            (Some(_), None) => tracing::info!("block search uses embeddings again"),
            _ => {}
        }
    }
}

/// The part of a text that is embedded.
pub(super) fn truncate_text(text: &str) -> String {
    text.chars().take(MAX_EMBEDDED_CHARS).collect()
}
