//! Converts between events and rows.

use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_runtime::JournalError;

use crate::checksum::{EventColumns, StatusColumns};
use crate::db::{DbConnection, DbRow, params};
use crate::error::{Corruption, StoreError};
use crate::event_row::{EventRow, MAX_EVENTS_PER_RUN};

/// Inserts events of a run, some databases when the transaction commits.
pub(crate) fn insert_events(connection: &DbConnection, run: i64, rows: &[EventRow]) -> Result<(), StoreError> {
    for (hash, content) in rows.iter().filter_map(|row| row.blob.as_ref()) {
        let sql = "insert into blob values ($1, $2) on conflict do nothing";
        connection.execute_unchecked(sql, params![hash, content])?;
    }
    connection.insert_events(run, rows)
}

/// The events of a run after `after`, at most `most`, as they are stored: [`parse_records`] takes longer than reading them,
/// and needs no connection. Fails with `StoreCorrupt` if one is missing.
pub(crate) fn read_events(
    connection: &DbConnection,
    run: RunId,
    after: u64,
    most: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let stored = read_stored_run(connection, run)?;
    let sql = "select event.id, at, path, attempt, kind, data, output, checksum, blob.content from event \
               left join blob on blob.hash = event.output where event.id > $1 and event.id < $2 order by event.id limit $3";
    let first = stored.number.saturating_mul(MAX_EVENTS_PER_RUN);
    let bounds = params![first.saturating_add(after as i64), first.saturating_add(MAX_EVENTS_PER_RUN), most];
    let mut next = after + 1;
    let events = connection.query_rows(sql, bounds, |row| {
        let found = row.get::<i64>(0)?;
        if found != first + next as i64 {
            return Err(missing_event(run, next));
        }
        next += 1;
        StoredEvent::read(row).map_err(|error| damaged_event(run, next - 1, error.to_string()))
    })?;
    if events.len() < most as usize && next <= stored.status_seq {
        // The run may have been deleted after its row was read.
        read_stored_run(connection, run)?;
        return Err(missing_event(run, next));
    }
    Ok(events)
}

fn missing_event(run: RunId, seq: u64) -> StoreError {
    damaged_event(run, seq, "it is missing".to_owned())
}

fn damaged_event(run: RunId, seq: u64, what: String) -> StoreError {
    StoreError::Corrupt(Corruption::Event { run, seq, what })
}

/// The records of the events of a run after `after`. Fails with `StoreCorrupt` if one is damaged.
pub(crate) fn parse_records(events: Vec<StoredEvent>, run: RunId, after: u64) -> Result<Vec<Arc<Record>>, StoreError> {
    let numbered = (after + 1..).zip(events);
    numbered.map(|(seq, event)| parse_record(event, run, seq).map(Arc::new)).collect()
}

fn parse_record(event: StoredEvent, run: RunId, seq: u64) -> Result<Record, StoreError> {
    let corrupt = |what: String| damaged_event(run, seq, what);
    let StoredEvent { at, path, attempt, kind, data, output, checksum, content } = event;
    let columns =
        EventColumns { at, path: &path, attempt, kind: &kind, data: data.as_deref(), output: output.as_deref() };
    if columns.checksum(run, seq) != checksum {
        return Err(corrupt("its checksum is wrong".to_owned()));
    }
    let mut event = parse_event(&kind, data.as_deref()).map_err(|error| corrupt(error.to_string()))?;
    if let (Some(hash), Event::StepFinished { output, .. }) = (output, &mut event) {
        let content = content.ok_or_else(|| corrupt("its output is missing".to_owned()))?;
        if Hash::of_bytes(content.as_bytes()).to_string() != hash {
            return Err(corrupt("its output is damaged".to_owned()));
        }
        *output = Some(parse_value(&content).map_err(|error| corrupt(error.to_string()))?);
    }
    let path = Path::parse(&path).ok_or_else(|| corrupt(format!("{path:?} is not a path")))?;
    Ok(Record { run, seq, at, path, attempt: attempt as u32, event })
}

/// The columns of an event as they are stored.
pub(crate) struct StoredEvent {
    at: u64,
    path: String,
    attempt: u64,
    kind: String,
    data: Option<String>,
    output: Option<String>,
    checksum: i64,
    /// The output, if it is stored on its own.
    content: Option<String>,
}

impl StoredEvent {
    fn read(row: &DbRow<'_>) -> Result<StoredEvent, StoreError> {
        Ok(StoredEvent {
            at: row.get_count(1)?,
            path: row.get(2)?,
            attempt: row.get_count(3)?,
            kind: row.get(4)?,
            data: row.get(5)?,
            output: row.get(6)?,
            checksum: row.get(7)?,
            content: row.get(8)?,
        })
    }
}

fn parse_event(kind: &str, data: Option<&str>) -> Result<Event, serde_json::Error> {
    match data {
        Some(data) if kind == "step_started" => {
            let (kind, target, hash, class) = serde_json::from_str::<(String, Arc<str>, Hash, EffectClass)>(data)?;
            Ok(Event::StepStarted { kind: kind.into(), target, hash, class })
        }
        _ => Event::from_parts(kind, data),
    }
}

/// The columns of a run's row that reading its events needs.
struct RunExtent {
    number: i64,
    /// The run has at least this many events.
    status_seq: u64,
}

/// Fails with `RunNotFound`, or with `StoreCorrupt`.
fn read_stored_run(connection: &DbConnection, run: RunId) -> Result<RunExtent, StoreError> {
    let sql = "select number, status, finished_at, status_seq, status_checksum from run where id = $1";
    let found = connection.query_first(sql, params![&run.to_string()], |row| {
        let status: String = row.get(1)?;
        let finished_at = row.get::<Option<i64>>(2)?.map(|at| at as u64);
        let seq = row.get_count(3)?;
        let columns = StatusColumns { status: &status, finished_at, seq };
        match columns.checksum(run) == row.get::<i64>(4)? {
            true => Ok(RunExtent { number: row.get(0)?, status_seq: seq }),
            false => Err(StoreError::Corrupt(Corruption::RunStatus(run))),
        }
    })?;
    found.ok_or_else(|| JournalError::RunNotFound(run).into())
}
