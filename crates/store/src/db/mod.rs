//! Common interface of the two databases. Queries are written once, in SQL that both databases accept. This module
//! holds statement parameters, rows and connections; how each database commits, migrates and fails is in its own
//! module.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::path::PathBuf;

use flowloom_core::error::StepError;
use rusqlite::types::{FromSql, ToSql, ToSqlOutput};

use crate::failure;
use postgres::{Database, Postgres};
use sqlite::Sqlite;

/// A change to the database. If it fails, the transaction is rolled back and the other jobs of the batch are run again.
pub(crate) type Job = Box<dyn FnMut(&Connection) -> Result<(), Error> + Send>;

/// Error of a database operation.
#[derive(Debug)]
pub(crate) enum Error {
    Sqlite(rusqlite::Error),
    Postgres(tokio_postgres::Error),
    /// The statement succeeded, but its result is not acceptable.
    Refused(StepError),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Sqlite(error)
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        Error::Postgres(error)
    }
}

impl From<StepError> for Error {
    fn from(error: StepError) -> Error {
        Error::Refused(error)
    }
}

impl Error {
    /// Whether the connection was lost; a new connection may succeed.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Error::Postgres(error) if postgres::is_lost(error))
    }

    /// Whether the same operation may succeed on a retry.
    fn is_passing(&self) -> bool {
        matches!(self, Error::Postgres(error) if postgres::is_passing(error))
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> StepError {
        match error {
            Error::Sqlite(error) => failure::of_sqlite(&error),
            Error::Postgres(error) => failure::of_postgres(&error),
            Error::Refused(error) => error,
        }
    }
}

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
pub(crate) trait Column: FromSql + for<'a> tokio_postgres::types::FromSql<'a> {}

impl<T: FromSql + for<'a> tokio_postgres::types::FromSql<'a>> Column for T {}

/// A row of a result.
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl Row<'_> {
    /// The value of a column, counted from 0.
    pub(crate) fn get<T: Column>(&self, column: usize) -> Result<T, Error> {
        match self {
            Row::Sqlite(row) => Ok(row.get(column)?),
            Row::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    /// The value of an integer column that is never negative.
    pub(crate) fn count(&self, column: usize) -> Result<u64, Error> {
        Ok(self.get::<i64>(column)? as u64)
    }
}

/// A connection to a database.
pub(crate) enum Connection {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Connection {
    /// Executes a statement without reading the number of affected rows. On Postgres the statement is pipelined with
    /// the following ones; if it fails, they fail too.
    pub(crate) fn put(&self, sql: &str, params: &[Param<'_>]) -> Result<(), Error> {
        match self {
            Connection::Sqlite(sqlite) => sqlite.execute(sql, params).map(drop),
            Connection::Postgres(postgres) => postgres.put(sql, params),
        }
    }

    /// Executes a statement and returns the number of affected rows.
    pub(crate) fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        match self {
            Connection::Sqlite(sqlite) => sqlite.execute(sql, params),
            Connection::Postgres(postgres) => postgres.execute(sql, params),
        }
    }

    /// Executes a statement that must affect a row; fails with `missing` otherwise.
    pub(crate) fn change(&self, sql: &str, params: &[Param<'_>], missing: StepError) -> Result<(), Error> {
        match self.execute(sql, params)? {
            0 => Err(missing.into()),
            _ => Ok(()),
        }
    }

    /// Reads every row of a query.
    pub(crate) fn query<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        match self {
            Connection::Sqlite(sqlite) => sqlite.query(sql, params, read),
            Connection::Postgres(postgres) => postgres.query(sql, params, read),
        }
    }

    /// Reads the first row of a query, if there is one.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self {
            Connection::Sqlite(sqlite) => sqlite.first(sql, params, read),
            Connection::Postgres(postgres) => postgres.first(sql, params, read),
        }
    }

    /// Reads the first row of a query and locks it until the transaction ends. SQLite transactions are exclusive
    /// already.
    pub(crate) fn first_for_update<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self {
            Connection::Sqlite(sqlite) => sqlite.first(sql, params, read),
            Connection::Postgres(postgres) => postgres.first(&format!("{sql} for update"), params, read),
        }
    }

    /// Serialises changes of one sort across processes until the transaction commits. SQLite transactions are exclusive
    /// already.
    pub(crate) fn one_at_a_time(&self, sort: &str) -> Result<(), Error> {
        match self {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(postgres) => {
                postgres.put("select pg_advisory_xact_lock(hashtext($1))::text", params![sort])
            }
        }
    }

    /// Waits for all transactions that write to these tables and blocks new ones until this one commits. SQLite
    /// transactions are exclusive already.
    pub(crate) fn alone_with(&self, tables: &str) -> Result<(), Error> {
        match self {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(postgres) => {
                postgres.put(&format!("lock table {tables} in share row exclusive mode"), &[])
            }
        }
    }

    /// Name and version of the database, for people.
    pub(crate) fn describe(&self) -> Result<String, Error> {
        match self {
            Connection::Sqlite(_) => Ok(format!("SQLite {}", rusqlite::version())),
            Connection::Postgres(postgres) => postgres.describe(),
        }
    }

    /// Size of the database in bytes.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        let sql = match self {
            Connection::Sqlite(_) => "select page_count * page_size from pragma_page_count, pragma_page_size",
            Connection::Postgres(_) => "select pg_database_size(current_database())",
        };
        Ok(self.first(sql, &[], |row| row.count(0))?.unwrap_or_default())
    }

    /// Runs jobs in one transaction.
    pub(crate) fn transact(&self, jobs: &mut [&mut Job]) -> Result<(), Error> {
        let all = || jobs.iter_mut().try_for_each(|job| job(self));
        match self {
            Connection::Sqlite(sqlite) => sqlite.transact(all),
            Connection::Postgres(postgres) => postgres.transact(all),
        }
    }

    /// Runs a job in a transaction without waiting for other writers; `None` if that is not possible.
    pub(crate) fn transact_at_once(&self, job: &mut Job) -> Option<Result<(), Error>> {
        match self {
            Connection::Sqlite(sqlite) => sqlite.transact_at_once(|| job(self)),
            Connection::Postgres(_) => None,
        }
    }
}

/// Location of a database, used to open connections.
#[derive(Clone)]
pub(crate) enum Source {
    Sqlite(PathBuf),
    Postgres(Database),
}

impl Source {
    /// Opens a connection to a migrated database.
    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        match self {
            Source::Sqlite(file) => Sqlite::open(file).map(Connection::Sqlite),
            Source::Postgres(database) => Ok(Connection::Postgres(Box::new(Postgres::open(database)?))),
        }
    }

    /// Maximum number of concurrent read connections.
    pub(crate) fn readers(&self) -> usize {
        match self {
            Source::Sqlite(_) => 1,
            Source::Postgres(_) => 4,
        }
    }

    /// Runs blocking database work in a way that is allowed in the current context.
    pub(crate) fn wait<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self {
            Source::Sqlite(_) => work(),
            Source::Postgres(_) => postgres::blocking(work),
        }
    }
}
