//! Stores runs, definitions and users' data on SQLite, or on a Postgres database that several processes share.
//!
//! One thread owns the write connection. All jobs queued during a commit form the next commit. [`Durability`]
//! determines what an acknowledged write survives.

mod abandoned;
mod backup;
mod catalog;
mod db;
mod definitions;
mod failure;
mod hooks;
mod idempotency;
mod journal;
mod keys;
mod memory_runs;
mod notifications;
mod prune;
mod readers;
mod rows;
mod schedules;
mod search;
mod signals;
mod worker;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;

pub use abandoned::AbandonedRun;
pub use backup::restore_backup;
pub use catalog::{RunFilter, RunRow};
pub use db::postgres::Database;
use db::postgres::{Postgres, WorkerIdentity, run_blocking};
use db::sqlite::Sqlite;
use db::{DbConnection, DbError, DbSource};
pub use definitions::{
    ChangeResult, DefinitionChange, DefinitionKey, DefinitionKind, DefinitionRow, NewDefinition, Origin, SHARED_USER,
    VersionRow,
};
pub use hooks::HookRow;
pub use idempotency::IdempotentStart;
pub use keys::KeyRow;
use memory_runs::MemoryRuns;
pub use notifications::{NewNotification, NotificationRow};
pub use prune::PruneFilter;
use readers::Readers;
pub use schedules::ScheduleRow;
pub use search::{BUILTIN_USER, BlockQuery, FoundBlock, UnembeddedText};
use signals::Mailboxes;
use worker::LocalWorker;
pub use worker::ServerLock;
use writer::Writer;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the machine: one fsync per commit.
    Full,
    /// A crash of the process. A power failure may lose the last commits, but never tears one.
    Normal,
    /// A crash of the process; no promise about a crash of the machine.
    Off,
    /// Nothing: runs stay in this process's memory, and only the last thousand finished runs are retained.
    Memory,
}

impl Durability {
    /// Parses a setting: `full`, `normal`, `off` or `memory`.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_store::Durability;
    ///
    /// assert_eq!(Durability::parse("full"), Some(Durability::Full));
    /// assert_eq!(Durability::parse("safe"), None);
    /// ```
    pub fn parse(name: &str) -> Option<Durability> {
        match name {
            "full" => Some(Durability::Full),
            "normal" => Some(Durability::Normal),
            "off" => Some(Durability::Off),
            "memory" => Some(Durability::Memory),
            _ => None,
        }
    }
}

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The data folder: SQLite's file, and other files of the program.
    pub folder: PathBuf,
    /// What an acknowledged write survives. SQLite only: Postgres commits as its server is configured.
    pub durability: Durability,
    /// The Postgres database to use instead of SQLite.
    pub database: Option<Database>,
    /// How long a process that shares a Postgres database may be silent before others reclaim its runs.
    pub lease: Duration,
}

impl StoreSettings {
    /// Settings for SQLite in a data folder.
    pub fn for_folder(folder: &Path, durability: Durability) -> StoreSettings {
        StoreSettings { folder: folder.to_owned(), durability, database: None, lease: DEFAULT_LEASE }
    }
}

/// Default duration of a lease.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// Name of SQLite's file in the data folder.
pub(crate) const DATABASE_FILE: &str = "flowloom.db";

/// A database with all its runs, definitions and users' data.
pub struct Store {
    folder: PathBuf,
    writer: Writer,
    readers: Readers,
    worker: Arc<LocalWorker>,
    is_leaving: AtomicBool,
    mailboxes: Arc<Mailboxes>,
    vectors: search::VectorCache,
    /// The runs, if they are stored in memory.
    runs: Option<MemoryRuns>,
    /// Bundles waiting to be stored in the transaction of their run's first event. Bundles of runs in memory stay here.
    bundles: Mutex<HashMap<Hash, Arc<str>>>,
}

impl Store {
    /// Opens SQLite in the data folder, creating both if necessary.
    pub fn open(folder: &Path, durability: Durability) -> Result<Arc<Store>, StepError> {
        Store::open_with(&StoreSettings::for_folder(folder, durability))
    }

    /// Opens the configured database and migrates its schema. Fails with `StoreReadOnly`, `StoreNewer` or
    /// `StoreFailed`.
    pub fn open_with(settings: &StoreSettings) -> Result<Arc<Store>, StepError> {
        let folder = &settings.folder;
        let made = std::fs::create_dir_all(folder);
        match (&settings.database, made) {
            // Postgres does not need the data folder.
            (Some(database), _) => Store::open_postgres(folder, database, settings.lease),
            (None, Ok(())) => Store::open_sqlite(folder, settings.durability),
            (None, Err(error)) => {
                let message = format!("cannot create the data folder {}: {error}", folder.display());
                Err(StepError::new(Code::StoreReadOnly, message))
            }
        }
    }

