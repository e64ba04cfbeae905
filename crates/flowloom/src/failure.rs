//! Errors of commands: one line on stderr with code and advice, and the exit code.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

/// Why a command stops.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: u8,
    /// What went wrong.
    pub(crate) error: StepError,
}

/// What commands give: an exit code, or why there is nothing.
pub(crate) type Outcome = Result<u8, Failure>;

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: 2, error: StepError::new(Code::UsageInvalid, message) }
    }
}

impl From<StepError> for Failure {
    /// Errors before a run, or beside one: wrong use, except for a database that failed under way.
    fn from(error: StepError) -> Failure {
        let exit = match error.code {
            Code::StoreFailed | Code::StoreFull | Code::OwnershipLost | Code::ModelFetchFailed => 1,
            Code::ReplayDivergence => 3,
            _ => 2,
        };
        Failure { exit, error }
    }
}
