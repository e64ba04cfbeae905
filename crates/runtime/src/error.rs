//! [`JournalError`] and [`RunError`]: why a run cannot be started, driven or asked. A failure of a step is a
//! [`StepFailure`], which the run records; these errors leave the run as it was.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::IllegalEvent;
use flowloom_core::status::Status;

use crate::divergence::Divergence;
use crate::semantics::ENGINE_SEMANTICS;

/// An error of the journal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JournalError {
    /// Another worker drives the run.
    #[error("another process is already running {0}; wait until it ends, or cancel the run")]
    RunOwned(RunId),
    /// Another worker has claimed the run.
    #[error("another process has taken over the run; this one stops without writing")]
    OwnershipLost,
    /// There is no such run.
    #[error("there is no run {0}")]
    RunNotFound(RunId),
    /// Another command of the run has this id.
    #[error("the id {0:?} was used for another command of this run; send the command under a new idempotency key")]
    CommandReused(String),
    /// The database cannot be reached or cannot store; a later attempt may succeed.
    #[error(transparent)]
    Unavailable(StepFailure),
    /// The connection to the database was lost during a commit, which has happened or not.
    #[error(transparent)]
    InDoubt(StepFailure),
    /// The engine that drives the runs cannot be reached; a later attempt may succeed.
    #[error(transparent)]
    DriverUnreachable(StepFailure),
    /// What was read is damaged.
    #[error(transparent)]
    Damaged(StepFailure),
    /// The file of the database is not at its path any more, so nothing can be stored.
    #[error(transparent)]
    Gone(StepFailure),
    /// The records cannot be read or stored for another reason.
    #[error(transparent)]
    Failed(StepFailure),
}

impl JournalError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            JournalError::RunOwned(_) => Code::RunOwned,
            JournalError::OwnershipLost => Code::OwnershipLost,
            JournalError::RunNotFound(_) => Code::RunNotFound,
            JournalError::CommandReused(_) => Code::KeyReused,
            JournalError::Unavailable(failure)
            | JournalError::InDoubt(failure)
            | JournalError::DriverUnreachable(failure)
            | JournalError::Damaged(failure)
            | JournalError::Gone(failure)
            | JournalError::Failed(failure) => failure.code,
        }
    }

    /// Whether the database or the driver cannot be reached, or the database cannot store, so that a later attempt may
    /// succeed.
    pub fn is_outage(&self) -> bool {
        matches!(self, JournalError::Unavailable(_) | JournalError::InDoubt(_) | JournalError::DriverUnreachable(_))
    }

    /// Whether every attempt fails in this way.
    pub fn is_lasting(&self) -> bool {
        matches!(self, JournalError::Damaged(_) | JournalError::Gone(_) | JournalError::Failed(_))
    }

    /// Whether what was read is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, JournalError::Damaged(_))
    }
}

impl From<JournalError> for StepFailure {
    fn from(error: JournalError) -> StepFailure {
        match error {
            JournalError::Unavailable(failure)
            | JournalError::InDoubt(failure)
            | JournalError::DriverUnreachable(failure)
            | JournalError::Damaged(failure)
            | JournalError::Gone(failure)
            | JournalError::Failed(failure) => failure,
            error => StepFailure::new(error.code(), error.to_string()),
        }
    }
}

