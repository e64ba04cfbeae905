//! The journal and catalog on SQLite.
//!
//! One thread owns the writing connection; everything that was queued while the previous commit ran becomes the next
//! commit. What is acknowledged is on disk as far as [`Durability`] says.

mod catalog;
mod failure;
mod journal;
mod keys;
mod memory;
mod owner;
mod rows;
mod started;
mod wishes;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;
use rusqlite::Connection;

pub use catalog::{RunFilter, RunRow, WorkflowRow};
use failure::failed;
pub use keys::KeyRow;
use memory::MemoryRuns;
use owner::Owner;
pub use started::Started;
use wishes::Mailboxes;
use writer::Writer;

/// Version of the schema; a database with a higher one is refused.
const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// What brings a database from each version to the next.
const MIGRATIONS: [&str; 2] = [include_str!("schema.sql"), include_str!("schema-2.sql")];

/// How long a statement waits for another process that writes.
const BUSY: Duration = Duration::from_secs(10);

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the machine: one fsync per commit.
    Full,
    /// A crash of the process; a power loss may take the last commits, never tear one.
    Normal,
    /// A crash of the process only, without any promise about the machine.
    Off,
    /// Nothing: runs are kept in this process, and of those that have ended the last 10,000.
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

    fn pragma(self) -> &'static str {
        match self {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
            Durability::Off | Durability::Memory => "OFF",
        }
    }
}

/// All runs of one data folder.
pub struct Store {
    folder: PathBuf,
    writer: Writer,
    reader: Mutex<Connection>,
    owner: Owner,
    mailboxes: Arc<Mailboxes>,
    /// The runs, if they are not in the database.
    runs: Option<MemoryRuns>,
    /// Bundles that wait for the first event of their run, to be stored in its transaction; those of runs in memory stay.
    bundles: Mutex<HashMap<Hash, Arc<str>>>,
}

impl Store {
    /// Opens the data folder, making it if it is not there.
    pub fn open(folder: &Path, durability: Durability) -> Result<Arc<Store>, StepError> {
        std::fs::create_dir_all(folder).map_err(|error| {
            StepError::new(Code::StoreReadOnly, format!("the data folder {} cannot be made: {error}", folder.display()))
        })?;
        let file = folder.join("flowloom.db");
        let connection = connect(&file)?;
        migrate(&connection, &file)?;
        let set = format!("PRAGMA synchronous={}", durability.pragma());
        connection.execute_batch(&set).map_err(failed)?;
        let reader = connect(&file)?;
        let background = connect(&file)?;
        background.execute_batch(&set).map_err(failed)?;
        Ok(Arc::new(Store {
            folder: folder.to_owned(),
            writer: Writer::start(connection, background, durability)?,
            reader: Mutex::new(reader),
            owner: Owner::new(folder),
            mailboxes: Arc::new(Mailboxes::new(file)),
            runs: (durability == Durability::Memory).then(MemoryRuns::default),
            bundles: Mutex::default(),
        }))
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Commits so far, for benches: each one is one fsync under [`Durability::Full`].
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Lets the database grow to so many pages only, as a full disk would; for tests.
    pub fn limit_pages(&self, pages: u32) -> Result<(), StepError> {
        let set = format!("PRAGMA max_page_count={pages}");
        self.writer.pragma(&set)
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bundles(&self) -> MutexGuard<'_, HashMap<Hash, Arc<str>>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(file: &Path) -> Result<Connection, StepError> {
    let connection = Connection::open(file).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Brings an empty or older database to [`SCHEMA`].
fn migrate(connection: &Connection, file: &Path) -> Result<(), StepError> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    if version > SCHEMA {
        let message = format!(
            "{} has schema {version}, and this program knows {SCHEMA}; use a newer flowloom, or another --data-dir",
            file.display()
        );
        return Err(StepError::new(Code::StoreNewer, message));
    }
    if version == SCHEMA {
        return Ok(());
    }
    // An empty database holds nothing that a power loss could take, so making it need not wait for the disk.
    connection.execute_batch("PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL; BEGIN IMMEDIATE").map_err(failed)?;
    let now: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    let left = MIGRATIONS.iter().skip(usize::try_from(now).unwrap_or(0));
    let made = left.copied().try_for_each(|migration| connection.execute_batch(migration));
    let made = made.and_then(|()| connection.execute_batch(&format!("PRAGMA user_version={SCHEMA}")));
    made.and_then(|()| connection.execute_batch("COMMIT")).map_err(failed)
}
