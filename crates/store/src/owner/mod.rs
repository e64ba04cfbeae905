//! Which process drives a run. A run whose worker is no longer alive may be claimed, however the worker ended.

mod leases;
pub(crate) mod locks;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;

use crate::db::postgres::{Database, Process};
use crate::db::{Connection, Error, Job};
use leases::Leases;
pub use locks::Alone;
use locks::Locks;

/// This process as a worker.
pub(crate) struct Owner {
    name: String,
    proof: Proof,
    runs: Mutex<HashSet<RunId>>,
}

/// How processes detect that others are alive.
enum Proof {
    /// By locked files in the data folder.
    Locks(Locks),
    /// By rows of a database that several machines share.
    Leases(Leases),
}

/// The living processes, as far as the database records them.
pub(crate) enum Living {
    /// Not recorded: a process is alive if it holds its lock file.
    Locks,
    /// The names of the living processes.
    Named(HashSet<String>),
}

impl Owner {
    /// A worker that proves with a lock file that it is alive.
    pub(crate) fn with_lock(folder: &Path) -> Owner {
        let name = new_name();
        let proof = Proof::Locks(Locks::new(folder, &name));
        Owner { name, proof, runs: Mutex::default() }
    }

    /// A worker that proves with a row of the database that it is alive.
    pub(crate) fn with_lease(database: &Database, process: Process) -> Owner {
        let name = process.name.clone();
        Owner { name, proof: Proof::Leases(Leases::new(database, process)), runs: Mutex::default() }
    }

    /// Whether other processes may share the database.
    pub(crate) fn is_leased(&self) -> bool {
        matches!(self.proof, Proof::Leases(_))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn runs(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a run with this process, after making sure that others see it as alive. Fails with `RunOwned` if this
    /// process drives it already.
    pub(crate) fn take(&self, run: RunId) -> Result<(), StepError> {
        match &self.proof {
            Proof::Locks(locks) => locks.hold()?,
            Proof::Leases(leases) => leases.hold()?,
        }
        if self.runs().insert(run) { Ok(()) } else { Err(owned(run)) }
    }

    /// Unregisters a run; `false` if it was not registered.
    pub(crate) fn drop_run(&self, run: RunId) -> bool {
        self.runs().remove(&run)
    }

    /// The job to run when this process ends, if others would otherwise wait for its lease to expire.
    pub(crate) fn farewell(&self) -> Option<Job> {
        match &self.proof {
            Proof::Leases(leases) if leases.stop() => {
                let name = self.name.clone();
                Some(Box::new(move |db| leases::end(db, &name)))
            }
            Proof::Leases(_) | Proof::Locks(_) => None,
        }
    }

    /// Whether this process drives a run.
    pub(crate) fn holds(&self, run: RunId) -> bool {
        self.runs().contains(&run)
    }

    /// Reads which processes are alive.
    pub(crate) fn living(&self, db: &Connection) -> Result<Living, Error> {
        match &self.proof {
            Proof::Locks(_) => Ok(Living::Locks),
            Proof::Leases(_) => leases::living(db).map(Living::Named),
        }
    }

    /// Whether the process called `name` is alive.
    pub(crate) fn lives(&self, name: &str, living: &Living) -> bool {
        match (living, &self.proof) {
            _ if name == self.name => true,
            (Living::Named(names), _) => names.contains(name),
            (Living::Locks, Proof::Locks(locks)) => locks.is_held(name),
            (Living::Locks, Proof::Leases(_)) => false,
        }
    }

    /// Whether the process called `name` is alive and may drive `run`. For itself, a process uses its own list, because
    /// the database learns of a release a moment later.
    pub(crate) fn drives(&self, name: &str, run: RunId, living: &Living) -> bool {
        if name == self.name { self.holds(run) } else { self.lives(name, living) }
    }
}

/// A name that no other process has.
pub(crate) fn new_name() -> String {
    uuid::Uuid::now_v7().to_string()
}

pub(crate) fn owned(run: RunId) -> StepError {
    let message = format!("another process is already running {run}; wait until it ends, or cancel the run");
    StepError::new(Code::RunOwned, message)
}
