//! Converts between events and rows.

use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::JournalError;

use crate::db::{DbConnection, DbRow, params};
use crate::error::{Corruption, StoreError};

/// Size in bytes from which an output is stored by its hash in a table of its own, so that equal outputs are stored
/// once.
const LARGE_OUTPUT_BYTES: usize = 4096;

/// Maximum number of events of a run; events are numbered `run.number * EVENTS + seq`.
pub(crate) const MAX_EVENTS_PER_RUN: i64 = 1 << 32;

/// An event in its stored form.
pub(crate) struct EventRow {
    seq: u64,
    at: u64,
    path: Path,
    attempt: u32,
    kind: &'static str,
    data: Option<String>,
    blob: Option<(String, String)>,
}

impl EventRow {
    /// Serialises an event. Done before the writer's turn, so that the writer only binds and executes.
    pub(crate) fn from_record(record: &Record) -> Result<EventRow, StoreError> {
        let mut stored = EventRow {
            seq: record.seq,
            at: record.at,
            path: record.path.clone(),
            attempt: record.attempt,
            kind: record.event.name(),
            data: None,
            blob: None,
        };
        match &record.event {
            Event::StepFinished { output: Some(output), usage, memory }
                if output.approximate_bytes() >= LARGE_OUTPUT_BYTES =>
            {
                let slim = Event::StepFinished { output: None, usage: *usage, memory: memory.clone() };
                let content = render::to_json(output);
                stored.data = slim.data_json().map_err(StoreError::Unserializable)?;
                stored.blob = Some((Hash::of_bytes(content.as_bytes()).to_string(), content));
            }
            // Half of all rows; field names would be a third of what a small step stores.
            Event::StepStarted { kind, target, hash, class } => {
                stored.data =
                    Some(serde_json::to_string(&(kind, target, hash, class)).map_err(StoreError::Unserializable)?);
            }
            event => stored.data = event.data_json().map_err(StoreError::Unserializable)?,
        }
        Ok(stored)
    }

    pub(crate) fn insert_into(&self, connection: &DbConnection, run: i64) -> Result<(), StoreError> {
        if let Some((hash, content)) = &self.blob {
            connection
                .execute_unchecked("insert into blob values ($1, $2) on conflict do nothing", params![hash, content])?;
        }
        let sql = "insert into event (id, at, path, attempt, kind, data, output) values ($1, $2, $3, $4, $5, $6, $7)";
        let id = run * MAX_EVENTS_PER_RUN + self.seq as i64;
        let hash = self.blob.as_ref().map(|(hash, _)| hash.as_str());
        let path = self.path.as_str();
        connection.execute_unchecked(sql, params![id, self.at, path, self.attempt, self.kind, &self.data, hash])
    }
}

/// The events of a run after `after`, at most `most`.
pub(crate) fn read_events(
    connection: &DbConnection,
    run: RunId,
    after: u64,
    most: u32,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let number = read_run_number(connection, run)?;
    let sql = "select event.id, at, path, attempt, kind, data, blob.content from event \
               left join blob on blob.hash = event.output where event.id > $1 and event.id < $2 order by event.id limit $3";
    let bounds = params![number * MAX_EVENTS_PER_RUN + after as i64, (number + 1) * MAX_EVENTS_PER_RUN, most];
    connection.query_rows(sql, bounds, |row| parse_record(row, run).map(Arc::new))
}

fn parse_record(row: &DbRow<'_>, run: RunId) -> Result<Record, StoreError> {
    let seq = (row.get::<i64>(0)? % MAX_EVENTS_PER_RUN) as u64;
    let corrupt = |what: String| StoreError::Corrupt(Corruption::Event { run, seq, what });
    let (path, kind): (String, String) = (row.get(2)?, row.get(4)?);
    let (data, blob): (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
    let mut event = parse_event(&kind, data.as_deref()).map_err(|error| corrupt(error.to_string()))?;
    if let (Some(content), Event::StepFinished { output, .. }) = (blob, &mut event) {
        let value: Value = parse_value(&content).map_err(|error| corrupt(error.to_string()))?;
        *output = Some(value);
    }
    let path = Path::parse(&path).ok_or_else(|| corrupt(format!("{path:?} is no path")))?;
    Ok(Record { run, seq, at: row.get_count(1)?, path, attempt: row.get_count(3)? as u32, event })
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

/// Number of a run. Fails with `RunNotFound`.
pub(crate) fn read_run_number(connection: &DbConnection, run: RunId) -> Result<i64, StoreError> {
    let found =
        connection.query_first("select number from run where id = $1", params![&run.to_string()], |row| row.get(0))?;
    found.ok_or_else(|| JournalError::RunNotFound(run).into())
}
