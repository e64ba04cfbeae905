//! Leases of processes that share the database. Each process has a row with the time at which its lease expires,
//! by the database's clock. Every commit renews it; without commits, a thread does.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use flowloom_core::id::RunId;
use flowloom_runtime::blocking::run_blocking;
use flowloom_runtime::journal::{LeaseTerm, MAX_OUTAGE_MS};
use parking_lot::Mutex;

use super::{Database, Postgres, WorkerIdentity};
use crate::db::liveness::{Liveness, LivingWorkers};
use crate::db::{DbConnection, WriteJob, params};
use crate::error::StoreError;
use crate::lease_terms::read_uptime;

/// Deletes rows of processes that have been dead for a day.
const DELETE_DEAD_SQL: &str = "delete from worker where expires_at < clock_timestamp() - interval '1 day'";

/// The lease of this process.
pub(crate) struct LeaseRenewal {
    database: Database,
    process: WorkerIdentity,
    thread: Mutex<Option<RenewalThread>>,
}

struct RenewalThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl LeaseRenewal {
    pub(crate) fn new(database: &Database, process: WorkerIdentity) -> LeaseRenewal {
        LeaseRenewal { database: database.clone(), process, thread: Mutex::default() }
    }

    /// Whether this process has reached the database for as long as living ones need to renew their leases.
    fn is_contact_steady(&self) -> bool {
        self.database.contact.is_steady_for(self.process.lease)
    }

    /// Stops renewing the lease; `false` if it was not being renewed.
    fn stop_renewal(&self) -> bool {
        let renewing = self.thread.lock().take();
        let Some(RenewalThread { stop, thread }) = renewing else { return false };
        drop(stop);
        let _ = run_blocking(|| thread.join());
        true
    }
}

impl Liveness for LeaseRenewal {
    /// Starts renewing the lease. The lease begins with the commit that names this process as a worker.
    fn show_process(&self) -> Result<(), StoreError> {
        let mut renewing = self.thread.lock();
        if renewing.is_none() {
            let (stop, stopped) = channel();
            let (postgres, process) = (Postgres::for_renewals(&self.database), self.process.clone());
            let thread = std::thread::Builder::new().name("store-lease".into());
            let thread = thread
                .spawn(move || renew_lease(&postgres, &process, &stopped))
                .map_err(|source| StoreError::Thread { purpose: "renews the lease", source })?;
            *renewing = Some(RenewalThread { stop, thread });
        }
        Ok(())
    }

    /// Names of the living processes. After an outage every lease has expired. So a process counts as dead only if the
    /// database was up, and this process reached it, for the time in which each living one renews its lease; or if its lease
    /// expired longer ago than any process waits for the database.
    fn read_living(&self, db: &DbConnection) -> Result<LivingWorkers, StoreError> {
        let lease = self.process.lease_ms();
        let may_wait = lease + MAX_OUTAGE_MS as i64;
        let was_lost = !self.is_contact_steady();
        let sql = "select name from worker where expires_at > clock_timestamp() \
                   or expires_at > clock_timestamp() - $2 * interval '1 millisecond' and ($3 = 1 \
                   or clock_timestamp() - pg_postmaster_start_time() < $1 * interval '1 millisecond')";
        let names = db.query_rows(sql, params![lease, may_wait, i64::from(was_lost)], |row| row.get(0))?;
        Ok(LivingWorkers::Named(names.into_iter().collect()))
    }

    fn is_alive(&self, _name: &str) -> bool {
        false
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn shutdown_job(&self) -> Option<WriteJob> {
        let name = self.process.name.clone();
        self.stop_renewal().then(|| -> WriteJob { Box::new(move |db| end_lease(db, &name)) })
    }

    /// After an outage, living processes have not renewed their leases yet.
    fn can_identify_dead_workers(&self) -> bool {
        self.is_contact_steady()
    }

    fn read_term(&self) -> LeaseTerm {
        self.process.terms.term_at(read_uptime(), self.process.lease)
    }

    /// Whether the lease of a process is valid again, although it had expired. A transaction of that process that renews it and
    /// appends to `run` is awaited first.
    fn has_come_back(&self, db: &DbConnection, run: RunId, name: &str) -> Result<bool, StoreError> {
        // The second statement sees commits that happened while the first one waited.
        db.query_first("select 1::bigint from run where id = $1 for update", params![&run.to_string()], |row| {
            row.get::<i64>(0)
        })?;
        let sql = "select 1::bigint from worker where name = $1 and expires_at > clock_timestamp()";
        Ok(db.query_first(sql, params![name], |row| row.get::<i64>(0))?.is_some())
    }
}

/// Ends the lease of a process.
fn end_lease(db: &DbConnection, name: &str) -> Result<(), StoreError> {
    db.execute_unchecked("delete from worker where name = $1", params![name])
}

/// Renews the lease every third of its duration. If the database cannot be reached, the next interval tries again.
/// Other processes may reclaim the runs meanwhile; this process then learns of it from its commits.
fn renew_lease(postgres: &Postgres, process: &WorkerIdentity, stopped: &Receiver<()>) {
    let mut is_known = false;
    while stopped.recv_timeout(process.lease / 3) == Err(RecvTimeoutError::Timeout) {
        let renewed = postgres.renew_lease(process);
        if renewed.is_ok() && !is_known {
            is_known = postgres.run_script(DELETE_DEAD_SQL).is_ok();
        }
    }
}
