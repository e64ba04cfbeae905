//! Common interface of the two databases. Queries are written once, in SQL that both databases accept. This module
//! holds statement parameters, rows and connections; how each database commits, migrates and fails is in its own
//! module.

pub(crate) mod failure;
mod opened_file;
pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::blocking::run_blocking;
use rusqlite::types::{FromSql, ToSql, ToSqlOutput};

use crate::error::{Corruption, StoreError};
use postgres::{Database, Postgres};
use sqlite::Sqlite;

/// A change to the database. If it fails, the transaction is rolled back and the other jobs of the batch are run again.
pub(crate) type WriteJob = Box<dyn FnMut(&DbConnection) -> Result<(), StoreError> + Send>;

/// A statement parameter. Integers have 64 bits in both databases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Param<'a> {
    Text(Option<&'a str>),
    Int(Option<i64>),
    Bytes(&'a [u8]),
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(bytes: &'a [u8]) -> Param<'a> {
        Param::Bytes(bytes)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Param<'a> {
        Param::Text(Some(text))
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(text: &'a String) -> Param<'a> {
        Param::Text(Some(text))
    }
}

impl<'a> From<Option<&'a str>> for Param<'a> {
    fn from(text: Option<&'a str>) -> Param<'a> {
        Param::Text(text)
    }
}

impl<'a> From<&'a Option<String>> for Param<'a> {
    fn from(text: &'a Option<String>) -> Param<'a> {
        Param::Text(text.as_deref())
    }
}

impl From<i64> for Param<'_> {
    fn from(number: i64) -> Self {
        Param::Int(Some(number))
    }
}

impl From<u64> for Param<'_> {
    fn from(number: u64) -> Self {
        Param::Int(Some(number as i64))
    }
}

impl From<u32> for Param<'_> {
    fn from(number: u32) -> Self {
        Param::Int(Some(i64::from(number)))
    }
}

impl From<Option<i64>> for Param<'_> {
    fn from(number: Option<i64>) -> Self {
        Param::Int(number)
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Param::Text(text) => Ok(text.map_or(ToSqlOutput::from(rusqlite::types::Null), ToSqlOutput::from)),
            Param::Int(number) => number.map_or(Ok(ToSqlOutput::from(rusqlite::types::Null)), |it| Ok(it.into())),
            Param::Bytes(bytes) => Ok(ToSqlOutput::from(*bytes)),
        }
    }
}

/// Builds the parameter list of a statement; the first is `$1`. Parameters must appear in the statement in the order of
/// their numbers.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::db::Param::from($value)),*] };
}
pub(crate) use params;

/// A type that can be read from a column of both databases.
pub(crate) trait ColumnType: FromSql + for<'a> tokio_postgres::types::FromSql<'a> {}

impl<T: FromSql + for<'a> tokio_postgres::types::FromSql<'a>> ColumnType for T {}

/// A row of a result.
pub(crate) enum DbRow<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl DbRow<'_> {
    /// The value of a column, counted from 0.
    pub(crate) fn get<T: ColumnType>(&self, column: usize) -> Result<T, StoreError> {
        match self {
            DbRow::Sqlite(row) => Ok(row.get(column)?),
            DbRow::Postgres(row) => {
                row.try_get(column).map_err(|error| StoreError::Corrupt(Corruption::Column(error.to_string())))
            }
        }
    }

    /// The value of an integer column that is never negative.
    pub(crate) fn get_count(&self, column: usize) -> Result<u64, StoreError> {
        Ok(self.get::<i64>(column)? as u64)
    }
}

/// The operations of a connection that a migration uses.
pub(crate) trait MigratedDatabase {
    fn execute_statement(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError>;

    fn query_batch<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError>;
}

/// A connection to a database.
pub(crate) enum DbConnection {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl DbConnection {
    /// Executes a statement without reading the number of affected rows. On Postgres the statement is pipelined with
    /// the following ones; if it fails, they fail too.
    pub(crate) fn execute_unchecked(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.execute_sql(sql, params).map(drop),
            DbConnection::Postgres(postgres) => postgres.execute_unchecked(sql, params),
        }
    }

