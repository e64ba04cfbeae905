//! Inserts events.

use rusqlite::params_from_iter;

use super::Sqlite;
use crate::checksum::EventColumns;
use crate::db::params;
use crate::error::StoreError;
use crate::event_row::{EventRow, MAX_EVENTS_PER_RUN};

/// Inserts one event. A statement for several rows would be slower: SQLite copies every page that it changes, to be able to
/// undo the statement alone.
const INSERT_EVENT_SQL: &str = "insert into event (id, at, path, attempt, kind, data, output, checksum) \
    values ($1, $2, $3, $4, $5, $6, $7, $8)";

/// Inserts events of a run.
pub(crate) fn insert_events(sqlite: &Sqlite, run: i64, rows: &[EventRow]) -> Result<(), StoreError> {
    let mut insert = sqlite.prepare_statement(INSERT_EVENT_SQL)?;
    for row in rows {
        let id = run * MAX_EVENTS_PER_RUN + row.seq as i64;
        let EventColumns { at, path, attempt, kind, data, output } = row.as_columns();
        insert.execute(params_from_iter(params![id, at, path, attempt, kind, data, output, row.checksum]))?;
    }
    Ok(())
}
