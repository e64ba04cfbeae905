//! Leases of processes that share a Postgres database. Each process has a row with the time at which its lease expires,
//! by the database's clock. Every commit renews it; without commits, a thread does.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

use crate::db::postgres::{Database, Postgres, Process, blocking};
use crate::db::{Connection, Error, params};

/// Deletes rows of processes that have been dead for a day.
const FORGET: &str = "delete from process where expires_at < clock_timestamp() - interval '1 day'";

/// The lease of this process.
pub(crate) struct Leases {
    database: Database,
    process: Process,
    thread: Mutex<Option<Renewing>>,
}

struct Renewing {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Leases {
    pub(crate) fn new(database: &Database, process: Process) -> Leases {
        Leases { database: database.clone(), process, thread: Mutex::default() }
    }

    /// Starts renewing the lease. The lease begins with the commit that names this process as a worker.
    pub(crate) fn hold(&self) -> Result<(), StepError> {
        let mut renewing = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if renewing.is_none() {
            let (stop, stopped) = channel();
            let (postgres, process) = (Postgres::of(&self.database, None), self.process.clone());
            let thread = std::thread::Builder::new().name("store-lease".into());
            let thread = thread.spawn(move || renew(&postgres, &process, &stopped)).map_err(|error| {
                StepError::new(Code::StoreFailed, format!("cannot start the thread that renews the lease: {error}"))
            })?;
            *renewing = Some(Renewing { stop, thread });
        }
        Ok(())
    }
}

impl Leases {
    /// Stops renewing the lease; `false` if it was not being renewed.
    pub(crate) fn stop(&self) -> bool {
        let renewing = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Renewing { stop, thread }) = renewing else { return false };
        drop(stop);
        let _ = blocking(|| thread.join());
        true
    }
}

/// Ends the lease of a process.
pub(crate) fn end(db: &Connection, name: &str) -> Result<(), Error> {
    db.put("delete from process where name = $1", params![name])
}

/// Renews the lease every third of its duration. If the database cannot be reached, the next interval tries again.
/// Other processes may reclaim the runs meanwhile; this process then learns of it from its commits.
fn renew(postgres: &Postgres, process: &Process, stopped: &Receiver<()>) {
    let mut is_known = false;
    while stopped.recv_timeout(process.lease / 3) == Err(RecvTimeoutError::Timeout) {
        let renewed = postgres.beat(process);
        if renewed.is_ok() && !is_known {
            is_known = postgres.run(FORGET).is_ok();
        }
    }
}

/// Names of the living processes.
pub(crate) fn living(db: &Connection) -> Result<HashSet<String>, Error> {
    let names = db.query("select name from process where expires_at > clock_timestamp()", &[], |row| row.get(0))?;
    Ok(names.into_iter().collect())
}
