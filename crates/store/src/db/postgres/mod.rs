//! Postgres: statements, commits, and the row of this process, which records that it is alive and its last commit.
//!
//! A commit is one transaction on one session. If the session is lost before the commit is acknowledged, the process
//! opens a new session and reads its row to learn whether the commit happened. It repeats the commit only if it did
//! not.

mod address;
mod migrate;
mod session;
mod tls;

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_postgres::error::{Severity, SqlState};

pub use address::Database;
pub(crate) use migrate::migrate;
use session::Session;

use super::{Error, Param, Row, params};

/// How long to retry the connection when the outcome of a commit is unknown.
const PATIENCE: Duration = Duration::from_secs(10);

/// Silence within a transaction after which the server regards a process as stopped.
const STOPPED: Duration = Duration::from_secs(3);

/// Pause between two connection attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a commit is attempted when the server rolls it back because of another transaction, or never receives it.
const ATTEMPTS: u32 = 4;

/// Sent with every commit: renews the lease and records the commit's number. It waits for an older transaction of the
/// same process that has not ended.
const ALIVE: &str = "insert into process (name, commit_number, expires_at) \
    values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond') \
    on conflict (name) do update set commit_number = excluded.commit_number, expires_at = excluded.expires_at";

/// Renews the lease without a commit and returns the number of the last commit.
const BEAT: &str = "insert into process (name, commit_number, expires_at) \
    values ($1, 0, clock_timestamp() + $2 * interval '1 millisecond') \
    on conflict (name) do update set expires_at = excluded.expires_at returning commit_number";

/// Name and lease duration of this process, as other processes see it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) lease: Duration,
}

impl Process {
    fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A connection that reconnects after it was lost.
pub(crate) struct Postgres {
    database: Database,
    session: RefCell<Option<Session>>,
    /// The process that commits on this connection; `None` for a read connection.
    process: Option<Process>,
    /// Number of the last commit.
    number: Cell<i64>,
}

impl Postgres {
    /// Opens a connection for reading.
    pub(crate) fn open(database: &Database) -> Result<Postgres, Error> {
        let postgres = Postgres::of(database, None);
        postgres.connect()?;
        Ok(postgres)
    }

    /// A connection that commits for a process. It connects on first use.
    pub(crate) fn of(database: &Database, process: Option<Process>) -> Postgres {
        Postgres { database: database.clone(), session: RefCell::default(), process, number: Cell::new(0) }
    }

    fn connect(&self) -> Result<(), Error> {
        let mut session = self.session.borrow_mut();
        if session.is_none() {
            let new = Session::open(&self.database)?;
            if let Some(process) = &self.process {
                // The server rolls back a stopped process's transaction before those that wait for it give up.
                let (idle, wait) = (process.lease.min(STOPPED).as_millis(), (STOPPED * 2).as_millis());
                new.run(&format!("set idle_in_transaction_session_timeout = {idle}; set lock_timeout = {wait}"))?;
            }
            *session = Some(new);
        }
        Ok(())
    }

    fn with<T>(&self, use_it: impl FnOnce(&Session) -> Result<T, Error>) -> Result<T, Error> {
        match &*self.session.borrow() {
            Some(session) => use_it(session),
            None => Err(StepError::passing(Code::StoreFailed, "the connection to the database was lost").into()),
        }
    }

    fn disconnect(&self) {
        *self.session.borrow_mut() = None;
    }

    pub(crate) fn put(&self, sql: &str, params: &[Param<'_>]) -> Result<(), Error> {
        self.with(|session| session.send(sql, params))
    }

    pub(crate) fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        self.with(|session| session.execute(sql, params))
    }

    pub(crate) fn query<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let rows = self.with(|session| session.rows(sql, params))?;
        rows.iter().map(|row| read(&Row::Postgres(row))).collect()
    }

