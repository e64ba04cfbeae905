//! The journal and catalog on SQLite.
//!
//! One thread owns the writing connection; everything that was queued while the previous commit ran becomes the next
//! commit. What is acknowledged is on disk as far as [`Durability`] says.

mod catalog;
mod db;
mod failure;
mod journal;
mod keys;
mod owner;
mod readers;
mod rows;
mod started;
mod wishes;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;

pub use catalog::{RunFilter, RunRow, WorkflowRow};
use db::sqlite::Sqlite;
use db::{Connection, Error, Source};
pub use keys::KeyRow;
use owner::Owner;
use readers::Readers;
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
}

impl Durability {
    /// The durability called `name`.
    pub fn parse(name: &str) -> Option<Durability> {
        match name {
            "full" => Some(Durability::Full),
            "normal" => Some(Durability::Normal),
            "off" => Some(Durability::Off),
            _ => None,
        }
    }
}

/// All runs of one data folder.
pub struct Store {
    folder: PathBuf,
    writer: Writer,
    readers: Readers,
    owner: Owner,
    mailboxes: Arc<Mailboxes>,
    /// Bundles that wait for the first event of their run, to be stored in its transaction.
    bundles: Mutex<HashMap<Hash, Arc<str>>>,
}

impl Store {
    /// Opens the data folder, making it if it is not there.
    pub fn open(folder: &Path, durability: Durability) -> Result<Arc<Store>, StepError> {
        std::fs::create_dir_all(folder).map_err(|error| {
            StepError::new(Code::StoreReadOnly, format!("the data folder {} cannot be made: {error}", folder.display()))
        })?;
        let file = folder.join("flowloom.db");
        let connection = Sqlite::open(&file)?;
        connection.migrate(&file)?;
        connection.endure(durability)?;
        connection.without_checkpoints()?;
        let background = Sqlite::open(&file)?;
        background.endure(durability)?;
        let source = Source::Sqlite(file);
        let is_quick = durability != Durability::Full;
        Ok(Arc::new(Store {
            folder: folder.to_owned(),
            writer: Writer::start(Connection::Sqlite(connection), Some(background), is_quick)?,
            readers: Readers::new(source.clone()),
            owner: Owner::new(folder),
            mailboxes: Arc::new(Mailboxes::new(source)),
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
        Ok(self.writer.between(|connection| match connection {
            Connection::Sqlite(sqlite) => sqlite.run(&set),
        })?)
    }

    fn read_with<T: Send>(&self, read: impl Fn(&Connection) -> Result<T, Error> + Send) -> Result<T, StepError> {
        self.readers.read(read)
    }

    fn bundles(&self) -> MutexGuard<'_, HashMap<Hash, Arc<str>>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
