//! Which process drives a run. A run whose worker is no longer alive may be claimed, however the worker ended.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use flowloom_core::id::RunId;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::LeaseTerm;
use parking_lot::{Mutex, MutexGuard};

use crate::db::liveness::{Liveness, LivingWorkers};
use crate::db::{DbConnection, WriteJob};
use crate::error::StoreError;

/// This process as a worker.
pub(crate) struct LocalWorker {
    name: String,
    liveness: Box<dyn Liveness>,
    /// The runs that this process drives, with what it knows of their rows.
    runs: Mutex<HashMap<RunId, Option<RunIdentity>>>,
}

/// The immutable columns of a run's row.
#[derive(Clone, Debug)]
pub(crate) struct RunIdentity {
    pub(crate) number: i64,
    pub(crate) memory_owner: Arc<str>,
}

impl LocalWorker {
    pub(crate) fn new(name: String, liveness: Box<dyn Liveness>) -> LocalWorker {
        LocalWorker { name, liveness, runs: Mutex::default() }
    }

    /// Whether processes on several machines may share the database.
    pub(crate) fn is_shared(&self) -> bool {
        self.liveness.is_shared()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn lock_runs(&self) -> MutexGuard<'_, HashMap<RunId, Option<RunIdentity>>> {
        self.runs.lock()
    }

    /// Registers a run with this process, after making sure that others see it as alive. Fails with `RunOwned` if this
    /// process drives it already.
    pub(crate) fn register_run(&self, run: RunId) -> Result<(), StoreError> {
        self.liveness.show_process()?;
        match self.lock_runs().entry(run) {
            Entry::Vacant(vacant) => {
                vacant.insert(None);
                Ok(())
            }
            Entry::Occupied(_) => Err(JournalError::RunOwned(run).into()),
        }
    }

    /// Unregisters a run; `false` if it was not registered.
    pub(crate) fn unregister_run(&self, run: RunId) -> bool {
        self.lock_runs().remove(&run).is_some()
    }

    /// Remembers the row of a run that this process drives.
    pub(crate) fn remember_stored_run(&self, run: RunId, stored: RunIdentity) {
        if let Some(known) = self.lock_runs().get_mut(&run) {
            *known = Some(stored);
        }
    }

    /// The row of a run that this process drives, if it has written it before.
    pub(crate) fn find_stored_run(&self, run: RunId) -> Option<RunIdentity> {
        self.lock_runs().get(&run).cloned().flatten()
    }

    /// Forgets every run, because this process drives none any more.
    pub(crate) fn forget_runs(&self) {
        self.lock_runs().clear();
    }

    /// The job to run when this process ends, if others would otherwise wait for its lease to expire.
    pub(crate) fn shutdown_job(&self) -> Option<WriteJob> {
        self.liveness.shutdown_job()
    }

    /// Whether this process drives a run.
    pub(crate) fn is_driving(&self, run: RunId) -> bool {
        self.lock_runs().contains_key(&run)
    }

    /// Reads which processes are alive.
    pub(crate) fn living_workers(&self, db: &DbConnection) -> Result<LivingWorkers, StoreError> {
        self.liveness.read_living(db)
    }

    /// Whether each process that seems dead has really ended. After an outage, living ones have not renewed their leases yet.
    pub(crate) fn can_identify_dead_workers(&self) -> bool {
        self.liveness.can_identify_dead_workers()
    }

    /// The term of the lease of this process. A process with a lock file is alive as long as it holds it.
    pub(crate) fn lease_term(&self) -> LeaseTerm {
        self.liveness.read_term()
    }

    /// Whether another process, which seemed to be dead, has renewed its lease by now. From the answer to the end of the
    /// transaction it appends nothing to `run`.
    pub(crate) fn has_come_back(&self, db: &DbConnection, run: RunId, name: &str) -> Result<bool, StoreError> {
        if name == self.name { Ok(false) } else { self.liveness.has_come_back(db, run, name) }
    }

    /// Whether the process called `name` is alive.
    pub(crate) fn is_alive(&self, name: &str, living: &LivingWorkers) -> bool {
        match living {
            _ if name == self.name => true,
            LivingWorkers::Named(names) => names.contains(name),
            LivingWorkers::Locks => self.liveness.is_alive(name),
        }
    }

    /// Whether the process called `name` is alive and may drive `run`. For itself, a process uses its own list, because
    /// the database learns of a release a moment later.
    pub(crate) fn is_driven_by(&self, name: &str, run: RunId, living: &LivingWorkers) -> bool {
        if name == self.name { self.is_driving(run) } else { self.is_alive(name, living) }
    }
}

/// The worker of a run that a living process has given up and another one must drive. No process has this name.
pub(crate) const NOBODY: &str = "nobody";

/// SQL condition of a run that a process drives, if that process lives.
pub(crate) const HAS_WORKER_SQL: &str = "(worker is not null and worker <> 'nobody')";

/// SQL expression of the number of workers, 0 or 1, that have died while they drove a run and whose lease the worker `$1` takes.
pub(crate) const DEATHS_SQL: &str =
    "case when worker not in ($1, 'nobody') and status in ('queued', 'running') then 1 else 0 end";

/// The statement that gives the lease of the runs which `condition` selects to the worker `$1`.
pub(crate) fn build_claim_sql(condition: &str) -> String {
    format!(
        "update run set epoch = epoch + 1, worker = $1, failed_claims = failed_claims + {DEATHS_SQL} where {condition}"
    )
}

/// A name that no other process has.
pub(crate) fn new_worker_name() -> String {
    uuid::Uuid::now_v7().to_string()
}
