//! An event in its stored form.

use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::render;

use crate::checksum::EventColumns;
use crate::error::StoreError;

/// Size in bytes from which an output is stored by its hash in a table of its own, so that equal outputs are stored
/// once.
const LARGE_OUTPUT_BYTES: usize = 4096;

/// Maximum number of events of a run; events are numbered `run.number * EVENTS + seq`.
pub(crate) const MAX_EVENTS_PER_RUN: i64 = 1 << 32;

/// An event in its stored form.
pub(crate) struct EventRow {
    pub(crate) seq: u64,
    at: u64,
    path: Path,
    attempt: u32,
    pub(crate) kind: &'static str,
    data: Option<String>,
    /// The hash and the content of an output that is stored in a table of its own.
    pub(crate) blob: Option<(String, String)>,
    pub(crate) checksum: i64,
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
            checksum: 0,
        };
        match &record.event {
            Event::StepFinished { output: Some(output), usage, memory, reused, response }
                if output.approximate_bytes() >= LARGE_OUTPUT_BYTES =>
            {
                let (memory, response) = (memory.clone(), response.clone());
                let slim = Event::StepFinished { output: None, usage: *usage, memory, reused: *reused, response };
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
        stored.checksum = stored.as_columns().checksum(record.run, record.seq);
        Ok(stored)
    }

    /// The columns that its checksum covers.
    pub(crate) fn as_columns(&self) -> EventColumns<'_> {
        EventColumns {
            at: self.at,
            path: self.path.as_str(),
            attempt: self.attempt.into(),
            kind: self.kind,
            data: self.data.as_deref(),
            output: self.blob.as_ref().map(|(hash, _)| hash.as_str()),
        }
    }
}
