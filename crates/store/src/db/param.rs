//! Parameters of statements.

use rusqlite::types::{ToSql, ToSqlOutput};

/// A statement parameter. Integers have 64 bits in all databases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Param<'a> {
    Text(Option<&'a str>),
    Int(Option<i64>),
    Bytes(&'a [u8]),
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(bytes: &'a [u8]) -> Param<'a> {
        Param::Bytes(bytes)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Param<'a> {
        Param::Text(Some(text))
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(text: &'a String) -> Param<'a> {
        Param::Text(Some(text))
    }
}

impl<'a> From<Option<&'a str>> for Param<'a> {
    fn from(text: Option<&'a str>) -> Param<'a> {
        Param::Text(text)
    }
}

impl<'a> From<&'a Option<String>> for Param<'a> {
    fn from(text: &'a Option<String>) -> Param<'a> {
        Param::Text(text.as_deref())
    }
}

impl From<i64> for Param<'_> {
    fn from(number: i64) -> Self {
        Param::Int(Some(number))
    }
}

impl From<u64> for Param<'_> {
    fn from(number: u64) -> Self {
        Param::Int(Some(number as i64))
    }
}

impl From<u32> for Param<'_> {
    fn from(number: u32) -> Self {
        Param::Int(Some(i64::from(number)))
    }
}

impl From<Option<i64>> for Param<'_> {
    fn from(number: Option<i64>) -> Self {
        Param::Int(number)
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Param::Text(text) => Ok(text.map_or(ToSqlOutput::from(rusqlite::types::Null), ToSqlOutput::from)),
            Param::Int(number) => number.map_or(Ok(ToSqlOutput::from(rusqlite::types::Null)), |it| Ok(it.into())),
            Param::Bytes(bytes) => Ok(ToSqlOutput::from(*bytes)),
        }
    }
}

/// Builds the parameter list of a statement; the first is `$1`. Parameters must appear in the statement in the order of
/// their numbers.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::db::Param::from($value)),*] };
}
pub(crate) use params;
