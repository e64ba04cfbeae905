//! The in-memory journal, for tests, benchmarks and runs that need not survive the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};

use crate::effects::Boxed;
use crate::journal::{Append, Journal, Lease, Wish, thread_holder};

/// Journals of any number of runs, lost when the process ends.
#[derive(Default)]
pub struct MemoryJournal {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: HashMap<RunId, Kept>,
    memory: HashMap<(String, String), Value>,
    /// Records that are accepted before the journal "crashes"; for tests.
    accepts: Option<usize>,
}

#[derive(Default)]
struct Kept {
    epoch: u64,
    records: Vec<Arc<Record>>,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> MemoryJournal {
        MemoryJournal::default()
    }

    /// Makes every append after the next `records` records fail, as if the process had died.
    pub fn crash_after(&self, records: usize) {
        self.state().accepts = Some(records);
    }

    /// Undoes [`MemoryJournal::crash_after`].
    pub fn recover(&self) {
        self.state().accepts = None;
    }

    /// The records of a run.
    pub fn records(&self, run: RunId) -> Vec<Arc<Record>> {
        self.state().runs.get(&run).map(|kept| kept.records.clone()).unwrap_or_default()
    }

    /// The ids of all runs, sorted.
    pub fn runs(&self) -> Vec<RunId> {
        let mut runs: Vec<_> = self.state().runs.keys().copied().collect();
        runs.sort_unstable();
        runs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, lease: Lease, records: Vec<Arc<Record>>) -> Result<(), StepError> {
        if let Some(accepts) = &mut self.accepts {
            if records.len() > *accepts {
                return Err(StepError::new(Code::StoreFailed, "the journal is down"));
            }
            *accepts -= records.len();
        }
        let Some(kept) = self.runs.get_mut(&lease.run).filter(|kept| kept.epoch == lease.epoch) else {
            return Err(StepError::new(Code::OwnershipLost, "another worker took over the run"));
        };
        for record in &records {
            let owner = || owner_of(&kept.records, &records);
            let (holder, writes) = match &record.event {
                Event::StepFinished { memory, .. } if !memory.is_empty() => (owner(), memory.as_slice()),
                Event::RunFinished { said: Some(said), .. } => (thread_holder(&owner()), std::slice::from_ref(said)),
                _ => continue,
            };
            for write in writes {
                let key = (holder.clone(), write.key.clone());
                match &write.value {
                    Some(value) => self.memory.insert(key, value.clone()),
                    None => self.memory.remove(&key),
                };
            }
        }
        kept.records.extend(records);
        Ok(())
    }
}

fn owner_of(kept: &[Arc<Record>], new: &[Arc<Record>]) -> String {
    match kept.first().or(new.first()).map(|record| &record.event) {
        Some(Event::RunCreated(created)) => created.owner.clone(),
        _ => String::new(),
    }
}

impl Journal for MemoryJournal {
    fn begin(&self, run: RunId) -> Result<Lease, StepError> {
        self.state().runs.insert(run, Kept { epoch: 1, records: Vec::new() });
        Ok(Lease { run, epoch: 1 })
    }

    fn claim(&self, run: RunId) -> Boxed<'_, Result<Lease, StepError>> {
        let claimed = match self.state().runs.get_mut(&run) {
            Some(kept) => {
                kept.epoch += 1;
                Ok(Lease { run, epoch: kept.epoch })
            }
            None => Err(StepError::new(Code::RunNotFound, format!("there is no run {run}"))),
        };
        Box::pin(async move { claimed })
    }

    fn release(&self, _lease: Lease) {}

    fn append(&self, lease: Lease, records: Vec<Arc<Record>>) -> Append {
        Append::Done(self.state().append(lease, records))
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn read(&self, run: RunId, after: u64) -> Boxed<'_, Result<Vec<Arc<Record>>, StepError>> {
        let mut records = self.records(run);
        records.retain(|record| record.seq > after);
        Box::pin(async move { Ok(records) })
    }

    fn memories<'a>(&'a self, owner: &'a str) -> Boxed<'a, Result<Map, StepError>> {
        let state = self.state();
        let mut kept: Vec<_> = state.memory.iter().filter(|((holder, _), _)| holder == owner).collect();
        kept.sort_by_key(|((_, key), _)| key.clone());
        let map = kept.into_iter().map(|((_, key), value)| (key.as_str().into(), value.clone())).collect();
        Box::pin(async move { Ok(map) })
    }

    fn memory<'a>(&'a self, owner: &'a str, key: &'a str) -> Boxed<'a, Result<Option<Value>, StepError>> {
        let value = self.state().memory.get(&(owner.to_owned(), key.to_owned())).cloned();
        Box::pin(async move { Ok(value) })
    }

    fn wishes(&self, _run: RunId) -> Option<Boxed<'static, Vec<Wish>>> {
        None
    }
}