    pub(crate) fn first<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let rows = self.with(|session| session.rows(sql, params))?;
        rows.first().map(|row| read(&Row::Postgres(row))).transpose()
    }

    /// Executes statements without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), Error> {
        self.with(|session| session.run(sql))
    }

    /// Address, server version, and whether pgvector is available.
    pub(crate) fn describe(&self) -> Result<String, Error> {
        let version: Option<String> = self.first("show server_version", &[], |row| row.get(0))?;
        let sql = "select default_version, installed_version from pg_available_extensions where name = 'vector'";
        let vector = self.first(sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?)))?;
        let vector = match vector {
            Some((_, Some(installed))) => format!("pgvector {installed}"),
            Some((offered, None)) => format!("pgvector {offered} is available but not installed"),
            None => "no pgvector".to_owned(),
        };
        Ok(format!("{}: Postgres {}, {vector}", self.database, version.unwrap_or_default()))
    }

    /// Renews the lease of a process and returns the number of its last commit.
    pub(crate) fn beat(&self, process: &Process) -> Result<i64, Error> {
        self.connect()?;
        let number = self.first(BEAT, params![&process.name, process.lease_ms()], |row| row.get(0));
        if number.as_ref().is_err_and(Error::is_lost) {
            self.disconnect();
        }
        Ok(number?.unwrap_or_default())
    }

    /// Runs `work` in a transaction, and retries it when the server rolled it back because of another transaction or
    /// the connection was lost.
    pub(crate) fn transact(&self, mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        let mut attempt = 1;
        loop {
            // An unreachable server is reported; the caller decides whether to retry.
            self.connect().map_err(StepError::from)?;
            match self.attempt(&mut work) {
                Err(error) if attempt < ATTEMPTS && (error.is_lost() || error.is_passing()) => attempt += 1,
                done => return done,
            }
        }
    }

    fn attempt(&self, work: &mut impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        let number = self.number.get() + 1;
        self.number.set(number);
        let begun = self.begin(number).and_then(|()| work());
        begun.inspect_err(|error| self.undo(error))?;
        let committed = self.with(|session| session.send_plain("COMMIT").and_then(|()| session.flush()));
        match committed {
            Ok(()) => Ok(()),
            Err(error) => {
                self.undo(&error);
                if error.is_lost() && self.has_committed(number)? { Ok(()) } else { Err(error) }
            }
        }
    }

    fn begin(&self, number: i64) -> Result<(), Error> {
        self.with(|session| session.send_plain("BEGIN"))?;
        match &self.process {
            Some(process) => self.put(ALIVE, params![&process.name, number, process.lease_ms()]),
            None => Ok(()),
        }
    }

    fn undo(&self, error: &Error) {
        let undone = self.with(|session| {
            // Discard all results of this transaction, so that the next one does not see them.
            let _ = session.flush();
            session.run("ROLLBACK")
        });
        if error.is_lost() || undone.is_err() {
            self.disconnect();
        }
    }

    /// Whether the commit of this process with this number happened.
    fn has_committed(&self, number: i64) -> Result<bool, Error> {
        let Some(process) = &self.process else { return Ok(false) };
        let end = Instant::now() + PATIENCE;
        loop {
            match self.beat(process) {
                Ok(last) => return Ok(last == number),
                Err(error) if !error.is_lost() => return Err(error),
                Err(_) if Instant::now() >= end => {
                    let message = "the connection to the database was lost during a commit, so its outcome is unknown; \
                                   resume the run when the database is reachable";
                    return Err(StepError::passing(Code::StoreFailed, message).into());
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// Runs blocking work without blocking other tasks of this thread.
pub(crate) fn blocking<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Err(_) => work(),
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A runtime cannot block inside another one on the same thread.
        Ok(_) => std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }),
    }
}

/// Whether this error ended the session.
pub(crate) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        Some(said) => matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
        None => {
            let mut cause = std::error::Error::source(error);
            let mut is_io = error.is_closed();
            while let Some(inner) = cause {
                is_io |= inner.is::<std::io::Error>();
                cause = inner.source();
            }
            is_io
        }
    }
}

/// Whether the server rolled back the transaction because of another one.
pub(crate) fn is_passing(error: &tokio_postgres::Error) -> bool {
    let passing = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| passing.contains(code))
}