    /// Writes something that stays the same.
    pub(crate) fn rewrite_unchanged(&self) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.rewrite_version(),
            DbConnection::Postgres(postgres) => postgres.execute_unchecked("update identity set id = id", &[]),
        }
    }

    /// Executes a statement and returns the number of affected rows.
    pub(crate) fn execute_sql(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.execute_sql(sql, params),
            DbConnection::Postgres(postgres) => postgres.execute_sql(sql, params),
        }
    }

    /// Executes a statement that must affect a row; fails with `missing` otherwise.
    pub(crate) fn execute_required(
        &self,
        sql: &str,
        params: &[Param<'_>],
        missing: StoreError,
    ) -> Result<(), StoreError> {
        match self.execute_sql(sql, params)? {
            0 => Err(missing),
            _ => Ok(()),
        }
    }

    /// Reads every row of a query.
    pub(crate) fn query_rows<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.query_rows(sql, params, read),
            DbConnection::Postgres(postgres) => postgres.query_rows(sql, params, read),
        }
    }

    /// Reads the first row of a query, if there is one.
    pub(crate) fn query_first<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.query_first(sql, params, read),
            DbConnection::Postgres(postgres) => postgres.query_first(sql, params, read),
        }
    }

    /// Reads the first row of a query and locks it until the transaction ends. SQLite transactions are exclusive
    /// already.
    pub(crate) fn query_first_for_update<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.query_first(sql, params, read),
            DbConnection::Postgres(postgres) => postgres.query_first(&format!("{sql} for update"), params, read),
        }
    }

    /// A number for a new run; `None` if the database assigns it when the run is inserted.
    pub(crate) fn reserve_run_number(&self) -> Result<Option<i64>, StoreError> {
        match self {
            DbConnection::Sqlite(_) => Ok(None),
            DbConnection::Postgres(postgres) => postgres.reserve_run_number().map(Some),
        }
    }

    /// Whether the transaction may assume the state of a run in [`AssumedRun`] instead of reading its row.
    pub(crate) fn may_assume(&self) -> bool {
        match self {
            DbConnection::Sqlite(_) => false,
            DbConnection::Postgres(postgres) => postgres.may_assume(),
        }
    }

    /// Serialises changes of one sort across processes until the transaction commits. SQLite transactions are exclusive
    /// already.
    pub(crate) fn serialize_changes(&self, sort: &str) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(_) => Ok(()),
            DbConnection::Postgres(postgres) => {
                postgres.execute_unchecked("select pg_advisory_xact_lock(hashtext($1))::text", params![sort])
            }
        }
    }

    /// Notifies other processes, when the transaction commits, that a run has a new command or decision. Processes that
    /// share a SQLite file poll.
    pub(crate) fn notify_workers(&self, run: RunId) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(_) => Ok(()),
            DbConnection::Postgres(postgres) => {
                postgres.execute_unchecked(postgres::NOTIFY_SQL, params![&run.to_string()])
            }
        }
    }

    /// Notifies other processes, when the transaction commits, that a run has ended or waits.
    pub(crate) fn announce_run(&self, run: RunId) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(_) => Ok(()),
            DbConnection::Postgres(postgres) => {
                postgres.execute_unchecked(postgres::ANNOUNCE_SQL, params![&run.to_string()])
            }
        }
    }

    /// Waits for all transactions that write to these tables and blocks new ones until this one commits. SQLite
    /// transactions are exclusive already.
    pub(crate) fn lock_tables(&self, tables: &str) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(_) => Ok(()),
            DbConnection::Postgres(postgres) => {
                postgres.execute_unchecked(&format!("lock table {tables} in share row exclusive mode"), &[])
            }
        }
    }

    /// Name and version of the database, for people.
    pub(crate) fn describe_database(&self) -> Result<String, StoreError> {
        match self {
            DbConnection::Sqlite(_) => Ok(format!("SQLite {}", rusqlite::version())),
            DbConnection::Postgres(postgres) => postgres.describe_server(),
        }
    }

    /// Size of the database in bytes.
    pub(crate) fn size_bytes(&self) -> Result<u64, StoreError> {
        let sql = match self {
            DbConnection::Sqlite(_) => "select page_count * page_size from pragma_page_count, pragma_page_size",
            DbConnection::Postgres(_) => "select pg_database_size(current_database())",
        };
        Ok(self.query_first(sql, &[], |row| row.get_count(0))?.unwrap_or_default())
    }

    /// Runs jobs in one transaction.
    pub(crate) fn run_transaction(&self, jobs: &mut [&mut WriteJob]) -> Result<(), StoreError> {
        let all = || jobs.iter_mut().try_for_each(|job| job(self));
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.run_transaction(all),
            DbConnection::Postgres(postgres) => postgres.run_transaction(all),
        }
    }

    /// Whether a commit happened whose outcome was unknown. Fails with `CommitUnknown` while the database cannot be reached.
    pub(crate) fn has_committed(&self, number: i64) -> Result<bool, StoreError> {
        match self {
            DbConnection::Sqlite(_) => Ok(false),
            DbConnection::Postgres(postgres) => postgres.has_committed(number),
        }
    }

    /// Runs jobs in a transaction without waiting for other writers; `None` if that is not possible.
    pub(crate) fn try_transaction_now(&self, jobs: &mut [&mut WriteJob]) -> Option<Result<(), StoreError>> {
        let all = || jobs.iter_mut().try_for_each(|job| job(self));
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.try_transaction_now(all),
            DbConnection::Postgres(_) => None,
        }
    }
}