    fn open_sqlite(folder: &Path, durability: Durability) -> Result<Arc<Store>, StepError> {
        let file = folder.join(DATABASE_FILE);
        let connection = Sqlite::open(&file)?;
        connection.migrate_schema(&file)?;
        connection.set_durability(durability)?;
        connection.disable_auto_checkpoints()?;
        let connection = DbConnection::Sqlite(connection);
        search::index_missing_blocks(&connection)?;
        let background = Sqlite::open(&file)?;
        background.set_durability(durability)?;
        let is_quick = durability != Durability::Full;
        let writer = Writer::start_thread(connection, Some(background), is_quick)?;
        let runs = (durability == Durability::Memory).then(MemoryRuns::default);
        Ok(Store::from_parts(folder, writer, DbSource::Sqlite(file), LocalWorker::with_lock(folder), runs))
    }

    fn open_postgres(folder: &Path, database: &Database, lease: Duration) -> Result<Arc<Store>, StepError> {
        run_blocking(|| db::postgres::migrate_schema(database))?;
        let process = WorkerIdentity { name: worker::new_worker_name(), lease };
        let writer = DbConnection::Postgres(Box::new(Postgres::for_worker(database, Some(process.clone()))));
        let writer = Writer::start_thread(writer, None, false)?;
        Ok(Store::from_parts(
            folder,
            writer,
            DbSource::Postgres(database.clone()),
            LocalWorker::with_lease(database, process),
            None,
        ))
    }

    fn from_parts(
        folder: &Path,
        writer: Writer,
        source: DbSource,
        worker: LocalWorker,
        runs: Option<MemoryRuns>,
    ) -> Arc<Store> {
        Arc::new(Store {
            folder: folder.to_owned(),
            writer,
            readers: Readers::new(source.clone()),
            worker: Arc::new(worker),
            is_leaving: AtomicBool::new(false),
            runs,
            mailboxes: Arc::new(Mailboxes::new(source)),
            vectors: search::VectorCache::default(),
            bundles: Mutex::default(),
        })
    }

    /// Locks the data folder for one server; the lock is held as long as the returned value lives. Fails with
    /// `StoreLocked` if another server holds it. Returns `None` on Postgres, which servers may share.
    pub fn lock_for_server(&self) -> Result<Option<ServerLock>, StepError> {
        if self.worker.is_leased() { Ok(None) } else { ServerLock::acquire_in(&self.folder).map(Some) }
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of commits so far, for benchmarks. Each is one fsync under [`Durability::Full`].
    pub fn commit_count(&self) -> u64 {
        self.writer.commit_count()
    }

    /// Marks this process as shutting down, so that others can reclaim its runs at once.
    pub async fn announce_shutdown(&self) -> Result<(), StepError> {
        self.is_leaving.store(true, Ordering::Relaxed);
        match self.worker.shutdown_job() {
            Some(job) => self.writer.submit_job(job).await,
            None => Ok(()),
        }
    }

    /// Whether this process is shutting down; its runs will continue in other processes.
    pub fn is_shutting_down(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Name and version of the database, for people.
    pub fn describe_database(&self) -> Result<String, StepError> {
        self.read_with(DbConnection::describe_database)
    }

    /// Size of the database in bytes.
    pub fn size_bytes(&self) -> Result<u64, StepError> {
        self.read_with(DbConnection::size_bytes)
    }

    /// Limits SQLite's file to a number of pages, to simulate a full disk in tests.
    pub fn limit_pages(&self, pages: u32) -> Result<(), StepError> {
        let set = format!("PRAGMA max_page_count={pages}");
        Ok(self.writer.with_connection(|connection| match connection {
            DbConnection::Sqlite(sqlite) => sqlite.run_script(&set),
            DbConnection::Postgres(_) => {
                Err(StepError::new(Code::StoreFailed, "the page limit is supported on SQLite only").into())
            }
        })?)
    }

    fn read_with<T: Send>(&self, read: impl Fn(&DbConnection) -> Result<T, DbError> + Send) -> Result<T, StepError> {
        self.readers.run_read(read)
    }

    fn lock_bundles(&self) -> MutexGuard<'_, HashMap<Hash, Arc<str>>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(job) = self.worker.shutdown_job() {
            // The writer finishes its queue before it ends.
            drop(self.writer.submit_job(job));
        }
    }
}
