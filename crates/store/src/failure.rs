//! What errors of databases mean to a person.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use rusqlite::ErrorCode;

/// An error of SQLite with its code and what to do.
pub(crate) fn of_sqlite(error: &rusqlite::Error) -> StepError {
    let (code, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (Code::StoreFull, "free some space and resume the run"),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (Code::StoreReadOnly, "check the permissions of the data folder, or give another --data-dir")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (Code::StoreCorrupt, "restore a backup, or move the file away and start afresh")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Code::StoreLocked, "another program holds the database; end it and try again")
        }
        _ => (Code::StoreFailed, "see the message of the database"),
    };
    StepError::passing(code, format!("{}: {error}; {advice}", code.title()))
}
