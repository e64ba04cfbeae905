//! [`AppError`]: why a use case failed. The terminal and the server render it; neither compares codes.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::id::RunId;
use flowloom_runtime::{JournalError, RunError};
use flowloom_store::StoreError;
use flowloom_tools::ToolError;
use tokio::task::JoinError;

use crate::blocks::BlockError;
use crate::config::error::ConfigError;
use crate::definitions::error::DefinitionError;
use crate::keys::{InvalidKey, UnknownScope};
use crate::runs::client_calls::NotAnAnswer;
use crate::runs::fork_error::{ForkError, NotOwnStep};
use crate::runs::inputs::InvalidBudget;
use crate::runs::open_steps::NoOpenStep;
use crate::schedule_error::ScheduleError;
use crate::times::InvalidTime;

/// An error of a use case.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A definition cannot be used.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// Blocks cannot be stored or removed.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A run cannot be started, resumed or signalled, or is no longer driven.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run cannot be forked in this way.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// A step to begin at belongs to a child run.
    #[error(transparent)]
    NotOwnStep(#[from] NotOwnStep),
    /// A message does not answer what the run asks.
    #[error(transparent)]
    NotAnAnswer(#[from] NotAnAnswer),
    /// No step waits for the command.
    #[error(transparent)]
    NoOpenStep(#[from] NoOpenStep),
    /// A tool cannot be set up.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A schedule is wrong.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A budget is wrong.
    #[error(transparent)]
    Budget(#[from] InvalidBudget),
    /// A scope is unknown.
    #[error(transparent)]
    Scope(#[from] UnknownScope),
    /// A key cannot be created.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// A time cannot be read.
    #[error(transparent)]
    Time(#[from] InvalidTime),
    /// A model, a tool, a block or an input failed, as a step would record it.
    #[error(transparent)]
    Failed(#[from] StepFailure),
    /// A run belongs to another project, whose configuration it needs.
    #[error("the run {run} belongs to the project {project}; continue it there")]
    RunOfOtherProject {
        /// The run.
        run: RunId,
        /// The name of its project.
        project: String,
    },
    /// A run was started under another configuration.
    #[error(
        "the run {run} was started under another configuration ({}); a server with that configuration continues it, and \
         flowloom resume {run} continues it under this one", differences.join(", ")
    )]
    RunOfOtherConfig {
        /// The run.
        run: RunId,
        /// The parts of the configuration that differ.
        differences: Vec<String>,
    },
    /// A test could not do again what a run did.
    #[error("a test cannot repeat the run {run}: {why}; record a run that succeeded, failed or waits for a person")]
    NotRepeatable {
        /// The run.
        run: RunId,
        /// The missing part, or the reason.
        why: &'static str,
    },
    /// A run cannot be deleted now.
    #[error("the run {run} cannot be deleted: {why}")]
    RunKept {
        /// The run.
        run: RunId,
        /// The reason, and what to do.
        why: String,
    },
    /// The maximum number of runs is in progress.
    #[error("{0} runs are already running, which is the limit")]
    TooManyRuns(usize),
    /// A user has many runs, and the remaining capacity is reserved for others.
    #[error(
        "{own} runs of this user are running, and the last {reserved} of {max} places are kept for users with fewer"
    )]
    TooManyRunsOfUser {
        /// The number of runs of the user.
        own: usize,
        /// The number of places that are kept.
        reserved: usize,
        /// The number of places.
        max: usize,
    },
    /// The server is stopping.
    #[error("the server is stopping; another server, or its next start, takes the call")]
    Stopping,
    /// A command was stored, as far as is known, and then something failed.
    #[error(
        "{source}; the command {command} {}: read its outcome instead of sending it again",
        if source.is_commit_unknown() { "may be stored" } else { "is stored" }
    )]
    AfterCommand {
        /// The id of the command.
        command: String,
        /// The failure.
        source: Box<AppError>,
    },
    /// A turn of the conversation is running.
    #[error("the thread has a turn in progress; wait until it ends")]
    ThreadBusy,
    /// Another request has used the idempotency key.
    #[error("this Idempotency-Key was used for another call")]
    KeyReused,
    /// A background task was stopped.
    #[error("the background task failed: {0}")]
    Task(#[from] JoinError),
}

impl AppError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            AppError::Store(error) => error.code(),
            AppError::Config(error) => error.code(),
            AppError::Definition(error) => error.code(),
            AppError::Block(error) => error.code(),
            AppError::Run(error) => error.code(),
            AppError::Fork(error) => error.code(),
            AppError::NoOpenStep(_) | AppError::NotOwnStep(_) | AppError::RunKept { .. } => Code::NothingToDo,
            AppError::NotAnAnswer(error) => error.code(),
            AppError::Tool(error) => error.code(),
            AppError::Schedule(_) => Code::ScheduleInvalid,
            AppError::NotRepeatable { .. } => Code::TestInvalid,
            AppError::Budget(_) | AppError::Scope(_) | AppError::Key(_) | AppError::Time(_) => Code::UsageInvalid,
            AppError::Failed(failure) => failure.code,
            AppError::RunOfOtherProject { .. } => Code::RunOfOtherProject,
            AppError::RunOfOtherConfig { .. } => Code::RunOfOtherConfig,
            AppError::TooManyRuns(_) | AppError::TooManyRunsOfUser { .. } => Code::TooManyRuns,
            AppError::Stopping => Code::ServerStopping,
            AppError::AfterCommand { source, .. } => source.code(),
            AppError::ThreadBusy => Code::RunOwned,
            AppError::KeyReused => Code::KeyReused,
            AppError::Task(_) => Code::StoreFailed,
        }
    }

    /// Whether there is no such run.
    pub(crate) fn is_run_missing(&self) -> bool {
        match self {
            AppError::Run(RunError::Journal(error)) | AppError::Store(StoreError::Journal(error)) => {
                matches!(error, JournalError::RunNotFound(_))
            }
            _ => false,
        }
    }

    /// Whether another worker drives the run.
    pub fn is_run_owned(&self) -> bool {
        match self {
            AppError::Run(error) => error.is_owned(),
            AppError::Store(StoreError::Journal(JournalError::RunOwned(_))) => true,
            _ => false,
        }
    }

    /// Whether a command is left to another worker: it drives the run, has its project and its configuration, or lives on.
    pub fn is_left_to_others(&self) -> bool {
        let is_of_others =
            matches!(self, AppError::RunOfOtherProject { .. } | AppError::RunOfOtherConfig { .. } | AppError::Stopping);
        self.is_run_owned() || is_of_others
    }

    /// Whether it is not known if something was stored.
    fn is_commit_unknown(&self) -> bool {
        matches!(self, AppError::Store(error) if error.is_commit_unknown())
    }

    /// The error of sending a command, which names the command if it is or may be stored.
    pub(crate) fn of_command(self, command: &str, is_stored: bool) -> AppError {
        match is_stored || self.is_commit_unknown() {
            true => AppError::AfterCommand { command: command.to_owned(), source: Box::new(self) },
            false => self,
        }
    }

    /// The error of reading a run, which it names if the bundle of the run is damaged.
    pub(crate) fn of_run(self, run: RunId) -> AppError {
        match self {
            AppError::Store(error) => error.of_run(run).into(),
            error => error,
        }
    }

    /// Whether stored data is damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            AppError::Store(error) => error.is_damage(),
            AppError::Run(RunError::Corrupt(_)) => true,
            AppError::Run(RunError::Journal(error)) => error.is_damage(),
            AppError::Definition(error) => error.is_damage(),
            AppError::AfterCommand { source, .. } => source.is_damage(),
            // A step keeps the failure of the database by its code.
            AppError::Run(RunError::Rejected(failure)) | AppError::Failed(failure) => {
                failure.code == Code::StoreCorrupt
            }
            _ => false,
        }
    }

    /// Whether the database cannot be reached or cannot store, so that a later attempt may succeed.
    pub fn is_store_unavailable(&self) -> bool {
        match self {
            AppError::Store(error) => error.is_unavailable(),
            AppError::Run(error) => error.is_outage(),
            AppError::AfterCommand { source, .. } => source.is_store_unavailable(),
            _ => false,
        }
    }

    /// When the same request may succeed, in milliseconds since the Unix epoch; `None` if that is not known.
    pub fn retry_at(&self) -> Option<u64> {
        match self {
            AppError::Store(StoreError::Quota(exceeded)) => exceeded.until,
            _ => None,
        }
    }

    /// Every problem of the definition or the blocks, as JSON.
    pub fn problems(&self) -> Vec<serde_json::Value> {
        match self {
            AppError::Definition(DefinitionError::Invalid { problems, .. }) => problems.clone(),
            AppError::Block(BlockError::Incomplete { problems, .. }) => {
                problems.iter().map(|problem| serde_json::json!({"message": problem})).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl From<JournalError> for AppError {
    fn from(error: JournalError) -> AppError {
        AppError::Run(error.into())
    }
}

impl From<AppError> for StepFailure {
    /// The failure as a run records it when one of its steps caused the error.
    fn from(error: AppError) -> StepFailure {
        match error {
            AppError::Store(error) => error.into(),
            AppError::Config(error) => error.into(),
            AppError::Definition(error) => error.into(),
            AppError::Run(error) => error.into(),
            AppError::Tool(error) => error.into(),
            AppError::Failed(failure) => failure,
            error => StepFailure::new(error.code(), error.to_string()),
        }
    }
}
