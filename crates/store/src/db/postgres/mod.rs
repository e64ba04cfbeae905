//! Postgres: statements, commits, and the row of this process, which records that it is alive and its last commit.
//!
//! A commit is one transaction on one session. If the session is lost before the commit is acknowledged, the process
//! opens a new session and reads its row to learn whether the commit happened. It repeats the commit only if it did
//! not. While the server cannot be reached, the outcome stays unknown, and the writer asks again.

mod address;
mod contact;
pub(super) mod dialect;
pub(crate) mod failure;
mod identity;
mod leases;
mod limits;
mod listener;
mod migrate;
mod queued_writes;
mod relay;
mod session;
mod tls;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_runtime::blocking::run_blocking;

pub use address::Database;
pub(crate) use identity::WorkerIdentity;
use leases::LeaseRenewal;
use limits::ConnectionPurpose;
pub(super) use listener::{ANNOUNCE_SQL, CommandListener, NOTIFY_SQL};
use migrate::migrate_schema;
use queued_writes::QueuedWrites;
pub(super) use relay::PostgresRelay;
use session::PgSession;

use super::{AssumedRun, DbConnection, DbRow, DbSource, MigratedDatabase, OpenedDatabase, Param, params};
use crate::error::StoreError;
use crate::event_row::EventRow;
use crate::lease_terms::{Renewal, read_uptime};

/// How often a commit is attempted when the server rolls it back because of another transaction, or never receives it.
const MAX_COMMIT_ATTEMPTS: u32 = 4;

/// How long a server has to show that it responds, after a read was not answered.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of runs whose numbers are reserved together.
const RESERVED_NUMBER_COUNT: i64 = 1000;

/// Sent with every commit: renews the lease and records the commit's number. It waits for an older transaction of the
/// same process that has not ended. Divides by zero if this commit was given up ([`SETTLE_COMMIT_SQL`]): see `is_transient`.
const RENEW_LEASE_AND_COMMIT_SQL: &str = "with renewed as (insert into worker (name, commit_number, expires_at) \
    values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond') \
    on conflict (name) do update set commit_number = excluded.commit_number, expires_at = excluded.expires_at \
    where worker.commit_number < excluded.commit_number returning 1) select 1 / count(*)::int from renewed";

/// Renews the lease without a commit.
const RENEW_LEASE_SQL: &str = "insert into worker (name, commit_number, expires_at) \
    values ($1, 0, clock_timestamp() + $2 * interval '1 millisecond') \
    on conflict (name) do update set expires_at = excluded.expires_at returning commit_number";

/// Renews the lease, and takes the number after that of a commit whose outcome is unknown, unless the commit has happened.
/// Then it cannot happen any more: a server that was stopped still reads what a dropped session has sent. So may this statement
/// be executed late, and never lowers the number. Returns the number of the last commit.
const SETTLE_COMMIT_SQL: &str = "insert into worker (name, commit_number, expires_at) \
    values ($1, $2 + 1, clock_timestamp() + $3 * interval '1 millisecond') \
    on conflict (name) do update set expires_at = excluded.expires_at, \
    commit_number = case worker.commit_number when excluded.commit_number - 1 then worker.commit_number \
    else greatest(worker.commit_number, excluded.commit_number) end returning commit_number";

/// Migrates the schema and opens the database for a process with this name and lease.
pub(super) fn open_database(database: &Database, name: String, lease: Duration) -> Result<OpenedDatabase, StoreError> {
    run_blocking(|| migrate_schema(database))?;
    let process = WorkerIdentity::new(name, lease);
    Ok(OpenedDatabase {
        source: DbSource::Postgres(database.clone()),
        writer: DbConnection::Postgres(Box::new(Postgres::for_commits(database, process.clone()))),
        checkpoints: None,
        is_quick: false,
        may_lack_index: false,
        keeps_runs_in_memory: false,
        liveness: Box::new(LeaseRenewal::new(database, process)),
    })
}

/// Whether the server does not answer at all.
pub(super) fn is_hanging(database: &Database) -> bool {
    let patient = database.answer_timeout.min(PROBE_TIMEOUT);
    let probed = Postgres::open(&database.clone().with_answer_timeout(patient))
        .and_then(|session| session.query_first("select 1", &[], |_| Ok(())));
    probed.is_err_and(|error| error.is_hang())
}

