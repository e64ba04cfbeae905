//! Which process owns a run. A run whose owner does not live any more belongs to nobody, however the owner ended.

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

/// This process as an owner of runs.
pub(crate) struct Owner {
    name: String,
    proof: Proof,
    runs: Mutex<HashSet<RunId>>,
}

/// How processes know of each other that they live.
enum Proof {
    /// By locked files in the data folder.
    Locks(Locks),
    /// By rows of a database that many machines share.
    Leases(Leases),
}

/// Who lives, as far as that is known from the database.
pub(crate) enum Living {
    /// Whoever holds the lock.
    Locks,
    /// These.
    Named(HashSet<String>),
}

impl Owner {
    /// An owner by a lock in the data folder.
    pub(crate) fn with_lock(folder: &Path) -> Owner {
        let name = new_name();
        let proof = Proof::Locks(Locks::new(folder, &name));
        Owner { name, proof, runs: Mutex::default() }
    }

    /// An owner by a row of the database.
    pub(crate) fn with_lease(database: &Database, process: Process) -> Owner {
        let name = process.name.clone();
        Owner { name, proof: Proof::Leases(Leases::new(database, process)), runs: Mutex::default() }
    }

    /// Whether others may share the database.
    pub(crate) fn is_leased(&self) -> bool {
        matches!(self.proof, Proof::Leases(_))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn runs(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a run for this process, proving first that it lives.
    pub(crate) fn take(&self, run: RunId) -> Result<(), StepError> {
        match &self.proof {
            Proof::Locks(locks) => locks.hold()?,
            Proof::Leases(leases) => leases.hold()?,
        }
        if self.runs().insert(run) { Ok(()) } else { Err(owned(run)) }
    }

    /// Gives a run up; `false` if it was not held.
    pub(crate) fn drop_run(&self, run: RunId) -> bool {
        self.runs().remove(&run)
    }

    /// What is to be written when this process ends, if others would otherwise wait for its lease to run out.
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

    /// Asks the database who lives.
    pub(crate) fn living(&self, db: &Connection) -> Result<Living, Error> {
        match &self.proof {
            Proof::Locks(_) => Ok(Living::Locks),
            Proof::Leases(_) => leases::living(db).map(Living::Named),
        }
    }

    /// Whether the process called `name` lives.
    pub(crate) fn lives(&self, name: &str, living: &Living) -> bool {
        match (living, &self.proof) {
            _ if name == self.name => true,
            (Living::Named(names), _) => names.contains(name),
            (Living::Locks, Proof::Locks(locks)) => locks.is_held(name),
            (Living::Locks, Proof::Leases(_)) => false,
        }
    }

    /// Whether the process called `name` lives and may drive `run`. Of itself a process knows better than the database,
    /// which hears of a release a moment later.
    pub(crate) fn drives(&self, name: &str, run: RunId, living: &Living) -> bool {
        if name == self.name { self.holds(run) } else { self.lives(name, living) }
    }
}

/// A name that no other process has.
pub(crate) fn new_name() -> String {
    uuid::Uuid::now_v7().to_string()
}

pub(crate) fn owned(run: RunId) -> StepError {
    let message = format!("the run {run} is being driven by another command; wait for it, or cancel it");
    StepError::new(Code::RunOwned, message)
}
