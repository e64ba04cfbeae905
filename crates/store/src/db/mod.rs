//! Common interface of the databases. Queries are written once, in SQL that all databases accept. This module holds rows
//! and connections, and asks the right database for everything in which they differ. No code outside of this folder does.

pub(crate) mod dialect;
pub(crate) mod failure;
pub(crate) mod liveness;
pub(crate) mod news;
mod param;
pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_core::id::RunId;
use flowloom_runtime::blocking::run_blocking;
use flowloom_runtime::relay::TextRelay;
use rusqlite::types::FromSql;

use crate::checksum::StatusColumns;
use crate::error::{BackupError, Corruption, StoreError};
use crate::event_row::EventRow;
use crate::settings::StoreSettings;
use dialect::{EventSql, WordSearch};
use liveness::Liveness;
use news::{NewsListener, PollingListener};
pub(crate) use param::{Param, params};
use postgres::{CommandListener, Database, Postgres, PostgresRelay};
use sqlite::Sqlite;

/// A change to the database. If it fails, the transaction is rolled back and the other jobs of the batch are run again.
pub(crate) type WriteJob = Box<dyn FnMut(&DbConnection) -> Result<(), StoreError> + Send>;

/// A type that can be read from a column of all databases.
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

/// A run whose row was not read. The transaction fails unless the process holds its lease, no command is pending, the run has
/// made progress since it was claimed, and none of its child runs is unfinished if it ends.
pub(crate) struct AssumedRun {
    pub(crate) number: i64,
    pub(crate) epoch: u64,
    /// The status that it gets, with its checksum.
    pub(crate) status: Option<(StatusColumns<'static>, i64)>,
    /// Whether the process gives up its lease.
    pub(crate) is_released: bool,
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

    /// A number for a run that the transaction inserts.
    pub(crate) fn reserve_run_number(&self) -> Result<i64, StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.next_run_number(),
            DbConnection::Postgres(postgres) => postgres.reserve_run_number(),
        }
    }

    /// Whether the transaction may assume the state of a run in [`AssumedRun`] instead of reading its row.
    pub(crate) fn may_assume(&self) -> bool {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.may_assume(),
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

    /// Prepares the connection for the writer.
    pub(crate) fn prepare_commits(&self) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.shorten_busy_timeout(),
            DbConnection::Postgres(_) => Ok(()),
        }
    }

    /// The file of the log that checkpoints move into the database, if it has one.
    pub(crate) fn log_file(&self) -> Option<PathBuf> {
        match self {
            DbConnection::Sqlite(sqlite) => Some(sqlite.log_file()),
            DbConnection::Postgres(_) => None,
        }
    }

    /// Moves the log into the database. Returns whether the log has grown so large that [`DbConnection::restart_log`] is due.
    pub(crate) fn run_checkpoint(&self) -> bool {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.run_checkpoint(),
            DbConnection::Postgres(_) => false,
        }
    }

    /// Moves the whole log into the database while commits wait.
    pub(crate) fn restart_log(&self) {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.restart_log(),
            DbConnection::Postgres(_) => {}
        }
    }

    /// The server, for messages; `None` if there is none that could hang.
    pub(crate) fn server_name(&self) -> Option<Arc<str>> {
        match self {
            DbConnection::Sqlite(_) => None,
            DbConnection::Postgres(postgres) => Some(postgres.server_name()),
        }
    }

    /// Sets until when a server must answer everything that is asked from now on.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        match self {
            DbConnection::Sqlite(_) => {}
            DbConnection::Postgres(postgres) => postgres.set_deadline(deadline),
        }
    }

    /// Inserts events of a run; on Postgres when the transaction commits.
    pub(crate) fn insert_events(&self, run: i64, rows: &[EventRow]) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite::insert_events(sqlite, run, rows),
            DbConnection::Postgres(postgres) => {
                postgres.queue_events(run, rows);
                Ok(())
            }
        }
    }

    /// Changes the row of a run whose state was assumed, see [`DbConnection::may_assume`]. The transaction fails and runs
    /// again if the assumption is wrong: on SQLite immediately, on Postgres when it commits. `worker` is the name of the
    /// process.
    pub(crate) fn write_assumed_run(&self, run: AssumedRun, worker: &str) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite::write_assumed_run(sqlite, &run, worker),
            DbConnection::Postgres(postgres) => {
                postgres.queue_run(run);
                Ok(())
            }
        }
    }

    /// The expressions that read fields of stored events.
    pub(crate) fn event_sql(&self) -> EventSql {
        match self {
            DbConnection::Sqlite(_) => sqlite::dialect::EVENT_SQL,
            DbConnection::Postgres(_) => postgres::dialect::EVENT_SQL,
        }
    }

    /// A search for blocks with any of these words.
    pub(crate) fn search_words(&self, words: &[String]) -> WordSearch {
        match self {
            DbConnection::Sqlite(_) => sqlite::dialect::search_words(words),
            DbConnection::Postgres(_) => postgres::dialect::search_words(words),
        }
    }

    /// The damaged pages of the database, or of the list of runs. Postgres has checksums of its own.
    pub(crate) fn list_damaged_pages(&self, pages: CheckedPages) -> Result<Vec<String>, StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.list_problems(pages),
            DbConnection::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Writes a copy of the database to a new file. Postgres has its own tools for this.
    pub(crate) fn back_up(&self, file: &Path) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.back_up(file),
            DbConnection::Postgres(_) => Err(BackupError::Postgres.into()),
        }
    }

    /// Limits the size of the database, to simulate a full disk in tests.
    pub(crate) fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        match self {
            DbConnection::Sqlite(sqlite) => sqlite.run_script(&format!("PRAGMA max_page_count={pages}")),
            DbConnection::Postgres(_) => Err(StoreError::NoPageLimit),
        }
    }
}

