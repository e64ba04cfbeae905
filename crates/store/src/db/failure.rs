//! The classes of database errors. Each database classifies its own.

use flowloom_core::code::Code;

/// The classes of database errors, each with an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseFailure {
    Full,
    ReadOnly,
    Corrupt,
    /// Another transaction or program is in the way.
    Locked,
    /// No session can be had.
    Unreachable,
    /// There are sessions, but the server does not do what this program is entitled to.
    Unserved,
    /// A statement that fails each time, whatever an operator does.
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
            DatabaseFailure::Unserved => Code::StoreUnserved,
            DatabaseFailure::Other => Code::StoreFailed,
        }
    }
}

/// The fix of a full disk.
pub(crate) const FREE_SPACE: &str = "free some space; what is in progress continues by itself";
