//! The entries that a session writes to Restate's journal: one for each batch of events, and one for its end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_runtime::journal::{Batch, Lease};
use flowloom_runtime::{CommandOutcome, DecidedCommand};
use serde::{Deserialize, Serialize};

use crate::service::SessionEnd;

/// Size in bytes above which a batch is stored elsewhere by its hash, and only its hash is in Restate's journal.
pub(crate) const MAX_INLINE_BYTES: usize = 64 * 1024;

/// An entry of a session in Restate's journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// A batch of events.
    Batch(BatchEntry),
    /// A large batch.
    StoredBatch {
        /// Position of its last event.
        last_seq: u64,
        /// Hash of its JSON.
        hash: Hash,
    },
    /// The end of the session.
    Over(SessionEnd),
}

/// A batch, and the epoch of the lease under which it was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BatchEntry {
    pub(crate) epoch: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) records: Vec<Arc<Record>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    decided: Vec<DecidedEntry>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    releases_lease: bool,
}

/// A decision about a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DecidedEntry {
    id: String,
    /// Why it was rejected; `None` if it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rejected: Option<RejectedEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RejectedEntry {
    code: String,
    message: String,
}

impl BatchEntry {
    pub(crate) fn new(lease: Lease, batch: Batch) -> BatchEntry {
        let decided = |DecidedCommand { id, outcome }| {
            let rejected = match outcome {
                CommandOutcome::Applied => None,
                CommandOutcome::Rejected(StepFailure { code, message, .. }) => {
                    Some(RejectedEntry { code: code.to_string(), message })
                }
            };
            DecidedEntry { id, rejected }
        };
        let Batch { records, decided: decisions, releases_lease, .. } = batch;
        let decided = decisions.into_iter().map(decided).collect();
        BatchEntry { epoch: lease.epoch, records, decided, releases_lease }
    }

    /// A batch whose events are stored.
    pub(crate) fn of_stored(epoch: u64, records: Vec<Arc<Record>>) -> BatchEntry {
        BatchEntry { epoch, records, decided: Vec::new(), releases_lease: false }
    }

    /// The batch as it was made.
    pub(crate) fn to_batch(&self) -> Batch {
        let decided = |entry: &DecidedEntry| {
            let outcome = match &entry.rejected {
                None => CommandOutcome::Applied,
                Some(RejectedEntry { code, message }) => {
                    let code = Code::parse(code).unwrap_or(Code::NothingToDo);
                    CommandOutcome::Rejected(StepFailure::new(code, message))
                }
            };
            DecidedCommand { id: entry.id.clone(), outcome }
        };
        let decided = self.decided.iter().map(decided).collect();
        let records = self.records.clone();
        Batch { records, decided, releases_lease: self.releases_lease, ..Batch::default() }
    }

    /// The part of the batch that may not be stored if the events up to position `seq` are, for a run that is to be driven
    /// further; `None` if it is stored. A decision is stored once, however often it is written.
    pub(crate) fn to_batch_after(&self, seq: u64) -> Option<Batch> {
        if self.last_seq() <= seq && !self.records.is_empty() {
            return None;
        }
        let mut batch = Batch { releases_lease: false, ..self.to_batch() };
        batch.records.retain(|record| record.seq > seq);
        Some(batch)
    }

    /// The ids of the commands that the batch decides about.
    pub(crate) fn decided_ids(&self) -> impl Iterator<Item = String> {
        self.decided.iter().map(|decided| decided.id.clone())
    }

    /// Position of the last event; 0 if there is none.
    pub(crate) fn last_seq(&self) -> u64 {
        self.records.last().map_or(0, |last| last.seq)
    }

    /// Whether the run ends with the batch.
    pub(crate) fn ends_run(&self) -> bool {
        self.records.iter().any(|record| matches!(record.event, Event::RunFinished { .. }))
    }
}

/// The effects in progress, by which entries are named.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    by_start: BTreeMap<u64, StartedEffect>,
    starts: HashMap<(Path, u32), u64>,
}

#[derive(Clone)]
struct StartedEffect {
    path: Path,
    class: EffectClass,
}

impl InFlight {
    /// Takes events into account.
    pub(crate) fn note_records(&mut self, records: &[Arc<Record>]) {
        records.iter().for_each(|record| self.note_record(record));
    }