/// A renewal of the lease that has just been acknowledged.
fn renewal_since(sent_at: Duration) -> Renewal {
    Renewal { sent_at, acknowledged_at: read_uptime() }
}

/// A connection that reconnects after it was lost.
pub(crate) struct Postgres {
    database: Database,
    session: RefCell<Option<PgSession>>,
    purpose: ConnectionPurpose,
    /// When a request must be answered, instead of the time limit of its purpose.
    deadline: Cell<Option<Instant>>,
    /// Number of the last commit.
    number: Cell<i64>,
    /// Numbers for new runs that no other process uses.
    run_numbers: RefCell<Vec<i64>>,
    /// Whether the transaction may write without first reading the most likely state. See [`Postgres::may_assume`].
    may_assume: Cell<bool>,
    /// Statements that are sent when the transaction commits.
    queued: RefCell<QueuedWrites>,
}

impl Postgres {
    /// Opens a connection for reading.
    pub(crate) fn open(database: &Database) -> Result<Postgres, StoreError> {
        let postgres = Postgres::for_purpose(database, ConnectionPurpose::Read);
        postgres.connect()?;
        Ok(postgres)
    }

    /// Opens a connection for migrations.
    fn open_for_migration(database: &Database) -> Result<Postgres, StoreError> {
        let postgres = Postgres::for_purpose(database, ConnectionPurpose::Migrate);
        postgres.connect()?;
        Ok(postgres)
    }

    /// A connection that commits for a process. It connects on first use.
    pub(crate) fn for_commits(database: &Database, process: WorkerIdentity) -> Postgres {
        Postgres::for_purpose(database, ConnectionPurpose::Commit(process))
    }

    /// A connection that renews leases. It connects on first use.
    pub(crate) fn for_renewals(database: &Database) -> Postgres {
        Postgres::for_purpose(database, ConnectionPurpose::Read)
    }

    fn for_purpose(database: &Database, purpose: ConnectionPurpose) -> Postgres {
        Postgres {
            database: database.clone(),
            session: RefCell::default(),
            purpose,
            deadline: Cell::new(None),
            number: Cell::new(0),
            run_numbers: RefCell::default(),
            may_assume: Cell::new(false),
            queued: RefCell::default(),
        }
    }

    fn connect(&self) -> Result<(), StoreError> {
        let mut session = self.session.borrow_mut();
        // A commit that is sent on a session which has ended would be in doubt.
        if session.take_if(|session| session.is_closed()).is_some() {
            self.database.contact.note_lost();
        }
        if session.is_none() {
            let opened = PgSession::open(&self.database);
            match &opened {
                Ok(_) => self.database.contact.note_reached(),
                Err(_) => self.database.contact.note_lost(),
            }
            let new = opened?;
            new.limit_waiting(self.deadline.get(), Some(self.database.answer_timeout));
            if let Some(settings) = self.purpose.session_settings(self.database.answer_timeout) {
                new.run_script(&settings)?;
            }
            *session = Some(new);
        }
        Ok(())
    }

    fn with_session<T>(&self, use_it: impl FnOnce(&PgSession) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let used = match &*self.session.borrow() {
            Some(session) => {
                let deadline = self.deadline.get();
                // A deadline limits how long a read may take.
                let of_answer = self.purpose.answer_timeout(self.database.answer_timeout);
                session.limit_waiting(deadline, of_answer.filter(|_| deadline.is_none()));
                use_it(session)
            }
            None => Err(self.lost_connection()),
        };
        used.inspect_err(|error| {
            if error.is_connection_lost() {
                self.database.contact.note_lost();
            }
        })
    }

    /// Hosts and ports of the server, for messages.
    pub(crate) fn server_name(&self) -> Arc<str> {
        self.database.server.clone()
    }

