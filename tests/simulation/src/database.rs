//! The database that all processes share. Runs, inboxes and leases are those of the store (`MemoryRuns`), which a test
//! compares with SQLite and Postgres. Here are the columns and tables that runs in memory do not need: which worker has a
//! lease, which workers are alive, and the memory of the users.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, ParentStep, Record};
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::{Batch, Lease, LeaseState};
use flowloom_store::StoreError;
use flowloom_store::parts::{CausedCommand, MemoryRuns, memory_writes_of};
use parking_lot::Mutex;

use crate::world::ProcessId;

/// How long a process counts as alive after it renewed its lease, in milliseconds.
pub(crate) const LEASE_MS: u64 = 2_000;

/// The shared database.
#[derive(Default)]
pub(crate) struct Database {
    /// The runs.
    pub(crate) runs: MemoryRuns,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    leases: BTreeMap<RunId, LeaseRow>,
    /// Until when each process is alive, in milliseconds.
    alive_until: BTreeMap<ProcessId, u64>,
    memory: BTreeMap<(String, String), Value>,
    memory_writes: u64,
    is_down: bool,
    /// Number of leases that were released although a command was pending.
    releases_with_commands: u64,
    /// Child runs that a step started or retried after its run had ended.
    late_children: Vec<RunId>,
}

/// The holder of the lease of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    /// The fencing number.
    pub(crate) epoch: u64,
    /// The worker; `None` if the lease was released.
    pub(crate) worker: Option<ProcessId>,
}

/// The worker of a run that a living process has given up and another one must drive. No process has this number.
const NOBODY: ProcessId = 0;

/// A claim of a run, for a step that drives it if there is one.
pub(crate) struct Claim {
    /// The run.
    pub(crate) run: RunId,
    /// The step.
    pub(crate) parent: Option<ParentStep>,
}

/// Whether a person sent a command, and not another run or a timer.
pub(crate) fn is_person(sender: &str) -> bool {
    !sender.starts_with("the ")
}

/// The error of a database that cannot be reached.
pub(crate) fn outage_error() -> JournalError {
    JournalError::Unavailable(StepFailure::new(Code::StoreFailed, "the database is down"))
}

impl Database {
    /// Whether the database cannot be reached.
    pub(crate) fn is_down(&self) -> bool {
        self.tables.lock().is_down
    }

