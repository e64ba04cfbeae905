//! Events as rows, and rows as events.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::render;
use flowloom_core::value::Value;
use rusqlite::{Connection, Row, params};

use crate::failure::failed;

/// Outputs from this size up are stored once, by their hash, however often they occur.
const LARGE: usize = 4096;

/// Runs below a database: each has 2^32 events at most.
const EVENTS: i64 = 1 << 32;

/// An event as it is stored.
pub(crate) struct Stored {
    seq: u64,
    at: u64,
    path: Path,
    attempt: u32,
    kind: &'static str,
    data: Option<String>,
    blob: Option<(String, String)>,
}

impl Stored {
    /// Writes an event out; done before the writer's turn, so that it only has to bind and step.
    pub(crate) fn of(record: &Record) -> Result<Stored, StepError> {
        let invalid = |error: serde_json::Error| StepError::new(Code::StoreFailed, error.to_string());
        let mut stored = Stored {
            seq: record.seq,
            at: record.at,
            path: record.path.clone(),
            attempt: record.attempt,
            kind: record.event.name(),
            data: None,
            blob: None,
        };
        match &record.event {
            Event::StepFinished { output: Some(output), usage, memory } if output.weight() >= LARGE => {
                let slim = Event::StepFinished { output: None, usage: *usage, memory: memory.clone() };
                let content = render::json(output);
                stored.data = slim.data().map_err(invalid)?;
                stored.blob = Some((Hash::of(content.as_bytes()).to_string(), content));
            }
            // Half of all rows: the names of their fields would be a third of what is stored of a small step.
            Event::StepStarted { kind, target, hash, class } => {
                stored.data = Some(serde_json::to_string(&(kind, target, hash, class)).map_err(invalid)?);
            }
            event => stored.data = event.data().map_err(invalid)?,
        }
        Ok(stored)
    }

    pub(crate) fn insert(&self, connection: &Connection, run: i64) -> rusqlite::Result<()> {
        if let Some((hash, content)) = &self.blob {
            let mut statement = connection.prepare_cached("insert or ignore into blob values (?, ?)")?;
            statement.execute(params![hash, content])?;
        }
        let sql = "insert into event (id, at, path, attempt, kind, data, output) values (?, ?, ?, ?, ?, ?, ?)";
        let id = run * EVENTS + self.seq as i64;
        let hash = self.blob.as_ref().map(|(hash, _)| hash);
        connection.prepare_cached(sql)?.execute(params![
            id,
            self.at as i64,
            self.path.as_str(),
            self.attempt,
            self.kind,
            self.data,
            hash
        ])?;
        Ok(())
    }
}

/// The events of a run after `after`, until they have more than `enough` bytes.
pub(crate) fn read(
    connection: &Connection,
    run: RunId,
    after: u64,
    enough: usize,
) -> Result<Vec<Arc<Record>>, StepError> {
    let number = number(connection, run)?;
    let sql = "select event.id, at, path, attempt, kind, data, blob.content from event \
               left join blob on blob.hash = event.output where event.id > ? and event.id < ? order by event.id";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let bounds = params![number * EVENTS + after as i64, (number + 1) * EVENTS];
    let mut rows = statement.query(bounds).map_err(failed)?;
    let mut records = Vec::new();
    let mut bytes = 0;
    while bytes <= enough
        && let Some(row) = rows.next().map_err(failed)?
    {
        bytes += size(row).map_err(failed)?;
        records.push(Arc::new(record(row, run)?));
    }
    Ok(records)
}

/// Bytes of what an event holds.
fn size(row: &Row<'_>) -> rusqlite::Result<usize> {
    let length = |column| row.get_ref(column).map(|value| value.as_bytes().map_or(0, <[u8]>::len));
    Ok(length(5)? + length(6)?)
}

fn record(row: &Row<'_>, run: RunId) -> Result<Record, StepError> {
    let columns = || -> rusqlite::Result<_> {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, u32>(3)?,
            row.get::<_, String>(4)?,
            row.get::<_, Option<String>>(5)?,
            row.get::<_, Option<String>>(6)?,
        ))
    };
    let (id, at, path, attempt, kind, data, blob) = columns().map_err(failed)?;
    let seq = (id % EVENTS) as u64;
    let corrupt = |what: String| {
        let message = format!("event {seq} of run {run} is damaged: {what}; restore a backup");
        StepError::new(Code::StoreCorrupt, message)
    };
    let mut event = event(&kind, data.as_deref()).map_err(|error| corrupt(error.to_string()))?;
    if let (Some(content), Event::StepFinished { output, .. }) = (blob, &mut event) {
        let value: Value = parse_value(&content).map_err(|error| corrupt(error.to_string()))?;
        *output = Some(value);
    }
    let path = Path::parse(&path).ok_or_else(|| corrupt(format!("{path:?} is no path")))?;
    Ok(Record { run, seq, at: at as u64, path, attempt, event })
}

fn event(kind: &str, data: Option<&str>) -> Result<Event, serde_json::Error> {
    match data {
        Some(data) if kind == "step_started" => {
            let (kind, target, hash, class) = serde_json::from_str::<(String, Arc<str>, Hash, EffectClass)>(data)?;
            Ok(Event::StepStarted { kind: kind.into(), target, hash, class })
        }
        _ => Event::from_parts(kind, data),
    }
}

/// The number of a run.
pub(crate) fn number(connection: &Connection, run: RunId) -> Result<i64, StepError> {
    let mut statement = connection.prepare_cached("select number from run where id = ?").map_err(failed)?;
    let number = statement.query_row([run.to_string()], |row| row.get(0));
    match number {
        Ok(number) => Ok(number),
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            Err(StepError::new(Code::RunNotFound, format!("there is no run {run}")))
        }
        Err(error) => Err(failed(error)),
    }
}
