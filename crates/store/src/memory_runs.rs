//! Runs stored in this process's memory and lost with it: for trials, and for benchmarks without a disk. Everything
//! else of a store (keys, memories, workflows) is still in the database.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::event::{Event, Record, RunCreated};
use flowloom_core::id::RunId;
use flowloom_runtime::JournalError;
use flowloom_runtime::command::{CommandRecord, RunCommand};
use flowloom_runtime::inbox::MemoryInbox;
use flowloom_runtime::journal::{Batch, Lease, LeaseState};

use crate::commands::PostedCommand;
use crate::error::StoreError;
use crate::run_row::{RunFilter, RunRow};

/// Maximum number of finished runs to retain; the oldest are removed first.
const MAX_FINISHED_RUNS: usize = 1000;

/// The runs of this process.
#[derive(Default)]
pub(crate) struct MemoryRuns {
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    runs: BTreeMap<RunId, StoredRun>,
    finished: VecDeque<RunId>,
}

struct StoredRun {
    row: RunRow,
    epoch: u64,
    records: Vec<Arc<Record>>,
    inbox: MemoryInbox,
    is_driven: bool,
}

impl MemoryRuns {
    fn lock_state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims a run under a new epoch.
    pub(crate) fn claim_run(&self, run: RunId) -> Result<Lease, StoreError> {
        let mut state = self.lock_state();
        let stored = state.runs.get_mut(&run).ok_or(JournalError::RunNotFound(run))?;
        stored.epoch += 1;
        stored.is_driven = true;
        Ok(Lease { run, epoch: stored.epoch })
    }

    pub(crate) fn release_run(&self, lease: Lease) {
        let mut state = self.lock_state();
        if let Some(stored) = state.runs.get_mut(&lease.run).filter(|stored| stored.epoch == lease.epoch) {
            stored.is_driven = false;
        }
    }

    pub(crate) fn append_batch(&self, lease: Lease, batch: &Batch) -> Result<LeaseState, StoreError> {
        let records = batch.records.as_slice();
        let mut state = self.lock_state();
        let state = &mut *state;
        if let Some(Event::RunCreated(created)) = records.first().map(|record| &record.event) {
            state.runs.insert(lease.run, StoredRun::new(new_run_row(&records[0], created), lease));
        }
        let stored = state
            .runs
            .get_mut(&lease.run)
            .filter(|stored| stored.epoch == lease.epoch)
            .ok_or(JournalError::OwnershipLost)?;
        for record in records {
            match &record.event {
                Event::RunStarted { .. } => "running".clone_into(&mut stored.row.status),
                Event::RunSuspended { status } => status.name().clone_into(&mut stored.row.status),
                Event::RunFinished { status, .. } => {
                    status.name().clone_into(&mut stored.row.status);
                    stored.row.finished_at = Some(record.at);
                    state.finished.push_back(lease.run);
                }
                _ => {}
            }
        }
        let at = records.last().map_or(stored.row.created_at, |record| record.at);
        let lease_state = stored.inbox.apply_batch(batch, at);
        stored.is_driven = lease_state == LeaseState::Held;
        stored.records.extend_from_slice(records);
        if state.finished.len() > MAX_FINISHED_RUNS
            && let Some(oldest) = state.finished.pop_front()
        {
            state.runs.remove(&oldest);
        }
        Ok(lease_state)
    }

    pub(crate) fn post_command(&self, run: RunId, command: RunCommand, at: u64) -> Result<PostedCommand, StoreError> {
        let mut state = self.lock_state();
        let stored = state.runs.get_mut(&run).ok_or(JournalError::RunNotFound(run))?;
        let record = stored.inbox.post_command(command, at)?;
        Ok(PostedCommand { record, has_worker: stored.is_driven })
    }

    pub(crate) fn find_command(&self, run: RunId, id: &str) -> Option<CommandRecord> {
        self.lock_state().runs.get(&run)?.inbox.find_command(id).cloned()
    }

    pub(crate) fn pending_commands(&self, run: RunId) -> Vec<RunCommand> {
        self.lock_state().runs.get(&run).map(|stored| stored.inbox.pending_commands()).unwrap_or_default()
    }

    pub(crate) fn read_records(&self, run: RunId, after: u64) -> Result<Vec<Arc<Record>>, StoreError> {
        let state = self.lock_state();
        let stored = state.runs.get(&run).ok_or(JournalError::RunNotFound(run))?;
        // Sequence numbers start at 1 and have no gaps.
        Ok(stored.records.iter().skip(usize::try_from(after).unwrap_or(usize::MAX)).cloned().collect())
    }

    pub(crate) fn get_run(&self, run: RunId) -> Option<RunRow> {
        self.lock_state().runs.get(&run).map(|stored| stored.row.clone())
    }

    /// The user that owns a run.
    pub(crate) fn run_user(&self, run: RunId) -> Option<String> {
        self.lock_state().runs.get(&run).map(|stored| stored.row.user.clone())
    }

    /// Creation time of the oldest unfinished run; ids are ordered by creation.
    pub(crate) fn oldest_unfinished_at(&self) -> Option<u64> {
        let state = self.lock_state();
        state.runs.values().find(|stored| stored.row.finished_at.is_none()).map(|stored| stored.row.created_at)
    }

    /// Runs that match a filter, newest first.
    pub(crate) fn list_runs_matching(&self, filter: &RunFilter) -> Vec<RunRow> {
        let is = |wanted: &Option<String>, has: &String| wanted.as_ref().is_none_or(|wanted| wanted == has);
        let state = self.lock_state();
        let rows = state.runs.values().rev().map(|stored| &stored.row);
        let rows = rows.filter(|row| filter.before.is_none_or(|before| row.id < before));
        let rows = rows.filter(|row| {
            let workflow = row.workflow.as_ref().unwrap_or(&row.name);
            is(&filter.user, &row.user)
                && is(&filter.status, &row.status)
                && is(&filter.name, &row.name)
                && is(&filter.workflow, workflow)
                && is(&filter.format, &row.format)
                && (filter.thread_key.is_none() || filter.thread_key == row.thread_key)
        });
        rows.skip(filter.offset as usize).take(filter.limit as usize).cloned().collect()
    }

    pub(crate) fn count_by_status(&self) -> Vec<(String, u64)> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for stored in self.lock_state().runs.values() {
            *counts.entry(stored.row.status.clone()).or_default() += 1;
        }
        counts.into_iter().collect()
    }
}

impl StoredRun {
    fn new(row: RunRow, lease: Lease) -> StoredRun {
        let records = Vec::with_capacity(8);
        StoredRun { row, epoch: lease.epoch, records, inbox: MemoryInbox::default(), is_driven: true }
    }
}

fn new_run_row(record: &Record, created: &RunCreated) -> RunRow {
    RunRow {
        id: record.run,
        created_at: record.at,
        finished_at: None,
        format: created.format.name().to_owned(),
        name: created.name.clone(),
        workflow: created.workflow.clone(),
        user: created.user.clone(),
        thread_key: created.thread_key.clone(),
        status: "queued".to_owned(),
        is_driven: false,
    }
}
