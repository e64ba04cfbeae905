//! SQLite: opening and migrating the file, statements, commits and checkpoints.

use std::path::Path;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use rusqlite::{CachedStatement, ErrorCode, params_from_iter};

use super::{Error, Param, Row};
use crate::Durability;

/// Version of the schema; a database with a higher version is rejected.
const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Scripts that migrate the schema from each version to the next.
const MIGRATIONS: [&str; 7] = [
    include_str!("../schema.sql"),
    include_str!("../schema-2.sql"),
    include_str!("../schema-3.sql"),
    include_str!("../schema-4.sql"),
    include_str!("../schema-5.sql"),
    include_str!("../schema-6.sql"),
    include_str!("../schema-7.sql"),
];

/// How long a statement waits for another process that writes.
const BUSY: Duration = Duration::from_secs(10);

/// Size of the write-ahead log, in pages, above which a checkpoint blocks commits (64 MB). Otherwise steady writing
/// would let the log grow without bound.
const LOG_PAGES: i64 = 8192;

/// A connection to a database file.
pub(crate) struct Sqlite(rusqlite::Connection);

impl Sqlite {
    pub(crate) fn open(file: &Path) -> Result<Sqlite, Error> {
        let connection = rusqlite::Connection::open(file)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Sqlite(connection))
    }

    /// Sets how durable commits of this connection are.
    pub(crate) fn endure(&self, durability: Durability) -> Result<(), Error> {
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
            Durability::Off | Durability::Memory => "OFF",
        };
        self.run(&format!("PRAGMA synchronous={synchronous}"))
    }

    /// Turns off automatic checkpoints; [`Sqlite::checkpoint`] runs them instead.
    pub(crate) fn without_checkpoints(&self) -> Result<(), Error> {
        self.run("PRAGMA wal_autocheckpoint=0")
    }

    /// Executes statements outside a transaction.
    pub(crate) fn run(&self, sql: &str) -> Result<(), Error> {
        Ok(self.0.execute_batch(sql)?)
    }

    /// Migrates an empty or older database to [`SCHEMA`]. Fails with `StoreNewer` if the database has a higher version.
    pub(crate) fn migrate(&self, file: &Path) -> Result<(), Error> {
        let version = || self.0.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        let found = version()?;
        if found > SCHEMA {
            let message = format!(
                "{} has schema version {found}, but this program supports at most {SCHEMA}; use a newer flowloom or \
                 another --data-dir",
                file.display()
            );
            return Err(StepError::new(Code::StoreNewer, message).into());
        }
        if found == SCHEMA {
            return Ok(());
        }
        // An empty database has nothing to lose in a power failure, so creating it need not wait for the disk.
        self.run("PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL; BEGIN IMMEDIATE")?;
        let left = MIGRATIONS.iter().skip(usize::try_from(version()?).unwrap_or(0));
        left.copied().try_for_each(|migration| self.run(migration))?;
        self.run(&format!("PRAGMA user_version={SCHEMA}; COMMIT"))
    }

    /// Writes a copy of the current database to a new file.
    pub(crate) fn copy_to(&self, file: &Path) -> Result<(), Error> {
        self.0.execute("VACUUM INTO ?1", [file.to_string_lossy()])?;
        Ok(())
    }

    /// Checks that the file is an intact Flowloom database with a known schema. Fails with `StoreCorrupt`.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |message: String| Err(StepError::new(Code::StoreCorrupt, message).into());
        let found: Result<String, _> = self.0.query_row("PRAGMA integrity_check", [], |row| row.get(0));
        match found.as_deref() {
            Ok("ok") => {}
            Ok(problem) => return refused(format!("the file is damaged: {problem}")),
            Err(error) => return refused(format!("the file is not a SQLite database: {error}")),
        }
        let version: i64 = self.0.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if (1..=SCHEMA).contains(&version) {
            Ok(())
        } else {
            refused(format!("its schema version {version} is not supported"))
        }
    }

    fn prepared(&self, sql: &str) -> Result<CachedStatement<'_>, Error> {
        let statement = self.0.prepare_cached(sql)?;
        // SQLite numbers parameters in order of appearance, whatever their names are.
        debug_assert!((1..=statement.parameter_count()).all(|n| {
            let name = statement.parameter_name(n);
            name == Some(&format!("${n}"))
        }));
        Ok(statement)
    }

    pub(crate) fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        Ok(self.prepared(sql)?.execute(params_from_iter(params))? as u64)
    }

    pub(crate) fn query<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut statement = self.prepared(sql)?;
        let mut rows = statement.query(params_from_iter(params))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(&Row::Sqlite(row))?);
        }
        Ok(found)
    }

    pub(crate) fn first<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut statement = self.prepared(sql)?;
        let mut rows = statement.query(params_from_iter(params))?;
        rows.next()?.map(|row| read(&Row::Sqlite(row))).transpose()
    }

    /// Moves the log into the database. Returns `true` if the log has grown so large that [`Sqlite::truncate`] is due.
    /// A failure is ignored: the next checkpoint, or opening the database, makes up for it.
    pub(crate) fn checkpoint(&self) -> bool {
        let log = self.0.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
        log.is_ok_and(|pages| pages > LOG_PAGES)
    }

    /// Moves the whole log into the database and truncates it; commits wait meanwhile.
    pub(crate) fn truncate(&self) {
        let _ = self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    /// Runs `work` in a transaction.
    pub(crate) fn transact(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let committed = self.execute("BEGIN IMMEDIATE", &[]).and_then(|_| work());
        let committed = committed.and_then(|()| self.execute("COMMIT", &[]).map(drop));
        if committed.is_err() {
            // There is nothing to roll back if BEGIN failed.
            let _ = self.run("ROLLBACK");
        }
        committed
    }

    /// Same as [`Sqlite::transact`]; `None` if another process holds the write lock.
    pub(crate) fn transact_at_once(&self, work: impl FnOnce() -> Result<(), Error>) -> Option<Result<(), Error>> {
        let _ = self.0.busy_timeout(Duration::ZERO);
        let committed = self.transact(work);
        let _ = self.0.busy_timeout(BUSY);
        let is_busy = matches!(&committed, Err(Error::Sqlite(error))
            if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
        (!is_busy).then_some(committed)
    }
}
