//! SQLite: opening and migrating the file, statements, commits and checkpoints.

mod assumed_run;
mod backup;
pub(super) mod dialect;
mod events;
pub(crate) mod failure;
pub(crate) mod locks;
mod opened_file;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{CachedStatement, params_from_iter};

use super::{CheckedPages, DbConnection, DbRow, DbSource, MigratedDatabase, OpenedDatabase, Param};
use crate::checkpoints::KEPT_LOG_BYTES;
use crate::error::{Corruption, StoreError};
use crate::migrate_checksums::migrate_checksums;
use crate::private;
use crate::settings::{DATABASE_FILE, Durability};
pub(super) use assumed_run::write_assumed_run;
pub(super) use events::insert_events;
use locks::LockFiles;
use opened_file::OpenedFile;

/// Interval at which processes look for what others have written.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Version of the schema; a database with a higher version is rejected.
const SCHEMA_VERSION: i64 = MIGRATION_SCRIPTS.len() as i64;

/// Scripts that migrate the schema from each version to the next.
const MIGRATION_SCRIPTS: [&str; 21] = [
    include_str!("../../schema.sql"),
    include_str!("../../schema-2.sql"),
    include_str!("../../schema-3.sql"),
    include_str!("../../schema-4.sql"),
    include_str!("../../schema-5.sql"),
    include_str!("../../schema-6.sql"),
    include_str!("../../schema-7.sql"),
    include_str!("../../schema-8.sql"),
    include_str!("../../schema-9.sql"),
    include_str!("../../schema-10.sql"),
    include_str!("../../schema-11.sql"),
    include_str!("../../schema-12.sql"),
    include_str!("../../schema-13.sql"),
    include_str!("../../schema-14.sql"),
    include_str!("../../schema-15.sql"),
    include_str!("../../schema-16.sql"),
    include_str!("../../schema-17.sql"),
    include_str!("../../schema-18.sql"),
    include_str!("../../schema-19.sql"),
    include_str!("../../schema-20.sql"),
    include_str!("../../schema-21.sql"),
];

/// Version since which rows have checksums.
const CHECKSUMS_VERSION: i64 = 10;

/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a statement of the writer waits for another process. The writer repeats a transaction until its jobs may
/// wait no longer.
const WRITER_BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// Size of the write-ahead log, in pages, above which a checkpoint blocks commits (64 MB). Otherwise steady writing
/// would let the log grow without bound.
const MAX_LOG_PAGES: i64 = 8192;

/// Opens the file in a data folder, creating it if necessary, for a process with this name.
pub(super) fn open_database(
    folder: &Path,
    durability: Durability,
    process: &str,
) -> Result<OpenedDatabase, StoreError> {
    let file = folder.join(DATABASE_FILE);
    // SQLite gives its other files the mode of this one.
    private::create_database_file(&file).map_err(|source| StoreError::NotCreated {
        what: "create the database",
        path: file.clone(),
        source,
    })?;
    let writer = Sqlite::open(&file)?;
    writer.migrate_schema(&file)?;
    writer.set_durability(durability)?;
    writer.disable_auto_checkpoints()?;
    let background = Sqlite::open(&file)?;
    background.set_durability(durability)?;
    Ok(OpenedDatabase {
        source: DbSource::Sqlite(file),
        writer: DbConnection::Sqlite(writer),
        checkpoints: Some(DbConnection::Sqlite(background)),
        is_quick: durability != Durability::Full,
        may_lack_index: true,
        keeps_runs_in_memory: durability == Durability::Memory,
        liveness: Box::new(LockFiles::new(folder, process)),
    })
}

/// A connection to a database file.
pub(crate) struct Sqlite {
    connection: rusqlite::Connection,
    file: OpenedFile,
    /// Whether the transaction may write without first reading the most likely state. See [`Sqlite::may_assume`].
    may_assume: Cell<bool>,
    /// Whether the transaction has assumed something.
    has_assumed: Cell<bool>,
}

