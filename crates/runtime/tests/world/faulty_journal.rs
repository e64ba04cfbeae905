//! A journal in memory with a fault that the journal of a database can have.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::JournalError;
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease};
use flowloom_runtime::memory::MemoryJournal;

/// A journal with a fault.
pub(crate) struct FaultyJournal {
    inner: Arc<MemoryJournal>,
    /// The last event that was stored when the run was claimed; `None` for all of them.
    stored_seq: Option<u64>,
    /// Why memory entries cannot be read.
    pub(crate) reason: Mutex<Option<JournalError>>,
    /// Number of reads that fail before the memory is back by itself.
    pub(crate) failures: AtomicU32,
}

impl FaultyJournal {
    pub(crate) fn with_unreadable_memory(reason: JournalError) -> Arc<FaultyJournal> {
        Arc::new(FaultyJournal {
            inner: Arc::default(),
            stored_seq: None,
            reason: Mutex::new(Some(reason)),
            failures: AtomicU32::new(u32::MAX),
        })
    }

    /// A journal of which only the events up to a position were stored when the run was claimed.
    pub(crate) fn stored_up_to(stored_seq: u64, inner: Arc<MemoryJournal>) -> Arc<FaultyJournal> {
        let (reason, failures) = (Mutex::default(), AtomicU32::default());
        Arc::new(FaultyJournal { inner, stored_seq: Some(stored_seq), reason, failures })
    }

    fn check_reason(&self) -> Result<(), JournalError> {
        let is_back = self.failures.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
        match self.reason.lock().expect("not poisoned").clone() {
            Some(reason) if !is_back => Err(reason),
            _ => Ok(()),
        }
    }
}

impl Journal for FaultyJournal {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.inner.begin_run(run)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.inner.claim_run(run)
    }

    fn release_run(&self, lease: Lease) {
        self.inner.release_run(lease);
    }

    fn abandon_run(&self, lease: Lease) {
        self.inner.abandon_run(lease);
    }

    fn stored_at_claim(&self, lease: Lease) -> u64 {
        self.stored_seq.unwrap_or_else(|| self.inner.stored_at_claim(lease))
    }

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        self.inner.append_batch(lease, batch)
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        self.inner.read(run, after)
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        match self.check_reason() {
            Ok(()) => self.inner.read_memories(namespace),
            Err(reason) => Box::pin(async { Err(reason) }),
        }
    }

    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        match self.check_reason() {
            Ok(()) => self.inner.read_memory(namespace, key),
            Err(reason) => Box::pin(async { Err(reason) }),
        }
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        self.inner.pending_commands(run)
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.inner.next_commands(run)
    }
}
