//! How long this process waits for the server. A server that is stopped, or whose tables another client has locked,
//! keeps its sessions and does not answer.

use std::time::Duration;

use super::identity::WorkerIdentity;

/// How long connecting, a read and a renewal of the lease may take, by default.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How much longer a statement of a commit may take, such as the deletion of a large run. No caller waits that long: a
/// caller is answered before (`writer.rs`).
const COMMIT_FACTOR: u32 = 24;

/// Silence within a transaction after which the server regards a process as stopped.
const STOPPED_PROCESS_TIMEOUT: Duration = Duration::from_secs(3);

/// The purpose of a connection.
pub(super) enum ConnectionPurpose {
    /// Reads, and renewals of the lease.
    Read,
    /// Commits of a process.
    Commit(WorkerIdentity),
    /// Migrations of the schema, which take as long as they take.
    Migrate,
}

impl ConnectionPurpose {
    /// The process that commits.
    pub(super) fn committing_process(&self) -> Option<&WorkerIdentity> {
        match self {
            ConnectionPurpose::Commit(process) => Some(process),
            ConnectionPurpose::Read | ConnectionPurpose::Migrate => None,
        }
    }

    /// How long an answer may take, if reads may take `of_read`.
    pub(super) fn answer_timeout(&self, of_read: Duration) -> Option<Duration> {
        match self {
            ConnectionPurpose::Read => Some(of_read),
            ConnectionPurpose::Commit(_) => Some(of_read * COMMIT_FACTOR),
            ConnectionPurpose::Migrate => None,
        }
    }

    /// The settings of its sessions, if reads may take `of_read`. A read waits for a lock for less than that, so that the server
    /// is rid of it before its session is dropped.
    pub(super) fn session_settings(&self, of_read: Duration) -> Option<String> {
        match self {
            ConnectionPurpose::Read => Some(format!("set lock_timeout = {}", (of_read * 4 / 5).as_millis())),
            // The server rolls back a stopped process's transaction before those that wait for it give up.
            ConnectionPurpose::Commit(process) => Some(format!(
                "set idle_in_transaction_session_timeout = {}; set lock_timeout = {}; set statement_timeout = {}",
                process.lease.min(STOPPED_PROCESS_TIMEOUT).as_millis(),
                (STOPPED_PROCESS_TIMEOUT * 2).as_millis(),
                // The server gives a statement up before its session is dropped, so that its locks are gone.
                (of_read * COMMIT_FACTOR * 9 / 10).as_millis()
            )),
            ConnectionPurpose::Migrate => None,
        }
    }
}
