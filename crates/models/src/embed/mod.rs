//! Embeddings: vectors of texts, where similar meanings have similar vectors. They come from a small model in this
//! process or from a provider with OpenAI's protocol.

mod cache;

use std::sync::Arc;

use flowloom_core::StepFailure;
use flowloom_runtime::effects::BoxFuture;

use crate::catalog::{LOCAL_EMBEDDING_MODEL, Protocol};
use crate::error::{ModelError, ResolveError};
use crate::models::split_model_name;
use crate::remote::{RemoteModels, Target};
use crate::{Models, resolve};
use cache::Cached;

/// The embedding of a text, of length one.
pub type Vector = Arc<[f32]>;

/// An embedding model.
pub trait Embed: Send + Sync {
    /// The model's name, as `provider:model`. Embeddings of different models cannot be compared.
    fn model_name(&self) -> &str;

    /// Computes the embedding of each text, in the order of the texts. Dropping the future cancels the work. Fails if
    /// the model cannot be loaded or reached, or does not give one vector for each text.
    fn embed_texts<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vector>, StepFailure>>;
}

impl Models {
    /// The embedding model called `named`, or the local one, with a cache in front. Loads and sends nothing. Fails if
    /// the name is unknown, if the model cannot embed, if its key is missing, or if the local model is not there.
    pub fn open_embedder(&self, named: Option<&str>) -> Result<Arc<dyn Embed>, ModelError> {
        let model = match named.map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => resolve::complete_name(&self.settings, name)?,
            None => format!("local:{LOCAL_EMBEDDING_MODEL}"),
        };
        let (provider, name) = split_model_name(&model)?;
        let embedder: Box<dyn Embed> = match provider {
            "local" if name == LOCAL_EMBEDDING_MODEL => self.local.engine()?.open_embedder(self.local_dir())?,
            "local" => return Err(ResolveError::CannotEmbed { model }.into()),
            "scripted" => return Err(ResolveError::CannotEmbed { model }.into()),
            _ => {
                let target = resolve::resolve_target(&self.settings, &*self.environment, provider, name)?;
                if target.protocol != Protocol::OpenAi {
                    return Err(ResolveError::CannotEmbed { model }.into());
                }
                Box::new(RemoteEmbedder { remote: RemoteModels::new(&self.settings), target, model })
            }
        };
        Ok(Arc::new(Cached::new(embedder)))
    }
}

/// An embedding model of a provider.
struct RemoteEmbedder {
    remote: RemoteModels,
    target: Target,
    model: String,
}

impl Embed for RemoteEmbedder {
    fn model_name(&self) -> &str {
        &self.model
    }

    fn embed_texts<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vector>, StepFailure>> {
        Box::pin(async move {
            let vectors = self.remote.embed_texts(&self.target, texts).await?;
            Ok(vectors.into_iter().map(normalize).collect())
        })
    }
}

/// Scales a vector to length one.
pub fn normalize(mut vector: Vec<f32>) -> Vector {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length.is_normal() {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector.into()
}

#[cfg(test)]
mod tests;
