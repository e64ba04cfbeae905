//! What an error of SQLite or Postgres means: its class, and the message with a fix.

use flowloom_core::code::Code;
use rusqlite::ErrorCode;
use tokio_postgres::error::{Severity, SqlState};

/// The classes of database errors, each with an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseFailure {
    Full,
    ReadOnly,
    Corrupt,
    Locked,
    Unreachable,
    Other,
}

impl DatabaseFailure {
    /// Its error code.
    pub(crate) fn code(self) -> Code {
        match self {
            DatabaseFailure::Full => Code::StoreFull,
            DatabaseFailure::ReadOnly => Code::StoreReadOnly,
            DatabaseFailure::Corrupt => Code::StoreCorrupt,
            DatabaseFailure::Locked => Code::StoreLocked,
            DatabaseFailure::Unreachable => Code::StoreUnreachable,
            DatabaseFailure::Other => Code::StoreFailed,
        }
    }
}

/// The class of a SQLite error.
pub(crate) fn classify_sqlite(error: &rusqlite::Error) -> DatabaseFailure {
    advise_sqlite(error).0
}

/// The class of a Postgres error.
pub(crate) fn classify_postgres(error: &tokio_postgres::Error) -> DatabaseFailure {
    advise_postgres(error).0
}

/// A SQLite error in words, with the fix.
pub(crate) fn describe_sqlite(error: &rusqlite::Error) -> String {
    let (class, advice) = advise_sqlite(error);
    format!("{}: {error}; {advice}", class.code().title())
}

/// A Postgres error in words, with the fix.
pub(crate) fn describe_postgres(error: &tokio_postgres::Error) -> String {
    let (class, advice) = advise_postgres(error);
    // The error's own text omits the cause.
    let why = match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(reply), _) => reply.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    };
    format!("{}: {why}; {advice}", class.code().title())
}

/// Whether a column holds a value of another type than the schema says.
fn is_wrong_type(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

fn advise_sqlite(error: &rusqlite::Error) -> (DatabaseFailure, &'static str) {
    match error.sqlite_error_code() {
        None if is_wrong_type(error) => {
            (DatabaseFailure::Corrupt, "check the database with flowloom doctor, and restore a backup")
        }
        Some(ErrorCode::DiskFull) => (DatabaseFailure::Full, "free some space and resume the run"),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (DatabaseFailure::ReadOnly, "check the permissions of the data folder, or choose another")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (DatabaseFailure::Corrupt, "restore a backup, or move the file away and start afresh")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (DatabaseFailure::Locked, "another program has locked the database; stop it and try again")
        }
        _ => (DatabaseFailure::Other, "see the message of the database"),
    }
}

fn advise_postgres(error: &tokio_postgres::Error) -> (DatabaseFailure, &'static str) {
    match error.code() {
        Some(&SqlState::DISK_FULL) => (DatabaseFailure::Full, "free some space and resume the run"),
        Some(&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::READ_ONLY_SQL_TRANSACTION) => {
            (DatabaseFailure::ReadOnly, "the database user may not write; grant it privileges on its schema")
        }
        Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => (DatabaseFailure::Corrupt, "restore a backup"),
        Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            (DatabaseFailure::Locked, "another transaction holds the row; try again")
        }
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            (DatabaseFailure::Other, "check the user and password of the database URL")
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => (DatabaseFailure::Other, "create the database, or configure another"),
        Some(
            &SqlState::ADMIN_SHUTDOWN
            | &SqlState::CRASH_SHUTDOWN
            | &SqlState::CANNOT_CONNECT_NOW
            | &SqlState::TOO_MANY_CONNECTIONS,
        ) => (DatabaseFailure::Unreachable, "check that the database is running and accepts connections"),
        Some(_) => (DatabaseFailure::Other, "see the message of the database"),
        None if is_connection_lost(error) => {
            (DatabaseFailure::Unreachable, "check that the database is running and reachable")
        }
        None => (DatabaseFailure::Other, "check the address of the database"),
    }
}

/// Whether a run was inserted that another process has inserted already.
pub(crate) fn is_second_insert_sqlite(error: &rusqlite::Error) -> bool {
    let is_unique =
        error.sqlite_error().is_some_and(|code| code.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE);
    is_unique && error.to_string().contains("run.id")
}

/// The same for Postgres.
pub(crate) fn is_second_insert_postgres(error: &tokio_postgres::Error) -> bool {
    let constraint = error.as_db_error().and_then(|reply| reply.constraint());
    error.code() == Some(&SqlState::UNIQUE_VIOLATION) && constraint == Some("run_id_key")
}

/// Whether this error ended the session.
pub(crate) fn is_connection_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        Some(reply) => matches!(reply.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
        None => {
            let mut cause = std::error::Error::source(error);
            let mut is_io = error.is_closed();
            while let Some(inner) = cause {
                is_io |= inner.is::<std::io::Error>();
                cause = inner.source();
            }
            is_io
        }
    }
}

/// Whether the server rolled back the transaction because of another one, or because it assumed something that another
/// one had changed (which divides by zero).
pub(crate) fn is_transient(error: &tokio_postgres::Error) -> bool {
    let passing = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::DIVISION_BY_ZERO];
    error.code().is_some_and(|code| passing.contains(code))
}
