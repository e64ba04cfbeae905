//! The error of a sandbox that runs nothing.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

/// Error if code cannot run on this machine.
pub(crate) fn no_sandbox(missing: &str) -> StepError {
    StepError::new(Code::NoSandbox, format!("untrusted code is not run here: {missing}"))
}