/// How long a server has to show that it responds, after a read was not answered.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of concurrent read connections, at least.
const MIN_READERS: usize = 4;

/// Location of a database, used to open connections.
#[derive(Clone)]
pub(crate) enum DbSource {
    Sqlite(PathBuf),
    Postgres(Database),
}

impl DbSource {
    /// Opens a connection to a migrated database.
    pub(crate) fn connect(&self) -> Result<DbConnection, StoreError> {
        match self {
            DbSource::Sqlite(file) => Sqlite::open(file).map(DbConnection::Sqlite),
            DbSource::Postgres(database) => Ok(DbConnection::Postgres(Box::new(Postgres::open(database)?))),
        }
    }

    /// How long a read may take that is answered soon. One of SQLite is never waited for.
    pub(crate) fn answer_timeout(&self) -> Duration {
        match self {
            DbSource::Sqlite(_) => Duration::ZERO,
            DbSource::Postgres(database) => database.answer_timeout,
        }
    }

    /// The error of a server that does not answer; `None` if the database is no server.
    pub(crate) fn describe_hang(&self) -> Option<StoreError> {
        match self {
            DbSource::Sqlite(_) => None,
            DbSource::Postgres(database) => {
                Some(StoreError::Unanswered { server: database.server.clone(), is_commit: false })
            }
        }
    }

    /// Whether a server does not answer at all: a read may also have been slow.
    pub(crate) fn is_hanging(&self) -> bool {
        let DbSource::Postgres(database) = self else { return false };
        let patient = database.answer_timeout.min(PROBE_TIMEOUT);
        let probed = Postgres::open(&database.clone().with_answer_timeout(patient))
            .and_then(|session| session.query_first("select 1", &[], |_| Ok(())));
        probed.is_err_and(|error| error.is_hang())
    }

    /// Maximum number of concurrent read connections. Those of SQLite cost little, and a read there computes.
    pub(crate) fn max_readers(&self) -> usize {
        match self {
            DbSource::Sqlite(_) => {
                let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
                MIN_READERS.max(2 * cores)
            }
            DbSource::Postgres(_) => MIN_READERS,
        }
    }

    /// Runs blocking database work in a way that is allowed in the current context.
    pub(crate) fn run_blocking<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self {
            DbSource::Sqlite(_) => work(),
            DbSource::Postgres(_) => run_blocking(work),
        }
    }
}
