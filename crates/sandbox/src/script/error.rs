//! Errors of a worker for expressions.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a worker does not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The program cannot be started, or its channel broke.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The program has no standard streams.
    #[error("it has no pipes")]
    NoPipes,
    /// The program ended.
    #[error("the worker ended before it was ready")]
    Ended,
    /// The program did not answer.
    #[error("the worker did not become ready in time")]
    Timeout,
}

/// A limit that an expression exceeded, as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ExceededLimit {
    /// CPU time; in real time the limit is higher.
    #[error("it ran longer than {limit_ms} ms")]
    Time {
        /// The time limit, in milliseconds.
        limit_ms: u64,
    },
    /// Memory of the engine.
    #[error("it needs more than {limit_mebibytes} MiB of memory")]
    Memory {
        /// The memory limit, in MiB.
        limit_mebibytes: usize,
    },
    /// Size of the value as JSON.
    #[error("its value is larger than {limit_mebibytes} MiB")]
    Output {
        /// The maximum size of the value, in MiB.
        limit_mebibytes: usize,
    },
}

impl ExceededLimit {
    pub(super) fn from_timeout(timeout: Duration) -> ExceededLimit {
        ExceededLimit::Time { limit_ms: timeout.as_millis() as u64 }
    }
}
