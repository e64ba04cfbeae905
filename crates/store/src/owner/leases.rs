//! Processes that share a Postgres: each has a row that says until when it counts as alive, by the clock of the database.
//! Every commit renews it; a thread does when there are none.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

use crate::db::postgres::{Database, Postgres, Process, blocking};
use crate::db::{Connection, Error, params};

/// Rows of processes that have been dead for long are of no use to anybody.
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

    /// Renews the lease from now on. It begins with the commit that names this process as an owner.
    pub(crate) fn hold(&self) -> Result<(), StepError> {
        let mut renewing = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if renewing.is_none() {
            let (stop, stopped) = channel();
            let (postgres, process) = (Postgres::of(&self.database, None), self.process.clone());
            let thread = std::thread::Builder::new().name("store-lease".into());
            let thread = thread
                .spawn(move || renew(&postgres, &process, &stopped))
                .map_err(|error| StepError::new(Code::StoreFailed, format!("the lease cannot be kept: {error}")))?;
            *renewing = Some(Renewing { stop, thread });
        }
        Ok(())
    }
}

impl Leases {
    /// Renews the lease no longer; `false` if there was none.
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

/// Says every third of a lease that the process lives. A database that cannot be reached
/// is asked again the next time; until then others may take the runs, which this process then learns from its commits.
fn renew(postgres: &Postgres, process: &Process, stopped: &Receiver<()>) {
    let mut is_known = false;
    while stopped.recv_timeout(process.lease / 3) == Err(RecvTimeoutError::Timeout) {
        let renewed = postgres.beat(process);
        if renewed.is_ok() && !is_known {
            is_known = postgres.run(FORGET).is_ok();
        }
    }
}

/// The names of those who live.
pub(crate) fn living(db: &Connection) -> Result<HashSet<String>, Error> {
    let names = db.query("select name from process where expires_at > clock_timestamp()", &[], |row| row.get(0))?;
    Ok(names.into_iter().collect())
}