    /// Sets until when everything that is asked from now on must be answered.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        self.deadline.set(Some(deadline));
    }

    fn lost_connection(&self) -> StoreError {
        StoreError::ConnectionLost { server: self.database.server.clone() }
    }

    fn disconnect(&self) {
        *self.session.borrow_mut() = None;
    }

    pub(crate) fn execute_unchecked(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.with_session(|session| session.send_statement(sql, params))
    }

    pub(crate) fn execute_sql(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.with_session(|session| session.execute_sql(sql, params))
    }

    pub(crate) fn query_rows<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.with_session(|session| session.query_rows(sql, params))?;
        rows.iter().map(|row| read(&DbRow::Postgres(row))).collect()
    }

    pub(crate) fn query_first<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let rows = self.with_session(|session| session.query_rows(sql, params))?;
        rows.first().map(|row| read(&DbRow::Postgres(row))).transpose()
    }

    /// Executes statements without parameters.
    pub(crate) fn run_script(&self, sql: &str) -> Result<(), StoreError> {
        self.with_session(|session| session.run_script(sql))
    }

    /// Address, server version, and whether pgvector is available.
    pub(crate) fn describe_server(&self) -> Result<String, StoreError> {
        let version: Option<String> = self.query_first("show server_version", &[], |row| row.get(0))?;
        let sql = "select default_version, installed_version from pg_available_extensions where name = 'vector'";
        let vector = self.query_first(sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?)))?;
        let vector = match vector {
            Some((_, Some(installed))) => format!("pgvector {installed}"),
            Some((version, None)) => format!("pgvector {version} is available but not installed"),
            None => "no pgvector".to_owned(),
        };
        Ok(format!("{}: Postgres {}, {vector}", self.database, version.unwrap_or_default()))
    }

    /// Renews the lease of a process.
    pub(crate) fn renew_lease(&self, process: &WorkerIdentity) -> Result<(), StoreError> {
        self.renew_with(process, RENEW_LEASE_SQL, params![&process.name, process.lease_ms()]).map(drop)
    }

    /// Executes a statement that renews the lease of a process, and returns the number of its last commit.
    fn renew_with(&self, process: &WorkerIdentity, sql: &str, params: &[Param<'_>]) -> Result<i64, StoreError> {
        self.connect()?;
        let sent_at = read_uptime();
        let number = self.query_first(sql, params, |row| row.get(0));
        if let Err(error) = &number
            && error.is_session_spoiled()
        {
            // Without renewals the lease expires, although this process lives.
            self.database.contact.note_lost();
            self.disconnect();
        }
        let number = number?;
        process.terms.note_heartbeat(renewal_since(sent_at), process.lease);
        Ok(number.unwrap_or_default())
    }

    /// Inserts events of a run when the transaction commits.
    pub(crate) fn queue_events(&self, run: i64, rows: &[EventRow]) {
        self.queued.borrow_mut().push_events(run, rows);
    }

    /// Changes the row of a run when the transaction commits, which fails if the row is not as assumed. The next attempt of
    /// the transaction assumes nothing.
    pub(crate) fn queue_run(&self, run: AssumedRun) {
        self.queued.borrow_mut().push_run(run);
    }

    fn send_queued(&self) -> Result<(), StoreError> {
        let worker = self.purpose.committing_process().map_or("", |process| &process.name);
        let mut statements = self.queued.take().into_statements(worker);
        self.with_session(|session| statements.try_for_each(|(sql, params)| session.send_owned(sql, params)))
    }

    /// A number for a new run. Numbers are reserved in advance, so that an insertion need not be awaited to learn its
    /// number.
    pub(crate) fn reserve_run_number(&self) -> Result<i64, StoreError> {
        let mut numbers = self.run_numbers.borrow_mut();
        if numbers.is_empty() {
            let sql =
                "select nextval(pg_get_serial_sequence('run', 'number')) from generate_series(1, $1) order by 1 desc";
            *numbers = self.query_rows(sql, params![RESERVED_NUMBER_COUNT], |row| row.get(0))?;
        }
        // The query returns as many rows as it is asked for.
        numbers.pop().ok_or_else(|| self.lost_connection())
    }

    /// Whether the transaction may write without first reading the most likely state, and let the server verify it
    /// ([`AssumedRun`]): such a transaction needs one round trip, however many runs it writes.
    pub(crate) fn may_assume(&self) -> bool {
        self.may_assume.get()
    }

    /// Runs `work` in a transaction, and retries it when the server rolled it back because of another transaction or
    /// a wrong assumption, or the connection was lost.
    pub(crate) fn run_transaction(&self, mut work: impl FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut attempt = 1;
        loop {
            // An unreachable server is reported; the caller decides whether to retry.
            self.connect()?;
            self.may_assume.set(attempt == 1);
            match self.attempt_transaction(&mut work) {
                // Who waits for a server that hangs decides how long.
                Err(error) if error.is_hang() => return Err(error),
                Err(error) if attempt < MAX_COMMIT_ATTEMPTS && (error.is_connection_lost() || error.is_transient()) => {
                    attempt += 1
                }
                done => return done,
            }
        }
    }

    fn attempt_transaction(&self, work: &mut impl FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let number = self.number.get() + 1;
        self.number.set(number);
        let sent_at = read_uptime();
        self.queued.take();
        let result = self.begin_transaction(number).and_then(|()| work()).and_then(|()| self.send_queued());
        result.inspect_err(|error| self.roll_back(error))?;
        let committed =
            self.with_session(|session| session.send_plain("COMMIT").and_then(|()| session.flush_pending()));
        match committed {
            Ok(()) => {
                if let Some(process) = self.purpose.committing_process() {
                    process.terms.note_commit(renewal_since(sent_at), process.lease);
                }
                Ok(())
            }
            Err(error) => {
                self.roll_back(&error);
                if error.is_connection_lost() && self.has_committed(number)? { Ok(()) } else { Err(error) }
            }
        }
    }

    fn begin_transaction(&self, number: i64) -> Result<(), StoreError> {
        self.with_session(|session| session.send_plain("BEGIN"))?;
        match self.purpose.committing_process() {
            Some(process) => {
                self.execute_unchecked(RENEW_LEASE_AND_COMMIT_SQL, params![&process.name, number, process.lease_ms()])
            }
            None => Ok(()),
        }
    }

    fn roll_back(&self, error: &StoreError) {
        let undone = self.with_session(|session| {
            // Discard all results of this transaction, so that the next one does not see them.
            let _ = session.flush_pending();
            session.run_script("ROLLBACK")
        });
        let is_spoiled = error.is_session_spoiled();
        if is_spoiled && !error.is_locked() {
            self.database.contact.note_lost();
        }
        if is_spoiled || undone.is_err() {
            self.disconnect();
        }
    }

    /// Whether the commit of this process with this number happened. If not, it never will. Fails with `CommitUnknown` if the
    /// server cannot be reached.
    pub(crate) fn has_committed(&self, number: i64) -> Result<bool, StoreError> {
        let Some(process) = self.purpose.committing_process() else { return Ok(false) };
        match self.renew_with(process, SETTLE_COMMIT_SQL, params![&process.name, number, process.lease_ms()]) {
            Ok(last) => {
                self.number.set(self.number.get().max(last));
                Ok(last == number)
            }
            Err(error) if error.is_outage() => {
                Err(StoreError::CommitUnknown { server: self.database.server.clone(), number })
            }
            Err(error) => Err(error),
        }
    }
}

