//! The error of a failed step.

use serde::{Deserialize, Serialize};

use crate::code::Code;

/// The failure of a step as it is recorded in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct StepFailure {
    /// The code.
    pub code: Code,
    /// The failure in one sentence, without secrets.
    pub message: String,
    /// Whether a retry can succeed.
    #[serde(default, skip_serializing_if = "Retry::is_never")]
    pub retry: Retry,
}

/// Whether the sender may retry the same request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// A retry would fail again.
    #[default]
    Never,
    /// A retry may succeed.
    Maybe,
    /// A retry may succeed after this many milliseconds, as the other side requested.
    After(u64),
}

impl Retry {
    fn is_never(&self) -> bool {
        *self == Retry::Never
    }
}

impl StepFailure {
    /// A permanent failure.
    pub fn new(code: Code, message: impl Into<String>) -> StepFailure {
        StepFailure { code, message: message.into(), retry: Retry::Never }
    }

    /// A transient failure, which a retry may resolve.
    pub fn new_retryable(code: Code, message: impl Into<String>) -> StepFailure {
        StepFailure { code, message: message.into(), retry: Retry::Maybe }
    }
}
