//! Storage of events. Implemented in memory ([`crate::memory`]) and on databases (`store`).

use std::sync::Arc;

use flowloom_core::event::{Record, Resolution};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::value::{Map, Value};

use crate::effects::BoxFuture;
use crate::error::JournalError;

/// The right to write a run's events. It is lost when another worker claims the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// The fencing number; every append is checked against it.
    pub epoch: u64,
}

/// The result of an append, available now or later.
pub enum AppendResult {
    /// Stored, or failed.
    Done(Result<(), JournalError>),
    /// Stored or failed when the future completes.
    Later(BoxFuture<'static, Result<(), JournalError>>),
}

/// A request to a run from outside. It is durable until the run has applied it.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// Cancel the run.
    Cancel {
        /// The requester.
        by: String,
    },
    /// Answer a question.
    Answer {
        /// The step that asked.
        path: Path,
        /// The answer.
        value: Value,
        /// The person who answers.
        by: String,
    },
    /// Decide about an uncertain effect.
    Resolve {
        /// The effect.
        path: Path,
        /// The decision.
        how: Resolution,
        /// The person who decides.
        by: String,
    },
}

/// The journal of all runs, and the data committed with it.
pub trait Journal: Send + Sync {
    /// Takes the lease of a new run. Its first append holds `RunCreated`.
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError>;

    /// Takes the lease of an existing run under a new epoch. Fails with [`JournalError::RunOwned`] while its worker is alive.
    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>>;

    /// Releases the lease.
    fn release_run(&self, lease: Lease);

    /// Stores records in the order of the calls, all or none. Memory writes in them are part of the same transaction.
    fn append_records(&self, lease: Lease, records: Vec<Arc<Record>>) -> AppendResult;

    /// Whether `append` always completes immediately, so that waiting for it costs nothing.
    fn is_immediate(&self) -> bool {
        false
    }

    /// The records of a run after sequence number `after`.
    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>>;

    /// The whole memory of a namespace, by key: a user's name for the memory of the user. Profiles are stored in the same way, under [`profile_namespace`].
    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>>;

    /// One value of a namespace.
    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>>;

    /// Completes with the signals to a run as soon as there are any; `None` if signals cannot come from another
    /// process.
    fn next_signals(&self, run: RunId) -> Option<BoxFuture<'static, Vec<Signal>>>;
}

/// The memory namespace of a user's conversations, each stored under its thread key.
pub fn thread_namespace(user: &str) -> String {
    format!("{user}\u{1}thread")
}

/// The memory namespace of a user's profile. It cannot collide with a user, because user names contain no control
/// characters.
pub fn profile_namespace(user: &str) -> String {
    format!("{user}\u{1}profile")
}
