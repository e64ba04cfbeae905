//! [`ForkError`]: why a run cannot be forked.

use flowloom_core::code::Code;

use crate::definitions::edit_error::EditError;

/// Why a run cannot be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// Nothing would be different.
    #[error(
        "the run succeeded and nothing would change; name the step to begin at, or change an input, a step, the \
         definition, or the model"
    )]
    NothingChanges,
    /// The run has not reached the step at which the fork shall begin.
    #[error(
        "the step {0} has not run yet, so there is nothing to repeat; continue the run instead of forking it there"
    )]
    NotRunYet(String),
    /// Inputs are set by name, and these have none.
    #[error("the input of this run is not an object, so it has no field {0:?}; name the step to set a variable at")]
    InputWithoutNames(String),
    /// There is no such variable to set.
    #[error("the workflow has no variable {name:?}; {advice}")]
    UnknownVariable {
        /// The name.
        name: String,
        /// A similar name, or all names.
        advice: String,
    },
    /// There is no such input to set.
    #[error("the workflow has no input {name:?}; {advice}; name the step to set a variable at")]
    UnknownInput {
        /// The name.
        name: String,
        /// A similar name, or all names.
        advice: String,
    },
    /// The steps of a block have variables of their own, and this is none of them.
    #[error("the block around step {at} has no variable {name:?}; it has {sees}")]
    OutsideVariable {
        /// The name.
        name: String,
        /// The step.
        at: String,
        /// The variables of the block.
        sees: String,
    },
    /// An input that is a message of the conversation, and that no step reads.
    #[error("the conversation has begun with {0:?} already, and no step reads it; set the input, without a step")]
    ConversationInput(String),
    /// A tenant names a model that is a file.
    #[error("the model {0} is a file of the server, which only its operator can choose")]
    FileModel(String),
    /// A step cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

impl ForkError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ForkError::NothingChanges | ForkError::NotRunYet(_) => Code::NothingToDo,
            ForkError::FileModel(_) => Code::ModelUnknown,
            ForkError::InputWithoutNames(_)
            | ForkError::UnknownVariable { .. }
            | ForkError::UnknownInput { .. }
            | ForkError::OutsideVariable { .. }
            | ForkError::ConversationInput(_)
            | ForkError::Edit(_) => Code::UsageInvalid,
        }
    }
}
