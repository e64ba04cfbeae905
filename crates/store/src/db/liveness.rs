//! How processes that share a database show each other that they are alive.

use std::collections::HashSet;

use flowloom_core::id::RunId;
use flowloom_runtime::journal::LeaseTerm;

use super::{DbConnection, WriteJob};
use crate::error::StoreError;

/// The living processes, as far as the database records them.
pub(crate) enum LivingWorkers {
    /// Not recorded: a process is alive if it holds its lock file.
    Locks,
    /// The names of the living processes.
    Named(HashSet<String>),
}

/// The proof that this process is alive, and how it learns which others are. By default others cannot seem dead while they
/// live.
pub(crate) trait Liveness: Send + Sync {
    /// Makes sure that others see this process as alive.
    fn show_process(&self) -> Result<(), StoreError>;

    /// Reads which processes are alive.
    fn read_living(&self, db: &DbConnection) -> Result<LivingWorkers, StoreError>;

    /// Whether another process, which the database does not record, is alive.
    fn is_alive(&self, name: &str) -> bool;

    /// Whether processes on several machines may share the database.
    fn is_shared(&self) -> bool {
        false
    }

    /// The job to run when this process ends, if others would otherwise wait for its lease to expire.
    fn shutdown_job(&self) -> Option<WriteJob> {
        None
    }

    /// Whether each process that seems dead has really ended.
    fn can_identify_dead_workers(&self) -> bool {
        true
    }

    /// The term of the lease of this process.
    fn read_term(&self) -> LeaseTerm {
        LeaseTerm::ENDLESS
    }

    /// Whether another process, which seemed to be dead, is alive by now. From the answer to the end of the transaction it
    /// appends nothing to `run`.
    fn has_come_back(&self, _db: &DbConnection, _run: RunId, _name: &str) -> Result<bool, StoreError> {
        Ok(false)
    }
}
