//! Where a store keeps its data, and what an acknowledged write survives.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::db::postgres::Database;
use crate::quota::Quotas;

/// The failures that an acknowledged write survives.
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
    /// The durability of acknowledged writes. SQLite only: Postgres commits as its server is configured.
    pub durability: Durability,
    /// The Postgres database to use instead of SQLite.
    pub database: Option<Database>,
    /// How long a process that shares a Postgres database may be silent before others reclaim its runs.
    pub lease: Duration,
    /// Whether a data folder is used that others than its owner can read.
    pub allow_readable: bool,
    /// How much each user may use.
    pub quotas: Quotas,
    /// The runs that this process continues when their workers are dead.
    pub recovery: RecoveryScope,
}

/// Which abandoned runs a process continues. Runs of versions that did not record their configuration are always among
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryScope {
    /// Only runs of the project with this name. Runs of projects without a name, and all runs if this one has none, are of
    /// any project.
    pub project: String,
    /// Only runs that were started under the configuration with this fingerprint, also if they have commands.
    pub config: Option<String>,
}

impl StoreSettings {
    /// Whether the data folder holds the data of users: it does without a server.
    pub(crate) fn keeps_data_in_folder(&self) -> bool {
        self.database.is_none()
    }

    /// Settings for SQLite in a data folder that the caller has made. Who can read it is not checked.
    pub fn for_folder(folder: &Path, durability: Durability) -> StoreSettings {
        StoreSettings {
            folder: folder.to_owned(),
            durability,
            database: None,
            lease: DEFAULT_LEASE,
            allow_readable: true,
            quotas: Quotas::default(),
            recovery: RecoveryScope::default(),
        }
    }
}

/// Default duration of a lease.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// Name of SQLite's file in the data folder.
pub const DATABASE_FILE: &str = "flowloom.db";
