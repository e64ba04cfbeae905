//! The in-memory journal, for tests, benchmarks and runs that need not survive the process.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use parking_lot::{Mutex, MutexGuard};

use crate::command::{CommandRecord, RunCommand};
use crate::effects::BoxFuture;
use crate::error::JournalError;
use crate::inbox::MemoryInbox;
use crate::journal::{AppendResult, Batch, Journal, Lease, LeaseState, memory_owner, thread_namespace};

/// Journals of any number of runs, lost when the process ends.
#[derive(Default)]
pub struct MemoryJournal {
    state: Arc<Mutex<MemoryState>>,
}

#[derive(Default)]
struct MemoryState {
    runs: HashMap<RunId, JournaledRun>,
    memory: HashMap<(String, String), Value>,
    /// Records that are accepted before the journal "crashes"; for tests.
    accepts: Option<usize>,
}

#[derive(Default)]
struct JournaledRun {
    epoch: u64,
    records: Vec<Arc<Record>>,
    inbox: MemoryInbox,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> MemoryJournal {
        MemoryJournal::default()
    }

    /// Makes every append after the next `records` records fail, as if the process had died.
    pub fn crash_after(&self, records: usize) {
        self.lock_state().accepts = Some(records);
    }

    /// Undoes [`MemoryJournal::crash_after`].
    pub fn end_crash(&self) {
        self.lock_state().accepts = None;
    }

    /// The records of a run.
    pub fn run_records(&self, run: RunId) -> Vec<Arc<Record>> {
        self.lock_state().runs.get(&run).map(|stored| stored.records.clone()).unwrap_or_default()
    }

    /// Puts a command into the inbox of a run. Fails if there is no such run, or if the id belongs to another command
    /// of the run.
    pub fn post_command(&self, run: RunId, command: RunCommand) -> Result<CommandRecord, JournalError> {
        let mut state = self.lock_state();
        let stored = state.runs.get_mut(&run).ok_or(JournalError::RunNotFound(run))?;
        stored.inbox.post_command(command, 0)
    }

    /// Changes the version of the engine that created a run, for tests.
    pub fn change_semantics(&self, run: RunId, engine_semantics: u32) {
        let mut state = self.lock_state();
        let Some(first) = state.runs.get_mut(&run).and_then(|stored| stored.records.first_mut()) else { return };
        if let Event::RunCreated(created) = &mut Arc::make_mut(first).event {
            created.engine_semantics = engine_semantics;
        }
    }

    /// A command in the inbox of a run.
    pub fn find_command(&self, run: RunId, id: &str) -> Option<CommandRecord> {
        self.lock_state().runs.get(&run)?.inbox.find_command(id).cloned()
    }

    /// The ids of all runs, sorted.
    pub fn run_ids(&self) -> Vec<RunId> {
        let mut runs: Vec<_> = self.lock_state().runs.keys().copied().collect();
        runs.sort_unstable();
        runs
    }

    fn lock_state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock()
    }
}

impl MemoryState {
    fn append_batch(&mut self, lease: Lease, batch: Batch) -> Result<LeaseState, JournalError> {
        let records = &batch.records;
        if let Some(accepts) = &mut self.accepts {
            if records.len() > *accepts {
                return Err(JournalError::Unavailable(StepFailure::new(Code::StoreFailed, "the journal is down")));
            }
            *accepts -= records.len();
        }
        let Some(stored) = self.runs.get_mut(&lease.run).filter(|stored| stored.epoch == lease.epoch) else {
            return Err(JournalError::OwnershipLost);
        };
        for record in records {
            let user = || find_owner(&stored.records, records);
            let (user, writes) = match &record.event {
                Event::StepFinished { memory, reused: false, .. } if !memory.is_empty() => (user(), memory.as_slice()),
                Event::RunFinished { thread: Some(thread), .. } => {
                    (thread_namespace(&user()), std::slice::from_ref(thread))
                }
                _ => continue,
            };
            for write in writes {
                let key = (user.clone(), write.key.clone());
                match &write.value {
                    Some(value) => self.memory.insert(key, value.clone()),
                    None => self.memory.remove(&key),
                };
            }
        }
        let at = records.last().map_or(0, |record| record.at);
        let lease_state = stored.inbox.apply_batch(&batch, at);
        stored.records.extend(batch.records);
        Ok(lease_state)
    }
}

fn find_owner(stored: &[Arc<Record>], new: &[Arc<Record>]) -> String {
    match stored.first().or(new.first()).map(|record| &record.event) {
        Some(Event::RunCreated(created)) => memory_owner(created),
        _ => String::new(),
    }
}

impl Journal for MemoryJournal {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.lock_state().runs.insert(run, JournaledRun { epoch: 1, ..JournaledRun::default() });
        Ok(Lease { run, epoch: 1 })
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        let claimed = match self.lock_state().runs.get_mut(&run) {
            Some(stored) => {
                stored.epoch += 1;
                Ok(Lease { run, epoch: stored.epoch })
            }
            None => Err(JournalError::RunNotFound(run)),
        };
        Box::pin(async move { claimed })
    }

    fn release_run(&self, _lease: Lease) {}

    fn abandon_run(&self, _lease: Lease) {}

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        AppendResult::Done(self.lock_state().append_batch(lease, batch))
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        let mut records = self.run_records(run);
        records.retain(|record| record.seq > after);
        Box::pin(async move { Ok(records) })
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        let state = self.lock_state();
        let mut stored: Vec<_> = state.memory.iter().filter(|((owner, _), _)| owner == namespace).collect();
        stored.sort_by_key(|((_, key), _)| key.clone());
        let map = stored.into_iter().map(|((_, key), value)| (key.as_str().into(), value.clone())).collect();
        Box::pin(async move { Ok(map) })
    }

    fn read_memory<'a>(&'a self, user: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        let value = self.lock_state().memory.get(&(user.to_owned(), key.to_owned())).cloned();
        Box::pin(async move { Ok(value) })
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        let pending = self.lock_state().runs.get(&run).map(|stored| stored.inbox.pending_commands());
        Box::pin(async move { Ok(pending.unwrap_or_default()) })
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        let state = self.state.clone();
        Box::pin(poll_fn(move |context| {
            let mut state = state.lock();
            match state.runs.get_mut(&run) {
                Some(stored) => stored.inbox.poll_commands(context),
                None => Poll::Pending,
            }
        }))
    }
}
