//! Stores runs, definitions and users' data on SQLite, or on a Postgres database that several processes share.
//!
//! One thread owns the write connection. All jobs queued during a commit form the next commit. [`Durability`]
//! determines what an acknowledged write survives.

mod backup;
mod catalog;
mod db;
mod definitions;
mod failure;
mod hooks;
mod journal;
mod keys;
mod memory;
mod notifications;
mod orphans;
mod owner;
mod prune;
mod readers;
mod rows;
mod schedules;
mod search;
mod started;
mod wishes;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;

pub use backup::restore;
pub use catalog::{RunFilter, RunRow};
pub use db::postgres::Database;
use db::postgres::{Postgres, Process, blocking};
use db::sqlite::Sqlite;
use db::{Connection, Error, Source};
pub use definitions::{Change, Changed, DefinitionKey, DefinitionRow, Kind, NewDefinition, Origin, SHARED, VersionRow};
pub use hooks::HookRow;
pub use keys::KeyRow;
use memory::MemoryRuns;
pub use notifications::{NewNotification, NotificationRow};
pub use orphans::Orphan;
pub use owner::Alone;
use owner::Owner;
pub use prune::Old;
use readers::Readers;
pub use schedules::ScheduleRow;
pub use search::{BROUGHT, BlockQuery, FoundBlock, Unembedded};
pub use started::Started;
use wishes::Mailboxes;
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
pub struct Settings {
    /// The data folder: SQLite's file, and other files of the program.
    pub folder: PathBuf,
    /// What an acknowledged write survives. SQLite only: Postgres commits as its server is configured.
    pub durability: Durability,
    /// The Postgres database to use instead of SQLite.
    pub database: Option<Database>,
    /// How long a process that shares a Postgres database may be silent before others reclaim its runs.
    pub lease: Duration,
}

impl Settings {
    /// Settings for SQLite in a data folder.
    pub fn of(folder: &Path, durability: Durability) -> Settings {
        Settings { folder: folder.to_owned(), durability, database: None, lease: LEASE }
    }
}

/// Default duration of a lease.
pub const LEASE: Duration = Duration::from_secs(15);

/// Name of SQLite's file in the data folder.
pub(crate) const FILE: &str = "flowloom.db";

/// A database with all its runs, definitions and users' data.
pub struct Store {
    folder: PathBuf,
    writer: Writer,
    readers: Readers,
    owner: Arc<Owner>,
    is_leaving: AtomicBool,
    mailboxes: Arc<Mailboxes>,
    vectors: search::Vectors,
    /// The runs, if they are stored in memory.
    runs: Option<MemoryRuns>,
    /// Bundles waiting to be stored in the transaction of their run's first event. Bundles of runs in memory stay here.
    bundles: Mutex<HashMap<Hash, Arc<str>>>,
}

impl Store {
    /// Opens SQLite in the data folder, creating both if necessary.
    pub fn open(folder: &Path, durability: Durability) -> Result<Arc<Store>, StepError> {
        Store::open_with(&Settings::of(folder, durability))
    }

    /// Opens the configured database and migrates its schema. Fails with `StoreReadOnly`, `StoreNewer` or
    /// `StoreFailed`.
    pub fn open_with(settings: &Settings) -> Result<Arc<Store>, StepError> {
        let folder = &settings.folder;
        let made = std::fs::create_dir_all(folder);
        match (&settings.database, made) {
            // Postgres does not need the data folder.
            (Some(database), _) => Store::on_postgres(folder, database, settings.lease),
            (None, Ok(())) => Store::on_sqlite(folder, settings.durability),
            (None, Err(error)) => {
                let message = format!("cannot create the data folder {}: {error}", folder.display());
                Err(StepError::new(Code::StoreReadOnly, message))
            }
        }
    }

    fn on_sqlite(folder: &Path, durability: Durability) -> Result<Arc<Store>, StepError> {
        let file = folder.join(FILE);
        let connection = Sqlite::open(&file)?;
        connection.migrate(&file)?;
        connection.endure(durability)?;
        connection.without_checkpoints()?;
        let connection = Connection::Sqlite(connection);
        search::catch_up(&connection)?;
        let background = Sqlite::open(&file)?;
        background.endure(durability)?;
        let is_quick = durability != Durability::Full;
        let writer = Writer::start(connection, Some(background), is_quick)?;
        let runs = (durability == Durability::Memory).then(MemoryRuns::default);
        Ok(Store::of(folder, writer, Source::Sqlite(file), Owner::with_lock(folder), runs))
    }

    fn on_postgres(folder: &Path, database: &Database, lease: Duration) -> Result<Arc<Store>, StepError> {
        blocking(|| db::postgres::migrate(database))?;
        let process = Process { name: owner::new_name(), lease };
        let writer = Connection::Postgres(Box::new(Postgres::of(database, Some(process.clone()))));
        let writer = Writer::start(writer, None, false)?;
        Ok(Store::of(folder, writer, Source::Postgres(database.clone()), Owner::with_lease(database, process), None))
    }

    fn of(folder: &Path, writer: Writer, source: Source, owner: Owner, runs: Option<MemoryRuns>) -> Arc<Store> {
        Arc::new(Store {
            folder: folder.to_owned(),
            writer,
            readers: Readers::new(source.clone()),
            owner: Arc::new(owner),
            is_leaving: AtomicBool::new(false),
            runs,
            mailboxes: Arc::new(Mailboxes::new(source)),
            vectors: search::Vectors::default(),
            bundles: Mutex::default(),
        })
    }

    /// Locks the data folder for one server; the lock is held as long as the returned value lives. Fails with
    /// `StoreLocked` if another server holds it. Returns `None` on Postgres, which servers may share.
    pub fn serve_alone(&self) -> Result<Option<Alone>, StepError> {
        if self.owner.is_leased() { Ok(None) } else { Alone::with(&self.folder).map(Some) }
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of commits so far, for benchmarks. Each is one fsync under [`Durability::Full`].
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Marks this process as shutting down, so that others can reclaim its runs at once.
    pub async fn leave(&self) -> Result<(), StepError> {
        self.is_leaving.store(true, Ordering::Relaxed);
        match self.owner.farewell() {
            Some(job) => self.writer.submit(job).await,
            None => Ok(()),
        }
    }

    /// Whether this process is shutting down; its runs will continue in other processes.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Name and version of the database, for people.
    pub fn describe(&self) -> Result<String, StepError> {
        self.read_with(Connection::describe)
    }

    /// Size of the database in bytes.
    pub fn bytes(&self) -> Result<u64, StepError> {
        self.read_with(Connection::bytes)
    }

    /// Limits SQLite's file to a number of pages, to simulate a full disk in tests.
    pub fn limit_pages(&self, pages: u32) -> Result<(), StepError> {
        let set = format!("PRAGMA max_page_count={pages}");
        Ok(self.writer.between(|connection| match connection {
            Connection::Sqlite(sqlite) => sqlite.run(&set),
            Connection::Postgres(_) => {
                Err(StepError::new(Code::StoreFailed, "the page limit is supported on SQLite only").into())
            }
        })?)
    }

    fn read_with<T: Send>(&self, read: impl Fn(&Connection) -> Result<T, Error> + Send) -> Result<T, StepError> {
        self.readers.read(read)
    }

    fn bundles(&self) -> MutexGuard<'_, HashMap<Hash, Arc<str>>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(job) = self.owner.farewell() {
            // The writer finishes its queue before it ends.
            drop(self.writer.submit(job));
        }
    }
}
