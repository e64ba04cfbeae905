//! Postgres: statements, commits, and the process's own row, which says that it lives and what it committed last.
//!
//! A commit is one transaction on one session. If its answer is lost with the session, the process asks its row, on a new
//! session, whether the commit happened, and repeats it only if it did not.

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

/// For so long the server is looked for when it must be asked whether a commit happened.
const PATIENCE: Duration = Duration::from_secs(10);

/// After this a process that says nothing in the middle of a transaction is taken for stopped.
const STOPPED: Duration = Duration::from_secs(3);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a commit is begun again that the server undid for the sake of another, or never heard of.
const ATTEMPTS: u32 = 4;

/// What the process says of itself with every commit. An older transaction of the process that has not ended yet is waited for.
const ALIVE: &str = "insert into process (name, commit_number, expires_at) \
    values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond') \
    on conflict (name) do update set commit_number = excluded.commit_number, expires_at = excluded.expires_at";

/// The same without a commit of its own.
const BEAT: &str = "insert into process (name, commit_number, expires_at) \
    values ($1, 0, clock_timestamp() + $2 * interval '1 millisecond') \
    on conflict (name) do update set expires_at = excluded.expires_at returning commit_number";

/// Who a process is for the others, and for how long it may be silent.
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

/// A connection that is made again when it was lost.
pub(crate) struct Postgres {
    database: Database,
    session: RefCell<Option<Session>>,
    /// Who commits here.
    process: Option<Process>,
    /// The number of the last commit.
    number: Cell<i64>,
}

impl Postgres {
    /// A connection that reads.
    pub(crate) fn open(database: &Database) -> Result<Postgres, Error> {
        let postgres = Postgres::of(database, None);
        postgres.connect()?;
        Ok(postgres)
    }

    /// A connection that commits for a process; it is made when it is needed.
    pub(crate) fn of(database: &Database, process: Option<Process>) -> Postgres {
        Postgres { database: database.clone(), session: RefCell::default(), process, number: Cell::new(0) }
    }

    fn connect(&self) -> Result<(), Error> {
        let mut session = self.session.borrow_mut();
        if session.is_none() {
            let new = Session::open(&self.database)?;
            if let Some(process) = &self.process {
                // What a stopped process has begun is undone by the server before those who wait for it give up.
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

    /// Runs statements without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), Error> {
        self.with(|session| session.run(sql))
    }

    /// The server, its version, and whether it can search vectors.
    pub(crate) fn describe(&self) -> Result<String, Error> {
        let version: Option<String> = self.first("show server_version", &[], |row| row.get(0))?;
        let sql = "select default_version, installed_version from pg_available_extensions where name = 'vector'";
        let vector = self.first(sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?)))?;
        let vector = match vector {
            Some((_, Some(installed))) => format!("pgvector {installed}"),
            Some((offered, None)) => format!("pgvector {offered} can be installed"),
            None => "no pgvector".to_owned(),
        };
        Ok(format!("{}: Postgres {}, {vector}", self.database, version.unwrap_or_default()))
    }

    /// Says that the process lives; the number of its last commit.
    pub(crate) fn beat(&self, process: &Process) -> Result<i64, Error> {
        self.connect()?;
        let number = self.first(BEAT, params![&process.name, process.lease_ms()], |row| row.get(0));
        if number.as_ref().is_err_and(Error::is_lost) {
            self.disconnect();
        }
        Ok(number?.unwrap_or_default())
    }

    /// Commits what `work` does; it is done again where the server says that the first time does not count.
    pub(crate) fn transact(&self, mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        let mut attempt = 1;
        loop {
            // A server that cannot be reached is the caller's to try again.
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
        if error.is_lost() || self.run("ROLLBACK").is_err() {
            self.disconnect();
        }
    }

    /// Whether the process's commit with this number happened.
    fn has_committed(&self, number: i64) -> Result<bool, Error> {
        let Some(process) = &self.process else { return Ok(false) };
        let end = Instant::now() + PATIENCE;
        loop {
            match self.beat(process) {
                Ok(last) => return Ok(last == number),
                Err(error) if !error.is_lost() => return Err(error),
                Err(_) if Instant::now() >= end => {
                    let message = "the connection to the database was lost during a commit, and nobody can be asked \
                                   whether it happened; resume the run when the database is back";
                    return Err(StepError::passing(Code::StoreFailed, message).into());
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// Waits for a server without keeping the other tasks of this thread from going on.
pub(crate) fn blocking<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Err(_) => work(),
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // One runtime cannot wait within another on the same thread.
        Ok(_) => std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }),
    }
}

/// Whether the session ended with this error.
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

/// Whether the server undid a transaction for the sake of another one.
pub(crate) fn is_passing(error: &tokio_postgres::Error) -> bool {
    let passing = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| passing.contains(code))
}
