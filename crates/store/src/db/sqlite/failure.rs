//! Classifies errors of SQLite, and writes their messages with a fix.

use rusqlite::ErrorCode;

use crate::db::failure::{DatabaseFailure, FREE_SPACE};

/// The class of a SQLite error.
pub(crate) fn classify_error(error: &rusqlite::Error) -> DatabaseFailure {
    advise_repair(error).0
}

/// A SQLite error in words, with the fix.
pub(crate) fn describe_error(error: &rusqlite::Error) -> String {
    let (class, advice) = advise_repair(error);
    format!("{}: {error}; {advice}", class.code().title())
}

/// Whether a column holds a value of another type than in the schema.
fn is_wrong_type(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

fn advise_repair(error: &rusqlite::Error) -> (DatabaseFailure, &'static str) {
    match error.sqlite_error_code() {
        None if is_wrong_type(error) => {
            (DatabaseFailure::Corrupt, "check the database with flowloom doctor, and restore a backup")
        }
        Some(ErrorCode::DiskFull) => (DatabaseFailure::Full, FREE_SPACE),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (DatabaseFailure::ReadOnly, "check the permissions of the data folder")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (DatabaseFailure::Corrupt, "restore a backup, or move the file away and start afresh")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            (DatabaseFailure::Locked, "another program has locked the database; stop it and try again")
        }
        Some(ErrorCode::SystemIoFailure) => {
            (DatabaseFailure::Unserved, "check the disk and the file system of the data folder")
        }
        Some(ErrorCode::OutOfMemory) => (DatabaseFailure::Unserved, "free some memory"),
        _ => (DatabaseFailure::Other, "see the message of the database"),
    }
}

/// Whether a run was inserted that another process has inserted already.
pub(crate) fn is_second_insert(error: &rusqlite::Error) -> bool {
    let is_unique =
        error.sqlite_error().is_some_and(|code| code.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE);
    is_unique && error.to_string().contains("run.id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_sqlite_is_repaired_from_outside() {
        use rusqlite::ffi;
        let class = |code| classify_error(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        let outages = [
            ffi::SQLITE_BUSY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_FULL,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_PERM,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_IOERR,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_NOMEM,
            ffi::SQLITE_PROTOCOL,
        ];
        for code in outages {
            assert!(class(code).code().is_store_outage(), "{code}: {:?}", class(code));
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_CONSTRAINT, ffi::SQLITE_ERROR] {
            assert!(!class(code).code().is_store_outage(), "{code}: {:?}", class(code));
        }
    }
}
