//! [`Corruption`]: the part of the data that is damaged.

use std::path::PathBuf;

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;

/// The damaged part of the data.
#[derive(Debug, thiserror::Error)]
pub enum Corruption {
    /// A run's bundle is missing.
    #[error("the bundle {0} is missing from the database")]
    MissingBundle(Hash),
    /// A run's bundle does not have its hash.
    #[error("the bundle {0} is damaged: its content has another hash")]
    Bundle(Hash),
    /// A bundle that a run needs.
    #[error("run {run} cannot be read: {what}")]
    BundleOfRun {
        /// The run.
        run: RunId,
        /// The damage of the bundle.
        what: Box<Corruption>,
    },
    /// The first event of a run is missing.
    #[error("run {0} has no run_created event")]
    NotCreated(RunId),
    /// The row of a run fails its checksum.
    #[error("run {0} is damaged: the checksum of its row is wrong")]
    Run(RunId),
    /// The status of a run fails its checksum, or is unknown.
    #[error("run {0} is damaged: the checksum of its status is wrong")]
    RunStatus(RunId),
    /// A column holds a value of another type than in the schema.
    #[error("a row of the database is damaged: {0}")]
    Column(String),
    /// A row of the list of runs has no readable id.
    #[error("row {number} of the list of runs is damaged")]
    RunRow {
        /// Number of the row.
        number: i64,
    },
    /// An event cannot be read.
    #[error("event {seq} of run {run} is damaged: {what}")]
    Event {
        /// The run.
        run: RunId,
        /// Sequence number of the event.
        seq: u64,
        /// The damage.
        what: String,
    },
    /// A memory entry is no JSON value.
    #[error("the memory entry {key:?} is damaged: {what}")]
    Memory {
        /// The key of the entry.
        key: String,
        /// The damage.
        what: String,
    },
    /// A backup cannot be restored.
    #[error("the backup {} cannot be restored: {what}", file.display())]
    Backup {
        /// The file.
        file: PathBuf,
        /// The damage of the backup.
        what: Box<Corruption>,
    },
    /// The file fails SQLite's check.
    #[error("the file is damaged: {0}")]
    File(String),
    /// The file is no database.
    #[error("the file is not a SQLite database: {0}")]
    NotSqlite(#[source] rusqlite::Error),
    /// The file has a schema version that the program does not know.
    #[error("its schema version {0} is not supported; use the version of flowloom that wrote it")]
    SchemaVersion(i64),
    /// The file has no tables.
    #[error(
        "it has no tables: it was copied without its write-ahead log, or is not a database of Flowloom; write backups with \
         flowloom backup, or copy flowloom.db together with flowloom.db-wal while nothing uses them"
    )]
    Empty,
}

impl Corruption {
    /// Advice for the end of the message.
    pub(crate) fn advise_repair(&self) -> &'static str {
        match self {
            // The file may be a backup.
            Corruption::Backup { .. }
            | Corruption::File(_)
            | Corruption::NotSqlite(_)
            | Corruption::SchemaVersion(_)
            | Corruption::Empty => "",
            _ => "; check the database with flowloom doctor, and restore a backup",
        }
    }
}