impl MigratedDatabase for Postgres {
    fn execute_statement(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.execute_unchecked(sql, params)
    }

    fn query_batch<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.query_rows(sql, params, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that was stopped still reads what a session has sent that was given up meanwhile.
    #[test]
    fn a_commit_that_was_given_up_cannot_happen_later() {
        let Some(place) = test_postgres::TestDatabase::create_database() else { return };
        let database = Database::parse(&place.url).expect("an address");
        migrate_schema(&database).expect("tables");
        let process = WorkerIdentity::new("process".to_owned(), Duration::from_secs(60));
        let [postgres, late] = [(); 2].map(|()| Postgres::for_commits(&database, process.clone()));
        let write = || postgres.execute_unchecked("update identity set id = id", &[]);
        postgres.run_transaction(write).expect("commit 1");
        assert!(postgres.has_committed(1).expect("known") && !postgres.has_committed(2).expect("known"));
        assert!(!postgres.has_committed(2).expect("known"), "it is the same if it is asked again");
        let settle_late = || {
            let settle = params![&process.name, 1_i64, process.lease_ms()];
            postgres.query_first(SETTLE_COMMIT_SQL, settle, |row| row.get::<i64>(0)).expect("known")
        };
        assert_eq!(settle_late(), Some(3), "a lookup that is executed late does not lower the number");
        late.connect().expect("a session");
        late.number.set(1);
        assert!(late.attempt_transaction(&mut || Ok(())).expect_err("commit 2 was given up").is_transient());
        postgres.run_transaction(write).expect("the next commit");
        assert_eq!((postgres.number.get(), postgres.has_committed(4).expect("known")), (4, true));
    }
}
