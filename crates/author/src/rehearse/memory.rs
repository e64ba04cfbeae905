//! The journal of a dry run: in memory, with a copy of the user's memory.

use std::sync::Arc;

use flowloom_core::error::StepError;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::Boxed;
use flowloom_runtime::journal::{Append, Journal, Lease, Wish, profile_holder};
use flowloom_runtime::memory::MemoryJournal;

use super::Given;

/// A journal that is discarded with the dry run.
pub(super) struct Copied {
    journal: MemoryJournal,
    owner: String,
    memory: Map,
    profile: Map,
}

impl Copied {
    pub(super) fn new(owner: &str, given: &Given) -> Copied {
        let Given { memory, profile, .. } = given.clone();
        Copied { journal: MemoryJournal::new(), owner: owner.to_owned(), memory, profile }
    }

    /// The stored entries of a memory namespace.
    fn kept(&self, holder: &str) -> Map {
        if holder == self.owner {
            self.memory.clone()
        } else if holder == profile_holder(&self.owner) {
            self.profile.clone()
        } else {
            Map::new()
        }
    }
}

impl Journal for Copied {
    fn begin(&self, run: RunId) -> Result<Lease, StepError> {
        self.journal.begin(run)
    }

    fn claim(&self, run: RunId) -> Boxed<'_, Result<Lease, StepError>> {
        self.journal.claim(run)
    }

    fn release(&self, lease: Lease) {
        self.journal.release(lease);
    }

    fn append(&self, lease: Lease, records: Vec<Arc<Record>>) -> Append {
        self.journal.append(lease, records)
    }

    fn is_immediate(&self) -> bool {
        self.journal.is_immediate()
    }

    fn read(&self, run: RunId, after: u64) -> Boxed<'_, Result<Vec<Arc<Record>>, StepError>> {
        self.journal.read(run, after)
    }

    fn memories<'a>(&'a self, owner: &'a str) -> Boxed<'a, Result<Map, StepError>> {
        Box::pin(async move { Ok(self.kept(owner)) })
    }

    fn memory<'a>(&'a self, owner: &'a str, key: &'a str) -> Boxed<'a, Result<Option<Value>, StepError>> {
        Box::pin(async move { Ok(self.kept(owner).get(key).cloned()) })
    }

    fn wishes(&self, run: RunId) -> Option<Boxed<'static, Vec<Wish>>> {
        self.journal.wishes(run)
    }
}
