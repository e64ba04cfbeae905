//! Errors of commands: printed as one line on stderr with code and hint, and mapped to an exit code.

use flowloom_app::config::error::ConfigError;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_store::StoreError;

/// An error that ends a command.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// The exit code of the program.
    pub(crate) exit: u8,
    /// The error to print.
    pub(crate) error: StepFailure,
}

/// The result of a command: the exit code of a finished command, or an error.
pub(crate) type CommandResult = Result<u8, CommandError>;

impl CommandError {
    /// A usage error, with exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> CommandError {
        CommandError { exit: 2, error: StepFailure::new(Code::UsageInvalid, message) }
    }
}

impl From<StepFailure> for CommandError {
    /// Maps errors outside of a run: exit code 1 for failures of the database or a download, 3 for divergence, else 2
    /// for wrong use.
    fn from(error: StepFailure) -> CommandError {
        let exit = match error.code {
            Code::StoreFailed | Code::StoreFull | Code::OwnershipLost | Code::ModelFetchFailed => 1,
            Code::ReplayDivergence => 3,
            _ => 2,
        };
        CommandError { exit, error }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> CommandError {
        StepFailure::from(error).into()
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> CommandError {
        StepFailure::from(error).into()
    }
}
