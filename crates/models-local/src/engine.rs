//! [`LocalEngine`]: loads each model file once and serializes the calls to it, fairly among users. `language` and `embedding` compute.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::StepFailure;
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_models::InferenceEngine;
use flowloom_models::embed::Embed;
use flowloom_runtime::effects::{EffectContext, EffectFuture};

use crate::embedding::LocalEmbedder;
use crate::language::{self, EngineSlot};

/// The local models of a process.
#[derive(Default)]
pub struct LocalEngine {
    slots: Mutex<BTreeMap<PathBuf, Arc<EngineSlot>>>,
}

impl LocalEngine {
    /// An engine that has not loaded a file yet.
    pub fn new() -> LocalEngine {
        LocalEngine::default()
    }
}

impl InferenceEngine for LocalEngine {
    fn read_window(&self, file: &Path) -> Option<u64> {
        language::read_window(file)
    }

    fn generate<'a>(
        &'a self,
        file: &'a Path,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.entry(file.to_owned()).or_default().clone()
        };
        Box::pin(async move { Ok(language::generate(slot, file.to_owned(), request, context).await?) })
    }

    fn open_embedder(&self, folder: &Path) -> Result<Box<dyn Embed>, StepFailure> {
        Ok(Box::new(LocalEmbedder::new(folder)?))
    }
}
