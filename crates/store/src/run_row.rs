//! A row of the list of runs, and the filter of that list.

use flowloom_core::id::RunId;
use flowloom_core::status::Status;

/// A run as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The run's id.
    pub id: RunId,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// End time, in milliseconds since the Unix epoch; `None` while the run is unfinished.
    pub finished_at: Option<u64>,
    /// Format of the definition.
    pub format: String,
    /// Name of the definition.
    pub name: String,
    /// Id of the workflow, if the run was started from a stored one.
    pub workflow: Option<String>,
    /// User that owns the run.
    pub user: String,
    /// Key of the conversation in the user's memory, if the run is a turn of one.
    pub thread_key: Option<String>,
    /// The run that started it, if it is a child run.
    pub parent: Option<RunId>,
    /// Name of the stored status.
    pub status: String,
    /// Whether a living process drives the run.
    pub is_driven: bool,
}

impl RunRow {
    /// Name of the status. A run that is stored as running and has no living worker was interrupted.
    pub fn current_status(&self) -> &str {
        let is_interrupted = self.status == Status::Running.name() && !self.is_driven;
        if is_interrupted { Status::Interrupted.name() } else { &self.status }
    }
}

/// Filter for a list of runs. Fields that are `None` match every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of this user.
    pub user: Option<String>,
    /// Runs with this status.
    pub status: Option<String>,
    /// Runs of definitions with this name.
    pub name: Option<String>,
    /// Runs of the workflow with this id, or of definitions with this name that have no id.
    pub workflow: Option<String>,
    /// Turns of the conversation stored under this key.
    pub thread_key: Option<String>,
    /// Runs of definitions in this format.
    pub format: Option<String>,
    /// Runs created before this one.
    pub before: Option<RunId>,
    /// Maximum number of runs returned.
    pub limit: u32,
    /// Number of matching runs to skip.
    pub offset: u32,
}
