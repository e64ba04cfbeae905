//! The journal and catalog on SQLite, or on a Postgres that several processes share.
//!
//! One thread owns the writing connection; everything that was queued while the previous commit ran becomes the next
//! commit. What is acknowledged is on disk as far as [`Durability`] says.

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
    /// A crash of the process; a power loss may take the last commits, never tear one.
    Normal,
    /// A crash of the process only, without any promise about the machine.
    Off,
    /// Nothing: runs are kept in this process, and of those that have ended the last thousand.
    Memory,
}

impl Durability {
    /// The durability called `name`.
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

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data folder: SQLite's file, and what the program keeps beside it.
    pub folder: PathBuf,
    /// What an acknowledged write survives; of SQLite. Postgres waits for the disk as it is configured itself.
    pub durability: Durability,
    /// The Postgres in the place of SQLite.
    pub database: Option<Database>,
    /// How long a process that shares a Postgres may be silent until others take up its runs.
    pub lease: Duration,
}

impl Settings {
    /// SQLite in a data folder.
    pub fn of(folder: &Path, durability: Durability) -> Settings {
        Settings { folder: folder.to_owned(), durability, database: None, lease: LEASE }
    }
}

/// The usual lease.
pub const LEASE: Duration = Duration::from_secs(15);

/// SQLite's file in the data folder.
pub(crate) const FILE: &str = "flowloom.db";

/// All runs of one database.
pub struct Store {
    folder: PathBuf,
    writer: Writer,
    readers: Readers,
    owner: Arc<Owner>,
    is_leaving: AtomicBool,
    mailboxes: Arc<Mailboxes>,
    vectors: search::Vectors,
    /// The runs, if they are not in the database.
    runs: Option<MemoryRuns>,
    /// Bundles that wait for the first event of their run, to be stored in its transaction; those of runs in memory stay.
    bundles: Mutex<HashMap<Hash, Arc<str>>>,
}

impl Store {
    /// Opens SQLite in the data folder, making it if it is not there.
    pub fn open(folder: &Path, durability: Durability) -> Result<Arc<Store>, StepError> {
        Store::open_with(&Settings::of(folder, durability))
    }

    /// Opens the database that the settings name, making its tables if they are not there.
    pub fn open_with(settings: &Settings) -> Result<Arc<Store>, StepError> {
        let folder = &settings.folder;
        let made = std::fs::create_dir_all(folder);
        match (&settings.database, made) {
            // What is beside the database is not needed for it.
            (Some(database), _) => Store::on_postgres(folder, database, settings.lease),
            (None, Ok(())) => Store::on_sqlite(folder, settings.durability),
            (None, Err(error)) => {
                let message = format!("the data folder {} cannot be made: {error}", folder.display());
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

    /// Keeps other servers from this data folder as long as what it gives lives; `StoreLocked` if there is one. Servers
    /// may share a Postgres.
    pub fn serve_alone(&self) -> Result<Option<Alone>, StepError> {
        if self.owner.is_leased() { Ok(None) } else { Alone::with(&self.folder).map(Some) }
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Commits so far, for benches: each one is one fsync under [`Durability::Full`].
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Says that this process ends, so that others take up at once what it leaves.
    pub async fn leave(&self) -> Result<(), StepError> {
        self.is_leaving.store(true, Ordering::Relaxed);
        match self.owner.farewell() {
            Some(job) => self.writer.submit(job).await,
            None => Ok(()),
        }
    }

    /// Whether this process ends: what is given up now goes on elsewhere.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Which database this is, for people.
    pub fn describe(&self) -> Result<String, StepError> {
        self.read_with(Connection::describe)
    }

    /// How many bytes the database has.
    pub fn bytes(&self) -> Result<u64, StepError> {
        self.read_with(Connection::bytes)
    }

    /// Lets SQLite's file grow to so many pages only, as a full disk would; for tests.
    pub fn limit_pages(&self, pages: u32) -> Result<(), StepError> {
        let set = format!("PRAGMA max_page_count={pages}");
        Ok(self.writer.between(|connection| match connection {
            Connection::Sqlite(sqlite) => sqlite.run(&set),
            Connection::Postgres(_) => {
                Err(StepError::new(Code::StoreFailed, "a Postgres has no pages to limit").into())
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
            // The writer does what is queued before it ends.
            drop(self.writer.submit(job));
        }
    }
}
