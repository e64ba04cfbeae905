//! The journal of a dry run: in memory, with a copy of the user's memory.

use std::sync::Arc;

use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::JournalError;
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, profile_namespace};
use flowloom_runtime::memory::MemoryJournal;

use super::DryRunInputs;

/// A journal that is discarded with the dry run.
pub(super) struct CopiedJournal {
    journal: MemoryJournal,
    user: String,
    memory: Map,
    profile: Map,
}

impl CopiedJournal {
    pub(super) fn new(user: &str, given: &DryRunInputs) -> CopiedJournal {
        let DryRunInputs { memory, profile, .. } = given.clone();
        CopiedJournal { journal: MemoryJournal::new(), user: user.to_owned(), memory, profile }
    }

    /// The stored entries of a memory namespace.
    fn stored_entries(&self, user: &str) -> Map {
        if user == self.user {
            self.memory.clone()
        } else if user == profile_namespace(&self.user) {
            self.profile.clone()
        } else {
            Map::new()
        }
    }
}

impl Journal for CopiedJournal {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.journal.begin_run(run)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.journal.claim_run(run)
    }

    fn release_run(&self, lease: Lease) {
        self.journal.release_run(lease);
    }

    fn abandon_run(&self, lease: Lease) {
        self.journal.abandon_run(lease);
    }

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        self.journal.append_batch(lease, batch)
    }

    fn is_immediate(&self) -> bool {
        self.journal.is_immediate()
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        self.journal.read(run, after)
    }

    fn read_memories<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        Box::pin(async move { Ok(self.stored_entries(user)) })
    }

    fn read_memory<'a>(&'a self, user: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        Box::pin(async move { Ok(self.stored_entries(user).get(key).cloned()) })
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        self.journal.pending_commands(run)
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.journal.next_commands(run)
    }
}
