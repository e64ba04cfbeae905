//! The errors of the sandbox, and how each becomes the error of a step.

use std::path::PathBuf;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::json::JsonError;
use flowloom_runtime::causes::log_causes;

use crate::python::error::{InterpreterError, InterpreterSearchError, MessageError, ProcessEnd};
use crate::script::error::{ExceededLimit, WorkerError};

/// Why an expression or a Python block has no result.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Untrusted code cannot run here.
    #[error("untrusted code is not run here: {0}")]
    Unavailable(#[from] UnavailableError),
    /// The expression and its values cannot be written as JSON.
    #[error("cannot serialise the expression: {0}")]
    ExpressionNotSerialized(#[source] serde_json::Error),
    /// The expression threw an exception; the text is the expression's own.
    #[error("{message}")]
    ExpressionThrew {
        /// Name and message of the exception.
        message: String,
    },
    /// The worker returned a value that is not JSON.
    #[error("cannot parse the value: {0}")]
    ValueNotJson(#[source] JsonError),
    /// The worker ended, or sent an invalid answer.
    #[error("the worker that evaluated the expression died")]
    WorkerDied,
    /// The expression exceeded a limit.
    #[error("the expression was stopped: {limit}: {expression}")]
    ExpressionStopped {
        /// The limit that the expression exceeded.
        limit: ExceededLimit,
        /// The start of the expression.
        expression: String,
    },
    /// The block and its inputs cannot be written as JSON.
    #[error("cannot pass the inputs to the block: {0}")]
    InputsNotSerialized(#[source] serde_json::Error),
    /// The block raised an exception; the text is the block's own.
    #[error("{message}")]
    BlockRaised {
        /// The exception and its line.
        message: String,
    },
    /// The block returned something that cannot be a result; the text is from the block's process.
    #[error("{message}")]
    BlockResultUnusable {
        /// The problem with the result.
        message: String,
    },
    /// The block's process sent something that is not a message.
    #[error("the block's process sent an invalid message: {0}")]
    InvalidMessage(#[source] MessageError),
    /// The block's process ended.
    #[error("the block's process {0} before the block returned a result")]
    BlockEnded(ProcessEnd),
    /// The block exceeded its memory limit.
    #[error("the block was stopped: it needs more than {limit_mebibytes} MiB of memory")]
    BlockMemoryExceeded {
        /// The memory limit of the block, in MiB.
        limit_mebibytes: u64,
    },
    /// The block exceeded its time limit.
    #[error("the block was stopped: it ran longer than {limit_ms} ms")]
    BlockTimeExceeded {
        /// The time limit of the block, in milliseconds.
        limit_ms: u128,
    },
    /// The block made too many requests.
    #[error("the block made more than {limit} requests to its run")]
    BlockRequestsExceeded {
        /// Maximum number of requests.
        limit: usize,
    },
}

/// Why untrusted code cannot run here.
#[derive(Debug, thiserror::Error)]
pub enum UnavailableError {
    /// The worker cannot lock itself down; the text is from the worker.
    #[error("{missing}")]
    NotLockedDown {
        /// The missing feature of the kernel.
        missing: String,
    },
    /// The worker for expressions does not start.
    #[error("{}: {source}", program.display())]
    WorkerNotStarted {
        /// The worker program.
        program: PathBuf,
        /// The reason.
        source: WorkerError,
    },
    /// No Python interpreter can be used.
    #[error("{0}")]
    NoInterpreter(#[source] Arc<InterpreterSearchError>),
    /// The Python interpreter does not start.
    #[error("{0}")]
    InterpreterNotStarted(#[source] InterpreterError),
}

impl SandboxError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            SandboxError::Unavailable(_) => Code::NoSandbox,
            SandboxError::ExpressionNotSerialized(_)
            | SandboxError::ExpressionThrew { .. }
            | SandboxError::ValueNotJson(_)
            | SandboxError::WorkerDied => Code::ExpressionFailed,
            SandboxError::ExpressionStopped { .. } => Code::ScriptLimit,
            SandboxError::InputsNotSerialized(_) | SandboxError::BlockRaised { .. } => Code::BlockFailed,
            SandboxError::BlockResultUnusable { .. } | SandboxError::InvalidMessage(_) => Code::BlockResult,
            SandboxError::BlockEnded(end) if end.used_up_cpu_time() => Code::BlockLimit,
            SandboxError::BlockEnded(_) => Code::BlockFailed,
            SandboxError::BlockMemoryExceeded { .. }
            | SandboxError::BlockTimeExceeded { .. }
            | SandboxError::BlockRequestsExceeded { .. } => Code::BlockLimit,
        }
    }
}

impl From<InterpreterError> for UnavailableError {
    fn from(error: InterpreterError) -> UnavailableError {
        match error {
            InterpreterError::NotLockedDown { missing } => UnavailableError::NotLockedDown { missing },
            error => UnavailableError::InterpreterNotStarted(error),
        }
    }
}

/// The causes are logged here, because a step's error has none. They contain no secret: no key or secret is passed to
/// a worker.
impl From<SandboxError> for StepFailure {
    fn from(error: SandboxError) -> StepFailure {
        log_causes(error.code(), &error);
        StepFailure::new(error.code(), error.to_string())
    }
}
