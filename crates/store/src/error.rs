//! [`StoreError`]: what can go wrong with the database, and the messages that people see.

use std::path::PathBuf;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::{Retry, StepFailure};
use flowloom_core::id::RunId;
use flowloom_runtime::JournalError;
use flowloom_runtime::causes::log_causes;

pub use crate::corruption::Corruption;
use crate::damage::Damage;
use crate::db::failure::DatabaseFailure;
use crate::db::postgres::failure as postgres_failure;
use crate::db::sqlite::failure as sqlite_failure;
use crate::quota::QuotaExceeded;

/// An error of the store.
///
/// # Examples
///
/// ```
/// use flowloom_core::code::Code;
/// use flowloom_store::{Database, StoreError};
///
/// let error = Database::parse("mysql://localhost").expect_err("not Postgres");
/// assert!(matches!(error, StoreError::InvalidUrl));
/// assert_eq!(error.code(), Code::ConfigInvalid);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite refused a statement.
    #[error("{}", sqlite_failure::describe_error(.0))]
    Sqlite(#[from] rusqlite::Error),
    /// Postgres refused a statement or cannot be reached.
    #[error("{}", postgres_failure::describe_error(source, server, *is_connecting))]
    Postgres {
        /// Hosts and ports of the server.
        server: Arc<str>,
        /// Whether there was no session yet.
        is_connecting: bool,
        /// The cause.
        source: tokio_postgres::Error,
    },
    /// The connection to Postgres was lost.
    #[error("the connection to the database at {server} was lost; check that it is running and reachable")]
    ConnectionLost {
        /// Hosts and ports of the server.
        server: Arc<str>,
    },
    /// The connection to Postgres was lost during a commit.
    #[error(
        "the connection to the database at {server} was lost during a commit, so its outcome is unknown; resume the run \
         when the database is reachable"
    )]
    CommitUnknown {
        /// Hosts and ports of the server.
        server: Arc<str>,
        /// Number of the commit.
        number: i64,
    },
    /// Postgres is connected and does not answer.
    #[error(
        "the database at {server} does not answer{}; look for locks and load, and check that it is running", if *is_commit {
        ", and whether it has stored this is unknown" } else { "" }
    )]
    Unanswered {
        /// Hosts and ports of the server.
        server: Arc<str>,
        /// Whether the request may be stored, now or later.
        is_commit: bool,
    },
    /// The database was locked or could not be reached for as long as the operation may wait. Several operations share
    /// the error.
    #[error("{0}")]
    Outage(Arc<StoreError>),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// A thread of the store cannot be started.
    #[error("cannot start the thread that {purpose}: {source}")]
    Thread {
        /// The purpose of the thread.
        purpose: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A value cannot be written as JSON.
    #[error("{0}")]
    Unserializable(#[source] serde_json::Error),
    /// A file or folder cannot be created, or not written.
    #[error("cannot {what} {}: {source}", path.display())]
    NotCreated {
        /// The action that failed, for example `create the database`.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The path of the data folder is that of a file.
    #[error("the data folder {} is a file; move the file away", .0.display())]
    FolderIsFile(PathBuf),
    /// The URL is no Postgres URL. The message omits the parser's words, because they may quote a part of the password.
    #[error(
        "invalid database URL; expected postgres://USER:PASSWORD@HOST:PORT/NAME; in the password, write characters such \
         as @ : / ? as %40 %3A %2F %3F"
    )]
    InvalidUrl,
    /// The URL has an unknown `sslmode`.
    #[error("invalid sslmode in the database URL; expected disable, require or verify-full")]
    InvalidSslMode,
    /// The file of the open database is not at its path any more.
    #[error(
        "the database file {file} {what}, so nothing can be stored any more; put it back, or end this program and start it \
         again", file = file.display(), what = if *.is_replaced { "was replaced by another" } else { "was deleted or moved" }
    )]
    FileGone {
        /// The file.
        file: PathBuf,
        /// Whether there is another file at its path.
        is_replaced: bool,
    },
    /// Others than its owner have rights at the data folder.
    #[error(
        "other users can read the data folder {folder} (mode {mode:03o}); run: chmod -R go= {folder}",
        folder = folder.display()
    )]
    ReadableByOthers {
        /// The folder.
        folder: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A newer program migrated the database.
    #[error(
        "{database} has schema version {found}, but this program supports at most {supported}; use a newer flowloom"
    )]
    Newer {
        /// The database.
        database: String,
        /// Its schema version.
        found: i64,
        /// The schema version of this program.
        supported: i64,
        /// Whether it is the file of a data folder, and another folder would do.
        is_file: bool,
    },
    /// The data is damaged.
    #[error("{0}{advice}", advice = .0.advise_repair())]
    Corrupt(Corruption),
    /// The journal refuses.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run has an event at this position. Databases refuse it with an error of their own.
    #[error("run {run} has an event {seq} already")]
    EventExists {
        /// The run.
        run: RunId,
        /// The position.
        seq: u64,
    },
    /// Another run of the conversation is in progress.
    #[error(
        "the conversation already has a turn in progress (run {0}); wait until it ends, or decide about it if it is \
         uncertain or quarantined"
    )]
    ThreadBusy(RunId),
    /// The same call under an idempotency key has stored its command or started its run first.
    #[error("another server has already handled the request with this Idempotency-Key")]
    KeyBound,
    /// Another server claimed the schedule first.
    #[error("another server has already claimed the schedule")]
    ScheduleClaimed,
    /// No run has an id that starts with this text.
    #[error("there is no run {0}; list the runs with flowloom runs")]
    NoRunMatches(String),
    /// The database has no runs.
    #[error("there are no runs yet")]
    NoRuns,
    /// Several runs have ids that start with this text.
    #[error("{prefix} matches several runs: {}; give more of the id", runs.join(", "))]
    RunAmbiguous {
        /// The text.
        prefix: String,
        /// Ids of the first few of them.
        runs: Vec<String>,
    },
    /// An object does not exist, or belongs to another user.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// The kind of the object.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// No key has this id or name, or it was revoked.
    #[error("there is no active key {0}; list the keys with flowloom keys list")]
    KeyNotFound(String),
    /// Several keys have this name.
    #[error("several keys are named {name}: {}; give the id of one", ids.join(", "))]
    KeyAmbiguous {
        /// The name.
        name: String,
        /// Ids of the keys.
        ids: Vec<String>,
    },
    /// A definition cannot be deleted, because something uses it.
    #[error("the {kind} {id} is used by {}", users.join(", "))]
    StillUsed {
        /// Kind of the definition.
        kind: &'static str,
        /// Its id.
        id: String,
        /// The definitions that use it.
        users: Vec<String>,
    },
    /// A definition exists that must not.
    #[error("the {kind} {id} exists already; choose another id, or send its ETag in If-Match to change it")]
    DefinitionExists {
        /// Kind of the definition.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// A definition does not have the content that a change requires.
    #[error(
        "the {kind} {id} does not have the content that the request requires; read it again, and repeat the change"
    )]
    ConditionFailed {
        /// Kind of the definition.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// A name, an id or a key contains a character that Postgres does not store.
    #[error("a name, an id or a key contains a null character, which the database cannot store; leave it out")]
    NullCharacter,
    /// A quota of a user is used up.
    #[error("{0}")]
    Quota(QuotaExceeded),
    /// Another server uses the data folder.
    #[error(
        "another server uses the data folder {}; servers share a Postgres database, but no folder", .0.display()
    )]
    FolderInUse(PathBuf),
    /// A backup cannot be written or restored.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The page limit is supported on SQLite only.
    #[error("the page limit is supported on SQLite only")]
    NoPageLimit,
}

