//! Why a step failed.

use serde::{Deserialize, Serialize};

use crate::code::Code;

/// A step's failure as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct StepError {
    /// What kind of failure.
    pub code: Code,
    /// What happened, in one sentence, without secrets.
    pub message: String,
    /// Whether trying again can help.
    #[serde(default, skip_serializing_if = "Retry::is_never")]
    pub retry: Retry,
}

/// Whether the same request may be tried again by whoever sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// It would fail again.
    #[default]
    Never,
    /// It may work.
    Maybe,
    /// The other side asked for this many milliseconds of patience first.
    After(u64),
}

impl Retry {
    fn is_never(&self) -> bool {
        *self == Retry::Never
    }
}

impl StepError {
    /// A failure that would happen again.
    pub fn new(code: Code, message: impl Into<String>) -> StepError {
        StepError { code, message: message.into(), retry: Retry::Never }
    }

    /// A failure that may pass.
    pub fn passing(code: Code, message: impl Into<String>) -> StepError {
        StepError { code, message: message.into(), retry: Retry::Maybe }
    }
}
