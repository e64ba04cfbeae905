//! Classifies errors of Postgres, and writes their messages with a fix.

use tokio_postgres::error::{Severity, SqlState};

use crate::db::failure::{DatabaseFailure, FREE_SPACE};

const CHECK_SERVER: &str = "check that it is running, and reachable from this machine";

const WRITABLE_SERVER: &str = "it is a standby, or default_transaction_read_only is on; connect to the primary (several \
     hosts with target_session_attrs=read-write find it), or turn the setting off";

/// The class of a Postgres error.
pub(crate) fn classify_error(error: &tokio_postgres::Error, is_connecting: bool) -> DatabaseFailure {
    advise_repair(error, is_connecting).0
}

/// An error of the Postgres at `server` in words, with the fix.
pub(crate) fn describe_error(error: &tokio_postgres::Error, server: &str, is_connecting: bool) -> String {
    let (class, advice) = advise_repair(error, is_connecting);
    // The error's own text omits the cause.
    let why = match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(reply), _) => reply.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    };
    format!("{}: {why} (Postgres at {server}); {advice}", class.code().title())
}

fn advise_repair(error: &tokio_postgres::Error, is_connecting: bool) -> (DatabaseFailure, &'static str) {
    match error.code().map(advise_state) {
        // Whatever the state is, the server has ended the session.
        Some((DatabaseFailure::Other, _)) | None if is_connection_lost(error) => {
            (DatabaseFailure::Unreachable, CHECK_SERVER)
        }
        Some(advised) => advised,
        None if is_connecting => (DatabaseFailure::Unreachable, "check its address, and sslmode and its certificate"),
        None => (DatabaseFailure::Other, "see the message of the driver"),
    }
}

/// Decides about every class of SQLSTATE. Everything that an operator repairs outside of this program, without a change of
/// the data, is an outage. Other errors mean that a statement fails each time: a value or a constraint (21, 22, 23, 44),
/// the program, its statement or its schema (0A, 24, 42 but what an operator takes away, 54), or an aborted transaction
/// (25, 2D, 40 but those that pass).
fn advise_state(state: &SqlState) -> (DatabaseFailure, &'static str) {
    use DatabaseFailure::{Corrupt, Full, Locked, Other, ReadOnly, Unreachable, Unserved};
    match *state {
        SqlState::DISK_FULL => (Full, FREE_SPACE),
        SqlState::READ_ONLY_SQL_TRANSACTION => (ReadOnly, WRITABLE_SERVER),
        SqlState::INSUFFICIENT_PRIVILEGE => {
            (ReadOnly, "the database user may not do this; grant it privileges on its schema and tables")
        }
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => (Corrupt, "restore a backup"),
        SqlState::LOCK_NOT_AVAILABLE | SqlState::OBJECT_IN_USE => {
            (Locked, "another transaction holds the row or table; end it")
        }
        SqlState::QUERY_CANCELED => {
            (Locked, "another program cancelled the statement, or statement_timeout passed; look for locks and load")
        }
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
            (Locked, "other transactions are in the way; end them")
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            (Unreachable, "raise max_connections (or the limit of the user), or close other connections")
        }
        SqlState::INVALID_CATALOG_NAME | SqlState::DATABASE_DROPPED => {
            (Unreachable, "create or restore the database, or configure another")
        }
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            (Unserved, "the tables are missing; restore the database, or correct its search_path")
        }
        // A pooler gave the session away, or the server reset it.
        SqlState::INVALID_SQL_STATEMENT_NAME => {
            (Unserved, "connect without a pooler, or use one that keeps sessions or their prepared statements")
        }
        ref state => match state.code().get(..2) {
            Some("08") => (Unreachable, CHECK_SERVER),
            Some("28") => (Unreachable, "check the user and password of the database URL, and pg_hba.conf"),
            Some("57") => (Unreachable, "wait until it accepts connections, or start it"),
            Some("53") => (Unserved, "the server lacks memory or another resource; see its log"),
            Some("55" | "58" | "F0" | "XX") => (Unserved, "the server reports a failure of its own; see its log"),
            _ => (Other, "see the message of the database"),
        },
    }
}

/// Whether a run was inserted that another process has inserted already.
pub(crate) fn is_second_insert(error: &tokio_postgres::Error) -> bool {
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

/// Whether a statement waited for a lock for as long as it may.
pub(crate) fn is_lock_timeout(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the server rolled back the transaction because of another one, or because it assumed something that another
/// one had changed (which divides by zero).
pub(crate) fn is_transient(error: &tokio_postgres::Error) -> bool {
    let passing = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::DIVISION_BY_ZERO];
    error.code().is_some_and(|code| passing.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state that an operator can cause and repair, and some that only a change of the program or the data repairs.
    #[test]
    fn what_an_operator_repairs_is_an_outage() {
        let outages = [
            "08000", "08003", "08006", "08P01", "25006", "26000", "28000", "28P01", "3D000", "3F000", "40001", "40P01",
            "42501", "42P01", "53000", "53100", "53200", "53300", "53400", "55000", "55006", "55P03", "57000", "57014",
            "57P01", "57P02", "57P03", "57P04", "57P05", "58000", "58030", "58P01", "F0000", "XX000",
        ];
        for state in outages {
            let (class, advice) = advise_state(&SqlState::from_code(state));
            assert!(class.code().is_store_outage() && !advice.is_empty(), "{state}: {class:?}");
        }
        for state in ["0A000", "21000", "22001", "22012", "23505", "25001", "25P02", "42601", "42703", "54000", "XX001"]
        {
            let (class, _) = advise_state(&SqlState::from_code(state));
            assert!(!class.code().is_store_outage(), "{state}: {class:?}");
        }
    }

    #[test]
    fn the_advice_names_the_repair() {
        let advice = |state: &str| advise_state(&SqlState::from_code(state)).1;
        assert!(advice("53300").contains("max_connections") && !advice("53300").contains("is running"));
        assert!(advice("25006").contains("standby") && advice("25006").contains("default_transaction_read_only"));
        assert!(advice("28P01").contains("password"));
        assert!(advice("57014").contains("statement_timeout"));
    }
}