    /// Starts or ends an outage.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.tables.lock().is_down = is_down;
    }

    /// Notes that a process is alive.
    pub(crate) fn renew_lease(&self, process: ProcessId, now_ms: u64) {
        self.tables.lock().alive_until.insert(process, now_ms + LEASE_MS);
    }

    /// Whether a process counts as alive.
    pub(crate) fn is_alive(&self, process: ProcessId, now_ms: u64) -> bool {
        self.tables.lock().alive_until.get(&process).is_some_and(|until| now_ms < *until)
    }

    /// The lease of a run; `None` if there is no such run.
    pub(crate) fn read_lease(&self, run: RunId) -> Option<LeaseRow> {
        self.tables.lock().leases.get(&run).copied()
    }

    /// All runs that are stored.
    pub(crate) fn run_ids(&self) -> Vec<RunId> {
        self.tables.lock().leases.keys().copied().collect()
    }

    /// Claims a run whose lease is still the one that was read, unless its worker has come back.
    pub(crate) fn claim_run(
        &self,
        claim: &Claim,
        seen: LeaseRow,
        process: ProcessId,
        now_ms: u64,
    ) -> Result<Lease, JournalError> {
        let run = claim.run;
        if seen.worker.is_some_and(|worker| worker != process && self.is_alive(worker, now_ms)) {
            return Err(JournalError::RunOwned(run));
        }
        let mut tables = self.tables.lock();
        let Some(row) = tables.leases.get_mut(&run) else { return Err(JournalError::RunNotFound(run)) };
        if row.epoch != seen.epoch {
            return Err(JournalError::RunOwned(run));
        }
        let lease = self.runs.claim_run(run, claim.parent.as_ref())?;
        *row = LeaseRow { epoch: lease.epoch, worker: Some(process) };
        Ok(lease)
    }

    /// Releases a lease without looking at the inbox.
    pub(crate) fn release_run(&self, lease: Lease, process: ProcessId) {
        let mut tables = self.tables.lock();
        if let Some(row) = tables.leases.get_mut(&lease.run)
            && *row == (LeaseRow { epoch: lease.epoch, worker: Some(process) })
        {
            row.worker = None;
            self.runs.release_run(lease);
        }
    }

    /// Appends a batch, with the memory writes of its events, and renews the lease of the process, in one transaction.
    pub(crate) fn append_batch(
        &self,
        lease: Lease,
        batch: &Batch,
        process: ProcessId,
        now_ms: u64,
    ) -> Result<(LeaseState, Vec<CausedCommand>), StoreError> {
        let mut tables = self.tables.lock();
        let is_late = batch.records.iter().any(|record| self.starts_late(record));
        let appended = self.runs.append_batch(lease, batch)?;
        tables.late_children.extend(is_late.then_some(lease.run));
        tables.alive_until.insert(process, now_ms + LEASE_MS);
        let creates = batch.records.iter().any(|record| matches!(record.event, Event::RunCreated(_)));
        let row = tables.leases.entry(lease.run).or_insert(LeaseRow { epoch: lease.epoch, worker: None });
        if creates {
            row.worker = Some(process);
        }
        if appended.0 == LeaseState::Released {
            row.worker = None;
            tables.releases_with_commands += u64::from(!self.runs.pending_commands(lease.run).is_empty());
        }
        let user = self.runs.get_run(lease.run).map(|row| row.user).unwrap_or_default();
        for record in &batch.records {
            for (namespace, write) in memory_writes_of(&user, &record.event) {
                tables.memory_writes += 1;
                match write.value {
                    Some(value) => tables.memory.insert((namespace, write.key), value),
                    None => tables.memory.remove(&(namespace, write.key)),
                };
            }
        }
        Ok(appended)
    }

    /// Whether a step starts or retries a child run with this record, although the run of the step has ended.
    fn starts_late(&self, record: &Record) -> bool {
        match &record.event {
            Event::RunCreated(created) => created.parent.as_ref().is_some_and(|parent| self.has_ended(parent.run)),
            Event::RunReopened { by, .. } if !is_person(by) => {
                let parent = self.runs.get_run(record.run).and_then(|row| row.parent);
                parent.is_some_and(|parent| self.has_ended(parent.run))
            }
            _ => false,
        }
    }

    /// Whether a run has ended.
    pub(crate) fn has_ended(&self, run: RunId) -> bool {
        self.runs.get_run(run).is_some_and(|row| row.finished_at.is_some())
    }

    /// Child runs that a step started or retried after its run had ended.
    pub(crate) fn late_children(&self) -> Vec<RunId> {
        self.tables.lock().late_children.clone()
    }

    /// The memory of a namespace.
    pub(crate) fn read_memories(&self, namespace: &str) -> Map {
        let tables = self.tables.lock();
        let own = tables.memory.iter().filter(|((owner, _), _)| owner == namespace);
        own.map(|((_, key), value)| (key.as_str().into(), value.clone())).collect()
    }

    /// Number of memory writes so far.
    pub(crate) fn memory_write_count(&self) -> u64 {
        self.tables.lock().memory_writes
    }

    /// Number of leases that were released although a command was pending.
    pub(crate) fn count_releases_with_commands(&self) -> u64 {
        self.tables.lock().releases_with_commands
    }

    /// Gives up the leases that a process has of child runs that steps drive, if it does not drive them itself.
    pub(crate) fn release_held_children(&self, process: ProcessId, is_driving: impl Fn(RunId) -> bool) {
        for run in self.run_ids() {
            let held = self.read_lease(run).filter(|row| row.worker == Some(process) && !is_driving(run));
            let Some(LeaseRow { epoch, .. }) = held.filter(|_| self.runs.find_driving_run(run) != run) else {
                continue;
            };
            if self.has_ended(run) {
                self.release_run(Lease { run, epoch }, process);
            } else {
                self.tables.lock().leases.insert(run, LeaseRow { epoch, worker: Some(NOBODY) });
            }
        }
    }

    /// Runs that a worker must drive and no living worker does, as `process` sees them: it drives those that `is_driving`
    /// selects.
    pub(crate) fn abandoned_runs(
        &self,
        process: ProcessId,
        now_ms: u64,
        is_driving: impl Fn(RunId) -> bool,
    ) -> Vec<RunId> {
        let runs = self.run_ids().into_iter();
        let abandoned = runs.filter(|run| {
            let Some(row) = self.read_lease(*run) else { return false };
            let is_abandoned = match row.worker {
                Some(worker) if worker == process => !is_driving(*run),
                Some(worker) => !self.is_alive(worker, now_ms),
                None => self.is_running(*run) || !self.runs.pending_commands(*run).is_empty(),
            };
            is_abandoned && self.runs.find_driving_run(*run) == *run
        });
        abandoned.collect()
    }

    fn is_running(&self, run: RunId) -> bool {
        self.runs.get_run(run).is_some_and(|row| row.status == Status::Running.name())
    }
}
