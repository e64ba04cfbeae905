//! The states of a run, and what each means to the command line and over HTTP.

use serde::{Deserialize, Serialize};

/// The status of a run. The reason for a failure is the code of its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Created, not started.
    Queued,
    /// Leased by a worker.
    Running,
    /// Running according to its events, but no living worker drives it. Derived when a run is read; never stored.
    Interrupted,
    /// Every live branch waits for a person or a timer.
    Waiting,
    /// A crash interrupted an effect that must not be repeated automatically; a person must decide.
    Uncertain,
    /// Finished with a result.
    Succeeded,
    /// Finished with an error.
    Failed,
    /// Cancelled on request.
    Cancelled,
    /// Reached its time limit.
    TimedOut,
    /// Exhausted its budget.
    BudgetExceeded,
    /// Crashed its worker too often to be resumed automatically.
    Quarantined,
}

/// The names and codes of one status.
pub struct StatusRow {
    /// The status.
    pub status: Status,
    /// The name in events, JSON and the database.
    pub name: &'static str,
    /// Exit code of a command whose run ends with this status.
    pub exit_code: u8,
    /// HTTP status of a request that waits for the run.
    pub http_status: u16,
}

const fn new_row(status: Status, name: &'static str, exit_code: u8, http_status: u16) -> StatusRow {
    StatusRow { status, name, exit_code, http_status }
}

/// All statuses.
pub const STATUS_TABLE: [StatusRow; 11] = [
    new_row(Status::Queued, "queued", 1, 202),
    new_row(Status::Running, "running", 1, 202),
    new_row(Status::Interrupted, "interrupted", 130, 202),
    new_row(Status::Waiting, "waiting", 4, 202),
    new_row(Status::Uncertain, "uncertain", 6, 409),
    new_row(Status::Succeeded, "succeeded", 0, 200),
    new_row(Status::Failed, "failed", 1, 200),
    new_row(Status::Cancelled, "cancelled", 130, 200),
    new_row(Status::TimedOut, "timed_out", 124, 200),
    new_row(Status::BudgetExceeded, "budget_exceeded", 5, 200),
    new_row(Status::Quarantined, "quarantined", 1, 409),
];

impl Status {
    /// The row of [`STATUS_TABLE`] for this status.
    pub fn table_row(self) -> &'static StatusRow {
        STATUS_TABLE.iter().find(|row| row.status == self).unwrap_or(&STATUS_TABLE[1])
    }

    /// The name in events, JSON and the database.
    pub fn name(self) -> &'static str {
        self.table_row().name
    }

    /// The status called `name`.
    pub fn parse(name: &str) -> Option<Status> {
        STATUS_TABLE.iter().find(|row| row.name == name).map(|row| row.status)
    }

    /// Whether the run has ended for good.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Status::Succeeded | Status::Failed | Status::Cancelled | Status::TimedOut | Status::BudgetExceeded
        )
    }
}