/// Why a backup cannot be written or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file to write exists.
    #[error("{} already exists; a backup does not overwrite files", .0.display())]
    Exists(PathBuf),
    /// The backup to restore does not exist.
    #[error("the backup {} does not exist", .0.display())]
    Missing(PathBuf),
    /// The data folder has a database.
    #[error("{} already exists; a restore replaces it only on request", .0.display())]
    DatabaseExists(PathBuf),
    /// Rows of the backup are damaged.
    #[error("the backup {} is damaged: {}; restore another one", file.display(), Damage::join_problems(damages))]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The damages found.
        damages: Vec<Damage>,
    },
    /// A process uses the data folder.
    #[error("{} is in use; stop the server and the runs first", .0.display())]
    InUse(PathBuf),
    /// The backup cannot be written.
    #[error("cannot write the backup {}: {source}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file cannot be copied or renamed.
    #[error("cannot restore the backup {} into {}: {source}", file.display(), folder.display())]
    Unrestorable {
        /// The backup.
        file: PathBuf,
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The database is Postgres.
    #[error("the database is Postgres; use pg_dump and pg_restore instead")]
    Postgres,
}

impl StoreError {
    /// Whether the read data is damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            StoreError::Corrupt(_) => true,
            StoreError::Outage(error) => error.is_damage(),
            StoreError::Journal(error) => error.is_damage(),
            _ => self.database_failure() == Some(DatabaseFailure::Corrupt),
        }
    }

    /// Whether the file of the database cannot be changed.
    pub fn is_read_only(&self) -> bool {
        self.database_failure() == Some(DatabaseFailure::ReadOnly)
    }

    /// Whether another transaction or program is in the way.
    pub(crate) fn is_locked(&self) -> bool {
        self.database_failure() == Some(DatabaseFailure::Locked)
    }

    /// The class of a failure of SQLite or Postgres itself.
    fn database_failure(&self) -> Option<DatabaseFailure> {
        match self {
            StoreError::Sqlite(error) => Some(sqlite_failure::classify_error(error)),
            StoreError::Postgres { source, is_connecting, .. } => {
                Some(postgres_failure::classify_error(source, *is_connecting))
            }
            StoreError::Outage(error) => error.database_failure(),
            _ => None,
        }
    }

    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            StoreError::Sqlite(error) => sqlite_failure::classify_error(error).code(),
            StoreError::Postgres { source, is_connecting, .. } => {
                postgres_failure::classify_error(source, *is_connecting).code()
            }
            StoreError::ConnectionLost { .. } | StoreError::CommitUnknown { .. } | StoreError::Unanswered { .. } => {
                Code::StoreUnreachable
            }
            StoreError::Outage(error) => error.code(),
            StoreError::Closed
            | StoreError::Thread { .. }
            | StoreError::Unserializable(_)
            | StoreError::NoPageLimit
            | StoreError::EventExists { .. }
            | StoreError::Backup(BackupError::Unrestorable { .. } | BackupError::Unwritable { .. }) => {
                Code::StoreFailed
            }
            StoreError::NotCreated { .. } => Code::StoreReadOnly,
            StoreError::FileGone { .. } => Code::StoreGone,
            StoreError::ReadableByOthers { .. } => Code::DataReadable,
            StoreError::FolderIsFile(_) => Code::ConfigInvalid,
            StoreError::InvalidUrl | StoreError::InvalidSslMode => Code::ConfigInvalid,
            StoreError::Newer { .. } => Code::StoreNewer,
            StoreError::Corrupt(_) | StoreError::Backup(BackupError::Damaged { .. }) => Code::StoreCorrupt,
            StoreError::ThreadBusy(_) | StoreError::KeyBound | StoreError::ScheduleClaimed => Code::RunOwned,
            StoreError::Journal(error) => error.code(),
            StoreError::NoRunMatches(_) | StoreError::NoRuns => Code::RunNotFound,
            StoreError::RunAmbiguous { .. } => Code::RunAmbiguous,
            StoreError::NotFound { .. } => Code::NotThere,
            StoreError::KeyNotFound(_) => Code::KeyUnknown,
            StoreError::KeyAmbiguous { .. } => Code::UsageInvalid,
            StoreError::StillUsed { .. } => Code::StillUsed,
            StoreError::ConditionFailed { .. } | StoreError::DefinitionExists { .. } => Code::PreconditionFailed,
            StoreError::NullCharacter => Code::RequestInvalid,
            StoreError::Quota(_) => Code::QuotaExceeded,
            StoreError::FolderInUse(_) | StoreError::Backup(BackupError::InUse(_)) => Code::StoreLocked,
            StoreError::Backup(
                BackupError::Exists(_)
                | BackupError::Missing(_)
                | BackupError::DatabaseExists(_)
                | BackupError::Postgres,
            ) => Code::UsageInvalid,
        }
    }

    /// The error of reading a run: if its bundle is damaged, which other runs may need too, it names the run.
    pub fn of_run(self, run: RunId) -> StoreError {
        match self {
            StoreError::Corrupt(what @ (Corruption::MissingBundle(_) | Corruption::Bundle(_))) => {
                StoreError::Corrupt(Corruption::BundleOfRun { run, what: Box::new(what) })
            }
            error => error,
        }
    }

    /// Whether the same operation may succeed later.
    pub fn retry(&self) -> Retry {
        match self {
            StoreError::Sqlite(_)
            | StoreError::Postgres { .. }
            | StoreError::ConnectionLost { .. }
            | StoreError::CommitUnknown { .. }
            | StoreError::Unanswered { .. }
            | StoreError::Outage(_) => Retry::Maybe,
            _ => Retry::Never,
        }
    }

    /// Whether the database cannot be reached or cannot store, so that the same operation may succeed later.
    pub fn is_unavailable(&self) -> bool {
        match self {
            StoreError::ConnectionLost { .. }
            | StoreError::CommitUnknown { .. }
            | StoreError::Unanswered { .. }
            | StoreError::Outage(_)
            | StoreError::Closed
            | StoreError::Thread { .. }
            | StoreError::NotCreated { .. } => true,
            _ => self.database_failure().is_some_and(|failure| failure != DatabaseFailure::Corrupt),
        }
    }

    /// Whether an operator can repair this outside of the program, so that waiting helps.
    pub(crate) fn is_outage(&self) -> bool {
        self.code().is_store_outage()
    }

    /// Whether a session cannot be used any more: it was lost, or it keeps a property of the server, such as being
    /// read-only, that a new session may not have.
    pub(crate) fn is_session_spoiled(&self) -> bool {
        self.is_connection_lost() || self.is_outage() && !self.is_transient()
    }

    /// Whether it is not known if a commit has happened.
    pub fn is_commit_unknown(&self) -> bool {
        match self {
            StoreError::CommitUnknown { .. } | StoreError::Unanswered { is_commit: true, .. } => true,
            StoreError::Outage(cause) => cause.is_commit_unknown(),
            _ => false,
        }
    }

    /// Whether the connection was lost; a new connection may succeed.
    pub(crate) fn is_connection_lost(&self) -> bool {
        match self {
            StoreError::Postgres { source, .. } => postgres_failure::is_connection_lost(source),
            StoreError::Unanswered { .. } => true,
            _ => false,
        }
    }

    /// Whether the database hangs: it does not answer, or another client has locked a table.
    pub(crate) fn is_hang(&self) -> bool {
        match self {
            StoreError::Unanswered { .. } => true,
            StoreError::Postgres { source, .. } => postgres_failure::is_lock_timeout(source),
            _ => false,
        }
    }

    /// Whether the same transaction may succeed on a retry.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, StoreError::Postgres { source, .. } if postgres_failure::is_transient(source))
    }
}

impl From<StoreError> for StepFailure {
    /// The failure as a run records it and as people see it. The causes go to the log.
    fn from(error: StoreError) -> StepFailure {
        log_causes(error.code(), &error);
        StepFailure { code: error.code(), message: error.to_string(), retry: error.retry() }
    }
}

impl StoreError {
    /// Whether a run was inserted that another process has inserted under the same id.
    fn is_second_insert(&self) -> bool {
        match self {
            StoreError::Sqlite(error) => sqlite_failure::is_second_insert(error),
            StoreError::Postgres { source, .. } => postgres_failure::is_second_insert(source),
            _ => false,
        }
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> JournalError {
        match error {
            StoreError::Journal(error) => error,
            error if error.is_second_insert() => JournalError::OwnershipLost,
            error if error.is_commit_unknown() => JournalError::InDoubt(error.into()),
            error if error.is_unavailable() => JournalError::Unavailable(error.into()),
            error if error.is_damage() => JournalError::Damaged(error.into()),
            error @ StoreError::FileGone { .. } => JournalError::Gone(error.into()),
            error => JournalError::Failed(error.into()),
        }
    }
}
