//! The protocol between a model process and its parent: one line of JSON for each message, jobs on stdin, replies on
//! stdout.

use serde::{Deserialize, Serialize};

use crate::language::error::GenerationError;
use crate::language::{AnswerJob, GeneratedText};

/// From the parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerRequest {
    /// Start an answer. The parent waits for its end before it sends another one.
    Answer(Box<AnswerJob>),
    /// Stop the answer that was started last, if it is still being generated.
    Cancel,
}

/// From the model process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The model is loaded.
    Ready,
    /// The model cannot be loaded; the process ends.
    NotLoaded(String),
    /// A piece of the answer.
    Text(String),
    /// The end of the answer.
    Answered(GeneratedText),
    /// There is no answer.
    Failed(GenerationError),
}
