//! [`ForkError`]: why a run cannot be forked, and [`NotOwnStep`]: why it cannot be repeated from a step.

use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;

use crate::definitions::edit_error::EditError;
use crate::listing::list_first;
use crate::model_choice::InvalidModelChoice;

/// Number of paths that an error lists.
const MAX_LISTED_PATHS: usize = 5;

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
    /// Several steps of the run have this name.
    #[error("{} steps of the run are named {name}; name one of them by its path: {}", paths.len(), list_first(paths.iter(), MAX_LISTED_PATHS))]
    AmbiguousStep {
        /// The name, as it was given.
        name: String,
        /// Their paths.
        paths: Vec<Path>,
    },
    /// Inputs are set by name, and these have none.
    #[error("the input of this run is not an object, so it has no field {0:?}; name the step to set a variable at")]
    InputWithoutNames(String),
    /// The run has one input without a name, and the other definition has inputs with names.
    #[error(
        "the input of this run has no name, and the definition has {0}; set one of them, and the others keep their defaults"
    )]
    UnnamedInput(String),
    /// The other definition does not have all inputs of the run.
    #[error(
        "the definition does not read {} of this run; it has {known}; set one of them, and what it does not read is left out",
        list_first(names.iter(), MAX_LISTED_PATHS)
    )]
    DroppedInputs {
        /// The inputs that it does not have.
        names: Vec<String>,
        /// The inputs that it has.
        known: String,
    },
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
    /// A text is no choice of a model.
    #[error(transparent)]
    InvalidModel(#[from] InvalidModelChoice),
    /// A step cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// A step of a child run that was named as a step of a run around it.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} is a step of the child run {run}, not of this run; {command} that run: flowloom {command} {run} --{option} {step}"
)]
pub struct NotOwnStep {
    /// Its path in the run around the child run.
    pub(super) path: Path,
    /// The child run.
    pub(super) run: RunId,
    /// Its path in the child run.
    pub(super) step: Path,
    /// The command that can be given for the child run.
    pub(super) command: &'static str,
    /// The option of the command that takes the path.
    pub(super) option: &'static str,
}

impl ForkError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ForkError::NothingChanges | ForkError::NotRunYet(_) | ForkError::AmbiguousStep { .. } => Code::NothingToDo,
            ForkError::FileModel(_) => Code::ModelUnknown,
            ForkError::InputWithoutNames(_)
            | ForkError::UnnamedInput(_)
            | ForkError::DroppedInputs { .. }
            | ForkError::UnknownVariable { .. }
            | ForkError::UnknownInput { .. }
            | ForkError::OutsideVariable { .. }
            | ForkError::ConversationInput(_)
            | ForkError::InvalidModel(_)
            | ForkError::Edit(_) => Code::UsageInvalid,
        }
    }
}