/// The pages that a check reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckedPages {
    All,
    /// Those of the list of runs.
    Runs,
}

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
        match self {
            DbSource::Sqlite(_) => false,
            DbSource::Postgres(database) => postgres::is_hanging(database),
        }
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

    /// Learns of commands and ends that other processes write. Processes that share a SQLite file poll.
    pub(crate) fn listen_to_news(&self) -> Result<Box<dyn NewsListener>, StoreError> {
        match self {
            DbSource::Sqlite(_) => Ok(Box::new(PollingListener { interval: sqlite::POLL_INTERVAL })),
            DbSource::Postgres(database) => Ok(Box::new(CommandListener::connect(database)?)),
        }
    }

    /// Carries text to processes on other machines; `None` if there are none.
    pub(crate) fn relay_text(&self) -> Option<Arc<dyn TextRelay>> {
        match self {
            DbSource::Sqlite(_) => None,
            DbSource::Postgres(database) => Some(Arc::new(PostgresRelay::new(database.clone()))),
        }
    }
}

/// A database that was opened and migrated by a process that will write to it.
pub(crate) struct OpenedDatabase {
    pub(crate) source: DbSource,
    /// The connection that commits.
    pub(crate) writer: DbConnection,
    /// A connection for checkpoints, if the database needs them.
    pub(crate) checkpoints: Option<DbConnection>,
    /// Whether a commit does not wait for the disk.
    pub(crate) is_quick: bool,
    /// Whether an older version may have stored blocks without an index.
    pub(crate) may_lack_index: bool,
    /// Whether runs are in the memory of the process only.
    pub(crate) keeps_runs_in_memory: bool,
    pub(crate) liveness: Box<dyn Liveness>,
}

/// Opens the configured database for a process with this name, and migrates its schema.
pub(crate) fn open_database(settings: &StoreSettings, process: String) -> Result<OpenedDatabase, StoreError> {
    match &settings.database {
        None => sqlite::open_database(&settings.folder, settings.durability, &process),
        Some(database) => postgres::open_database(database, process, settings.lease),
    }
}