impl Sqlite {
    pub(crate) fn open(file: &Path) -> Result<Sqlite, StoreError> {
        let connection = rusqlite::Connection::open(file)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Sqlite {
            connection,
            file: OpenedFile::identify_file(file),
            may_assume: Cell::new(false),
            has_assumed: Cell::new(false),
        })
    }

    /// Prepares the connection for the writer.
    pub(crate) fn shorten_busy_timeout(&self) -> Result<(), StoreError> {
        Ok(self.connection.busy_timeout(WRITER_BUSY_TIMEOUT)?)
    }

    /// The file of the write-ahead log.
    pub(crate) fn log_file(&self) -> PathBuf {
        PathBuf::from(format!("{}-wal", self.connection.path().unwrap_or_default()))
    }

    /// Sets how durable commits of this connection are.
    pub(crate) fn set_durability(&self, durability: Durability) -> Result<(), StoreError> {
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
            Durability::Off | Durability::Memory => "OFF",
        };
        self.run_script(&format!("PRAGMA synchronous={synchronous}"))
    }

    /// Turns off automatic checkpoints; [`Sqlite::run_checkpoint`] runs them instead. The file of a log that grew large is
    /// truncated when the log restarts.
    pub(crate) fn disable_auto_checkpoints(&self) -> Result<(), StoreError> {
        self.run_script(&format!("PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit={KEPT_LOG_BYTES}"))
    }

    /// Executes statements outside a transaction.
    pub(crate) fn run_script(&self, sql: &str) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch(sql)?)
    }

    /// Migrates an empty or older database to [`SCHEMA_VERSION`]. Fails with `StoreNewer` if the database has a higher
    /// version.
    pub(crate) fn migrate_schema(&self, file: &Path) -> Result<(), StoreError> {
        let found = self.read_supported_version(file)?;
        if found == SCHEMA_VERSION {
            return Ok(());
        }
        // An empty database has nothing to lose in a power failure, so creating it need not wait for the disk.
        let synchronous = if found == 0 { "OFF" } else { "FULL" };
        self.run_script(&format!("PRAGMA synchronous={synchronous}; PRAGMA journal_mode=WAL; BEGIN IMMEDIATE"))?;
        // Another process may have migrated it in the meantime.
        let found = self.read_supported_version(file)?;
        let left = MIGRATION_SCRIPTS.iter().skip(usize::try_from(found).unwrap_or(0));
        left.copied().try_for_each(|migration| self.run_script(migration))?;
        if (1..CHECKSUMS_VERSION).contains(&found) {
            migrate_checksums(self)?;
        }
        self.run_script(&format!("PRAGMA user_version={SCHEMA_VERSION}; COMMIT"))
    }

    fn read_supported_version(&self, file: &Path) -> Result<i64, StoreError> {
        let found: i64 = self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if found <= SCHEMA_VERSION {
            return Ok(found);
        }
        let database = file.display().to_string();
        Err(StoreError::Newer { database, found, supported: SCHEMA_VERSION, is_file: true })
    }

    /// Writes the version that the database has, within a transaction. SQLite writes no row that stays the same, but always
    /// its header.
    pub(crate) fn rewrite_version(&self) -> Result<(), StoreError> {
        let version: i64 = self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        self.run_script(&format!("PRAGMA user_version={version}"))
    }

    /// The problems that a check of SQLite finds. A lost page of the list hides runs without a trace in the rows that are
    /// left.
    pub(crate) fn list_problems(&self, pages: CheckedPages) -> Result<Vec<String>, StoreError> {
        let pragma = match pages {
            CheckedPages::All => "PRAGMA integrity_check",
            CheckedPages::Runs => "PRAGMA quick_check(run)",
        };
        let mut found: Vec<String> = self.query_rows(pragma, &[], |row| row.get(0))?;
        found.retain(|problem| problem != "ok");
        Ok(found)
    }

    /// Checks that the file is an intact Flowloom database with a known schema. Fails with `StoreCorrupt`, or with
    /// `StoreNewer` if a newer program wrote it.
    pub(crate) fn check_integrity(&self, file: &Path) -> Result<(), StoreError> {
        let found: Result<String, _> = self.connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
        match found {
            Ok(text) if text == "ok" => {}
            Ok(problem) => return Err(StoreError::Corrupt(Corruption::File(problem))),
            Err(error) => return Err(StoreError::Corrupt(Corruption::NotSqlite(error))),
        }
        match self.read_supported_version(file)? {
            1..=SCHEMA_VERSION => Ok(()),
            0 => Err(StoreError::Corrupt(Corruption::Empty)),
            version => Err(StoreError::Corrupt(Corruption::SchemaVersion(version))),
        }
    }

    fn prepare_statement(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        let statement = self.connection.prepare_cached(sql)?;
        // SQLite numbers parameters in order of appearance, whatever their names are.
        debug_assert!((1..=statement.parameter_count()).all(|n| {
            let name = statement.parameter_name(n);
            name == Some(&format!("${n}"))
        }));
        Ok(statement)
    }

    pub(crate) fn execute_sql(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        Ok(self.prepare_statement(sql)?.execute(params_from_iter(params))? as u64)
    }

    pub(crate) fn query_rows<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare_statement(sql)?;
        let mut rows = statement.query(params_from_iter(params))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(&DbRow::Sqlite(row))?);
        }
        Ok(found)
    }

    pub(crate) fn query_first<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&DbRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.prepare_statement(sql)?;
        let mut rows = statement.query(params_from_iter(params))?;
        rows.next()?.map(|row| read(&DbRow::Sqlite(row))).transpose()
    }

    /// The number of the next run. No other process can take it: the transaction has the write lock.
    pub(crate) fn next_run_number(&self) -> Result<i64, StoreError> {
        let sql = "select coalesce(max(number), 0) + 1 from run";
        Ok(self.prepare_statement(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Moves the log into the database. Returns `true` if the log has grown so large that [`Sqlite::restart_log`] is due.
    /// A failure is ignored: the next checkpoint, or opening the database, makes up for it.
    pub(crate) fn run_checkpoint(&self) -> bool {
        let log = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
        log.is_ok_and(|pages| pages > MAX_LOG_PAGES)
    }

    /// Moves the whole log into the database, so that the next commit overwrites it from its beginning; commits wait
    /// meanwhile. The file keeps its size: writing where blocks are allocated already is faster.
    pub(crate) fn restart_log(&self) {
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
    }

    /// Whether the transaction may assume the state of a run instead of reading its row ([`write_assumed_run`]). Whoever asks
    /// assumes it then.
    pub(crate) fn may_assume(&self) -> bool {
        let may_assume = self.may_assume.get();
        self.has_assumed.set(may_assume);
        may_assume
    }

    /// Runs `work` in a transaction. If it assumed something and fails, it runs again without, because a wrong assumption can be
    /// the cause.
    pub(crate) fn run_transaction(&self, mut work: impl FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.has_assumed.set(false);
        self.may_assume.set(true);
        let committed = self.attempt_transaction(&mut work);
        self.may_assume.set(false);
        match committed {
            Err(error) if self.has_assumed.get() && !error.is_outage() => self.attempt_transaction(&mut work),
            done => done,
        }
    }

    fn attempt_transaction(&self, work: &mut impl FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let committed = self.execute_sql("BEGIN IMMEDIATE", &[]).and_then(|_| work());
        // Writes to a file that was deleted are lost, and SQLite would not report it.
        let committed = committed.and_then(|()| self.file.check_place());
        let committed = committed.and_then(|()| self.execute_sql("COMMIT", &[]).map(drop));
        if committed.is_err() {
            // There is nothing to roll back if BEGIN failed.
            let _ = self.run_script("ROLLBACK");
        }
        committed
    }

    /// Same as [`Sqlite::run_transaction`] on the connection of the writer; `None` if the transaction has to wait, for another
    /// process that holds the write lock, or for the end of an outage.
    pub(crate) fn try_transaction_now(
        &self,
        work: impl FnMut() -> Result<(), StoreError>,
    ) -> Option<Result<(), StoreError>> {
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let committed = self.run_transaction(work);
        let _ = self.connection.busy_timeout(WRITER_BUSY_TIMEOUT);
        let has_to_wait = committed.as_ref().is_err_and(StoreError::is_outage);
        (!has_to_wait).then_some(committed)
    }
}

impl MigratedDatabase for Sqlite {
    fn execute_statement(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.execute_sql(sql, params).map(drop)
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

    #[test]
    fn a_version_that_stays_the_same_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("test.db");
        let sqlite = Sqlite::open(&file).expect("a database");
        sqlite.run_script("create table t (a); PRAGMA user_version=7").expect("changed");
        // The counter of changes in the header.
        let count = || std::fs::read(&file).expect("readable")[24..28].to_vec();
        let before = count();
        sqlite.run_transaction(|| sqlite.rewrite_version()).expect("written");
        assert_ne!(count(), before);
        assert_eq!(
            sqlite.connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).expect("a number"),
            7
        );
    }
}