    fn note_record(&mut self, record: &Record) {
        let attempt = (record.path.clone(), record.attempt);
        match &record.event {
            Event::StepStarted { class, .. } => {
                self.by_start.insert(record.seq, StartedEffect { path: record.path.clone(), class: *class });
                self.starts.insert(attempt, record.seq);
            }
            Event::StepFinished { .. } | Event::StepFailed { .. } | Event::StepAborted { .. } => {
                if let Some(start) = self.starts.remove(&attempt) {
                    self.by_start.remove(&start);
                }
            }
            _ => {}
        }
    }

    /// Whether an effect is in progress that must not be sent twice.
    pub(crate) fn has_at_most_once(&self) -> bool {
        self.by_start.values().any(|started| started.class == EffectClass::AtMostOnce)
    }

    /// The number of first events of a batch after which no effect is in progress that must not be sent twice.
    pub(crate) fn count_until_idle(&self, records: &[Arc<Record>]) -> Option<usize> {
        let mut seen = self.clone();
        let is_idle = |record: &Arc<Record>| {
            seen.note_record(record);
            !seen.has_at_most_once()
        };
        records.iter().position(is_idle).map(|last| last + 1)
    }

    /// The name of the next entry. It depends on earlier entries only, as Restate demands.
    pub(crate) fn next_name(&self) -> String {
        match (self.by_start.first_key_value(), self.by_start.len()) {
            (None, _) => "/".to_owned(),
            (Some((_, first)), 1) => first.path.to_string(),
            (Some((_, first)), count) => format!("{} and {} others", first.path, count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::id::RunId;

    fn batch_of(seqs: &[u64], decided: &[&str]) -> BatchEntry {
        let run = RunId::new(0, [7; 10]);
        let event = Event::RunStarted { epoch: 1 };
        let record = |seq: &u64| Record { run, seq: *seq, at: 0, path: Path::root(), attempt: 0, event: event.clone() };
        let records = seqs.iter().map(|seq| Arc::new(record(seq))).collect();
        let decide = |id: &&str| DecidedCommand { id: (*id).to_owned(), outcome: CommandOutcome::Applied };
        let batch = Batch { decided: decided.iter().map(decide).collect(), ..Batch::with_records(records) };
        BatchEntry::new(Lease { run, epoch: 1 }, batch)
    }

    #[test]
    fn a_batch_is_stored_from_the_first_event_that_is_missing() {
        assert!(batch_of(&[3, 4], &["a"]).to_batch_after(4).is_none());
        let rest = batch_of(&[3, 4], &["a"]).to_batch_after(3).expect("an event is missing");
        assert_eq!((rest.records.len(), rest.decided.len()), (1, 1));
    }

    #[test]
    fn a_decision_without_events_is_stored() {
        let decision = batch_of(&[], &["a"]).to_batch_after(4).expect("it may be missing");
        assert_eq!((decision.records.len(), decision.decided.len()), (0, 1));
    }

    #[test]
    fn a_batch_is_cut_where_no_request_is_in_progress_that_must_not_be_sent_twice() {
        let run = RunId::new(0, [7; 10]);
        let event = |seq, path: &str, event| {
            let path = Path::parse(path).expect("a path");
            Arc::new(Record { run, seq, at: 0, path, attempt: 1, event })
        };
        let started = |seq, path: &str, class| {
            let (kind, target, hash) = ("http".into(), "x".into(), Hash::of_bytes(b"x"));
            event(seq, path, Event::StepStarted { kind, target, hash, class })
        };
        let aborted = |seq, path: &str| event(seq, path, Event::StepAborted { reason: String::new() });
        let mut in_flight = InFlight::default();
        in_flight
            .note_records(&[started(1, "/a", EffectClass::AtMostOnce), started(2, "/b", EffectClass::AtLeastOnce)]);
        assert!(in_flight.has_at_most_once());
        let ends = [aborted(3, "/b"), aborted(4, "/a"), started(5, "/c", EffectClass::AtMostOnce)];
        assert_eq!(in_flight.count_until_idle(&ends), Some(2));
        let continues = [started(3, "/c", EffectClass::AtMostOnce), aborted(4, "/a")];
        assert_eq!(in_flight.count_until_idle(&continues), None);
        in_flight.note_records(&ends[..2]);
        assert!(!in_flight.has_at_most_once());
    }
}