/// Why a run cannot be started, resumed or replayed, why a command is rejected, or why it is no longer driven.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// The journal refused or failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal has an impossible order of events.
    #[error("the journal is damaged: {0}; restore a backup")]
    Corrupt(#[from] IllegalEvent),
    /// The plan does not reproduce the record.
    #[error(transparent)]
    Divergence(#[from] Divergence),
    /// A replay was given no records.
    #[error("there is nothing to replay")]
    NothingToReplay,
    /// Another version of the program created the run.
    #[error(
        "the run has engine semantics {0}, and this version has {ENGINE_SEMANTICS}; use the version that created it"
    )]
    OtherSemantics(u32),
    /// The run has ended.
    #[error("the run has ended: {}", .0.name())]
    Ended(Status),
    /// Only a run that has ended can be retried.
    #[error("the run is {}, and only a run that has ended can be retried{}", .0.name(), suggest_command(*.0))]
    NotEnded(Status),
    /// The run is a child run of a run that has not ended.
    #[error("the run is a child run of {0}, which has not ended; cancel or finish that one, and retry it instead")]
    ParentNotEnded(RunId),
    /// The run is a turn of a conversation that continued.
    #[error("the conversation has continued since this turn, with the run {0}; send the message again instead")]
    LaterTurn(RunId),
    /// Nothing failed, so there is nothing to repeat.
    #[error("no step failed, so a retry needs the path of the step to start from")]
    NothingFailed,
    /// The run has no such step.
    #[error("the run has no step {path}{}", list_similar(similar))]
    NoSuchStep {
        /// The path.
        path: Path,
        /// Paths that are similar.
        similar: Vec<Path>,
    },
    /// No step waits for the command.
    #[error("no step waits for this command at {0}")]
    NotWaiting(Path),
    /// Another command answered the question.
    #[error("the question at {0} has been answered already")]
    AlreadyAnswered(Path),
    /// Another command decided about the effect.
    #[error("the effect at {0} has been resolved already")]
    AlreadyResolved(Path),
    /// A newer program sent the command.
    #[error("this version of the program does not know the command; use the version that sent it")]
    UnknownCommand,
    /// The answer does not match the schema of the question.
    #[error("the answer does not match the schema of the question: {0}")]
    InvalidAnswer(String),
    /// The inputs are not valid, or the agent lacks a permission.
    #[error(transparent)]
    Rejected(#[from] StepFailure),
}

/// The command that continues a run that has not ended.
fn suggest_command(status: Status) -> &'static str {
    match status {
        Status::Waiting => "; it continues with `answer`",
        Status::Uncertain => "; it continues with `resolve`",
        Status::Interrupted | Status::Quarantined => "; it continues with `resume`",
        _ => "",
    }
}

fn list_similar(similar: &[Path]) -> String {
    match similar {
        [] => String::new(),
        similar => {
            let paths: Vec<_> = similar.iter().map(Path::as_str).collect();
            format!("; similar ones are {}", paths.join(", "))
        }
    }
}

impl RunError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            RunError::Journal(error) => error.code(),
            RunError::Corrupt(_) => Code::StoreCorrupt,
            RunError::Divergence(_) => Code::ReplayDivergence,
            RunError::NothingToReplay => Code::RunNotFound,
            RunError::OtherSemantics(_) | RunError::UnknownCommand => Code::EngineTooOld,
            RunError::Ended(_)
            | RunError::NotEnded(_)
            | RunError::LaterTurn(_)
            | RunError::ParentNotEnded(_)
            | RunError::NothingFailed
            | RunError::NoSuchStep { .. }
            | RunError::NotWaiting(_)
            | RunError::AlreadyAnswered(_)
            | RunError::AlreadyResolved(_) => Code::NothingToDo,
            RunError::InvalidAnswer(_) => Code::AnswerInvalid,
            RunError::Rejected(failure) => failure.code,
        }
    }

    /// Whether another worker drives the run.
    pub fn is_owned(&self) -> bool {
        matches!(self, RunError::Journal(JournalError::RunOwned(_)))
    }

    /// Whether another worker has claimed the run while this one drove it.
    pub fn is_ownership_lost(&self) -> bool {
        matches!(self, RunError::Journal(JournalError::OwnershipLost))
    }

    /// Whether the journal could not be reached, so that a later attempt may succeed.
    pub fn is_outage(&self) -> bool {
        matches!(self, RunError::Journal(error) if error.is_outage())
    }

    /// Whether the engine that drives the runs could not be reached.
    pub fn is_driver_unreachable(&self) -> bool {
        matches!(self, RunError::Journal(JournalError::DriverUnreachable(_)))
    }

    /// Whether the database is gone, so that nothing can be stored any more.
    pub fn is_store_gone(&self) -> bool {
        matches!(self, RunError::Journal(JournalError::Gone(_)))
    }

    /// Whether it is not known if the last commit has happened.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, RunError::Journal(JournalError::InDoubt(_)))
    }
}

impl From<RunError> for StepFailure {
    fn from(error: RunError) -> StepFailure {
        match error {
            RunError::Journal(error) => error.into(),
            RunError::Rejected(failure) => failure,
            error => StepFailure::new(error.code(), error.to_string()),
        }
    }
}
