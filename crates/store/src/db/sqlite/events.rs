//! Inserts events, several with each statement.

use std::sync::LazyLock;

use super::Sqlite;
use crate::checksum::EventColumns;
use crate::db::params;
use crate::error::StoreError;
use crate::event_row::{EventRow, MAX_EVENTS_PER_RUN};

/// Maximum number of events that one statement inserts. Databases prepare a statement for each number of rows.
const MAX_ROWS_PER_INSERT: usize = 4;

/// Number of columns of the table of events.
const EVENT_COLUMN_COUNT: usize = 8;

/// Inserts events of a run.
pub(crate) fn insert_events(sqlite: &Sqlite, run: i64, rows: &[EventRow]) -> Result<(), StoreError> {
    for rows in rows.chunks(MAX_ROWS_PER_INSERT) {
        let mut all = Vec::with_capacity(rows.len() * EVENT_COLUMN_COUNT);
        for row in rows {
            let id = run * MAX_EVENTS_PER_RUN + row.seq as i64;
            let EventColumns { at, path, attempt, kind, data, output } = row.as_columns();
            all.extend_from_slice(params![id, at, path, attempt, kind, data, output, row.checksum]);
        }
        sqlite.execute_sql(&INSERT_EVENTS_SQL[rows.len() - 1], &all)?;
    }
    Ok(())
}

/// The statements that insert events: the first one row, the next one two rows, and so on.
static INSERT_EVENTS_SQL: LazyLock<[String; MAX_ROWS_PER_INSERT]> =
    LazyLock::new(|| std::array::from_fn(|index| insert_events_sql(index + 1)));

/// If a row fails, the transaction is rolled back. With `or fail`, SQLite does not copy every page that the statement changes
/// to be able to undo the statement alone.
fn insert_events_sql(row_count: usize) -> String {
    let values = |row: usize| {
        let numbers = (1..=EVENT_COLUMN_COUNT).map(|column| format!("${}", row * EVENT_COLUMN_COUNT + column));
        format!("({})", numbers.collect::<Vec<_>>().join(", "))
    };
    let rows: Vec<String> = (0..row_count).map(values).collect();
    format!(
        "insert or fail into event (id, at, path, attempt, kind, data, output, checksum) values {}",
        rows.join(", ")
    )
}
