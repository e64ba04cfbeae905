//! Models that run in this process, as far as this crate knows them: their files. [`InferenceEngine`] loads and runs a file; it
//! is implemented by the crate `models-local`, so that this crate does not depend on an inference library.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::StepFailure;
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_runtime::effects::{EffectContext, EffectFuture};
use parking_lot::Mutex;

use crate::catalog::LOCAL_MODEL;
use crate::embed::Embed;
use crate::error::{ModelError, ResolveError};

/// Largest answer, in tokens, when the request does not bound it.
pub const LOCAL_MAX_ANSWER_TOKENS: u64 = 512;
/// Window of the default model, in tokens.
const DEFAULT_WINDOW_TOKENS: u64 = 8192;

/// Runs model files in this process.
pub trait InferenceEngine: Send + Sync {
    /// The window that a model file states, in tokens; `None` if the file cannot be read.
    fn read_window(&self, file: &Path) -> Option<u64>;

    /// Generates an answer with the model in `file`, which is loaded at the first call. `ModelFailed` if the file cannot be
    /// used; `Cancelled` if the call was dropped.
    fn generate<'a>(
        &'a self,
        file: &'a Path,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply>;

    /// The embedding model [`LOCAL_EMBEDDING_MODEL`](crate::LOCAL_EMBEDDING_MODEL) from the files in `folder`.
    /// Fails with `ModelFileMissing` if one is missing.
    fn open_embedder(&self, folder: &Path) -> Result<Box<dyn Embed>, StepFailure>;
}

/// The local models of one folder.
pub(crate) struct LocalModels {
    folder: PathBuf,
    engine: Option<Arc<dyn InferenceEngine>>,
    windows: Mutex<BTreeMap<PathBuf, u64>>,
}

impl LocalModels {
    /// Models from `folder`. Without an engine their files are found, and every call fails.
    pub(crate) fn new(folder: PathBuf, engine: Option<Arc<dyn InferenceEngine>>) -> LocalModels {
        LocalModels { folder, engine, windows: Mutex::default() }
    }

    /// The folder in which names are looked up.
    pub(crate) fn model_folder(&self) -> &Path {
        &self.folder
    }

    /// The engine that runs the models.
    pub(crate) fn engine(&self) -> Result<&dyn InferenceEngine, ResolveError> {
        self.engine.as_deref().ok_or(ResolveError::NoInferenceEngine)
    }

    /// The file of `local:NAME`, or of `local:/path/to/file.gguf`.
    pub(crate) fn find_file(&self, name: &str) -> Result<PathBuf, ResolveError> {
        let is_path = name.contains(['/', '\\']) || name.ends_with(".gguf");
        let file = if is_path { PathBuf::from(name) } else { self.folder.join(format!("{name}.gguf")) };
        if file.is_file() {
            return Ok(file);
        }
        Err(ResolveError::FileMissing { file, can_be_pulled: name == LOCAL_MODEL, present: self.list_names() })
    }

    /// The names of the models in the folder, as `local:NAME`.
    pub(crate) fn list_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(format!("local:{}", entry.file_name().to_str()?.strip_suffix(".gguf")?)))
            .collect();
        names.sort();
        names
    }

    /// Tokens that a prompt and its answer may have together.
    pub(crate) fn read_window(&self, name: &str) -> u64 {
        let (false, Ok(file), Ok(engine)) = (name == LOCAL_MODEL, self.find_file(name), self.engine()) else {
            return DEFAULT_WINDOW_TOKENS;
        };
        let mut windows = self.windows.lock();
        *windows.entry(file).or_insert_with_key(|file| engine.read_window(file).unwrap_or(DEFAULT_WINDOW_TOKENS))
    }

    /// Generates an answer with `local:NAME`.
    pub(crate) async fn generate_answer(
        &self,
        name: &str,
        request: &GenerateRequest,
        context: &EffectContext,
    ) -> Result<GenerateReply, ModelError> {
        let file = self.find_file(name)?;
        Ok(self.engine()?.generate(&file, request, context).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_in_the_folder_and_a_path_is_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bad.gguf"), "GGUF but not really").unwrap();
        let local = LocalModels::new(folder.path().into(), None);
        assert!(matches!(local.find_file("../etc/passwd"), Err(ResolveError::FileMissing { .. })));
        assert!(local.find_file("bad").is_ok());
        let missing = local.find_file("bat").expect_err("there is no such model").to_string();
        assert!(missing.ends_with("is missing; the local models are local:bad"), "{missing}");
        assert_eq!(local.engine().map(|_| ()), Err(ResolveError::NoInferenceEngine));
    }
}
