//! Translates database errors into messages with an error code and a fix.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use rusqlite::ErrorCode;
use tokio_postgres::error::SqlState;

/// Converts a SQLite error.
pub(crate) fn from_sqlite(error: &rusqlite::Error) -> StepError {
    let (code, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (Code::StoreFull, "free some space and resume the run"),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (Code::StoreReadOnly, "check the permissions of the data folder, or choose another with --data-dir")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (Code::StoreCorrupt, "restore a backup, or move the file away and start afresh")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Code::StoreLocked, "another program has locked the database; stop it and try again")
        }
        _ => (Code::StoreFailed, "see the message of the database"),
    };
    StepError::new_retryable(code, format!("{}: {error}; {advice}", code.title()))
}

/// Converts a Postgres error.
pub(crate) fn from_postgres(error: &tokio_postgres::Error) -> StepError {
    let (code, advice) = match error.code() {
        Some(&SqlState::DISK_FULL) => (Code::StoreFull, "free some space and resume the run"),
        Some(&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::READ_ONLY_SQL_TRANSACTION) => {
            (Code::StoreReadOnly, "the database user may not write; grant it privileges on its schema")
        }
        Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => (Code::StoreCorrupt, "restore a backup"),
        Some(&SqlState::LOCK_NOT_AVAILABLE) => (Code::StoreLocked, "another transaction holds the row; try again"),
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            (Code::StoreFailed, "check the user and password of the database URL")
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => (Code::StoreFailed, "create the database, or configure another"),
        Some(_) => (Code::StoreFailed, "see the message of the database"),
        None => (Code::StoreFailed, "check that the database is running and reachable"),
    };
    // The error's own text omits the cause.
    let why = match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    };
    StepError::new_retryable(code, format!("{}: {why}; {advice}", code.title()))
}

/// Error of a process that no longer holds the lease of a run.
pub(crate) fn ownership_lost() -> StepError {
    StepError::new(Code::OwnershipLost, "another process has taken over the run; this one stops without writing")
}

/// Error for a run that does not exist.
pub(crate) fn run_not_found(run: RunId) -> StepError {
    StepError::new(Code::RunNotFound, format!("there is no run {run}"))
}
