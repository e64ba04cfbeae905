//! Vectors for the registry: which model makes them, and what is known of its failing.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use flowloom_core::block::Thresholds;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_models::Models;
use flowloom_models::embed::{Embed, Vector};

use crate::config::Config;
use crate::wiring::models;

/// The name that switches vectors off.
const NONE: &str = "none";

/// How long somebody who looks for a block waits for a vector, before words must do.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a model that failed is not asked for the vector of a query again: each who asks would wait in vain.
const REST: Duration = Duration::from_secs(30);

/// Characters of a text that are embedded: more than any block needs, and less than the least that providers refuse.
const LONGEST: usize = 8000;

/// What makes vectors of texts.
pub(super) struct Embeddings {
    config: Config,
    models: OnceLock<Models>,
    /// The model, once it could be used.
    embedder: Mutex<Option<Arc<dyn Embed>>>,
    /// Why it could not be used the last time, and when that was.
    failure: Mutex<Option<(StepError, Instant)>>,
}

/// The vector of a text.
pub(super) struct Made {
    pub(super) model: String,
    pub(super) vector: Vector,
}

impl Embeddings {
    pub(super) fn new(config: &Config) -> Embeddings {
        Embeddings {
            config: config.clone(),
            models: OnceLock::new(),
            embedder: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// From where on a block is what is wanted.
    pub(super) fn thresholds(&self) -> Thresholds {
        let usual = Thresholds::default();
        Thresholds { likeness: self.config.embeddings.likeness.unwrap_or(usual.likeness), ..usual }
    }

    /// The model; `None` if vectors are switched off. An error says why it cannot be used, and may have gone the next
    /// time: the file of the local one can be fetched while a server runs.
    pub(super) fn embedder(&self) -> Result<Option<Arc<dyn Embed>>, StepError> {
        let named = self.config.embeddings.model.as_deref();
        if named == Some(NONE) {
            return Ok(None);
        }
        let mut kept = locked(&self.embedder);
        if kept.is_none() {
            let models = self.models.get_or_init(|| models(&self.config, None, &self.config.aliases));
            *kept = Some(models.embedder(named)?);
        }
        Ok(kept.clone())
    }

    /// Whether nothing is configured.
    fn is_usual(&self) -> bool {
        self.config.embeddings.model.is_none()
    }

    /// The vector of what is looked for; `None` if vectors are switched off.
    pub(super) async fn of_query(&self, text: &str) -> Result<Option<Made>, StepError> {
        if self.is_resting()
            && let Some(failure) = self.failure()
        {
            return Err(failure);
        }
        let Some(embedder) = self.embedder()? else { return Ok(None) };
        let texts = [clipped(text)];
        let made = tokio::time::timeout(PATIENCE, embedder.embed(&texts)).await.unwrap_or_else(|_| {
            let message = format!("{} gave no vector within {} seconds", embedder.model(), PATIENCE.as_secs());
            Err(StepError::passing(Code::ModelFailed, message))
        });
        self.note(made.as_ref().err());
        let vector = made?.into_iter().next();
        Ok(vector.map(|vector| Made { model: embedder.model().to_owned(), vector }))
    }

    /// Whether it failed just now, and is left alone for a while.
    pub(super) fn is_resting(&self) -> bool {
        locked(&self.failure).as_ref().is_some_and(|(_, at)| at.elapsed() < REST)
    }

    /// What stood in the way the last time.
    pub(super) fn failure(&self) -> Option<StepError> {
        locked(&self.failure).as_ref().map(|(failure, _)| failure.clone())
    }

    /// Notes whether vectors could be made, and says it once.
    pub(super) fn note(&self, failure: Option<&StepError>) {
        let before = match failure {
            Some(failure) => locked(&self.failure).replace((failure.clone(), Instant::now())),
            None => locked(&self.failure).take(),
        };
        match (before, failure) {
            // Nobody asked for the model that is not there.
            (None, Some(failure)) if failure.code == Code::ModelFileMissing && self.is_usual() => {
                tracing::debug!("blocks are found by words alone: {failure}");
            }
            (None, Some(failure)) => tracing::warn!("blocks are found by words alone: {failure}"),
            (Some(_), None) => tracing::info!("blocks are found by vectors again"),
            _ => {}
        }
    }
}

/// As much of a text as is embedded.
pub(super) fn clipped(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
