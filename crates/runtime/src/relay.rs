//! The text of answers, carried from the process that drives a run to those that follow it. It is not stored, and may be lost:
//! the output of the step has all of it.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::effects::BoxFuture;
use crate::journal::{Journal, Lease};
use crate::publish::{Delta, SubscribeHandle};

/// Carries text between the processes that share a journal.
pub trait TextRelay: Send + Sync {
    /// Announces that this process drives a run, and sends its text to those that follow it, until it is withdrawn.
    fn announce_run(&self, lease: Lease, text: SubscribeHandle);

    /// Withdraws the announcement under this lease.
    fn withdraw_run(&self, lease: Lease);

    /// The text of a run that another process drives, from now on, until the receiver is dropped. The text so far of answers
    /// in progress comes first.
    fn follow_run(&self, run: RunId) -> UnboundedReceiver<RelayedText>;

    /// Completes when the process that drives the run has withdrawn it. It may never complete: the run may have been withdrawn
    /// before, and a message may be lost.
    fn wait_for_withdrawal(&self, run: RunId) -> BoxFuture<'static, ()>;
}

/// A piece of text from another process.
#[derive(Clone, Debug)]
pub struct RelayedText {
    /// Sequence number of an event at the time of the piece: not before the start of its attempt, and before its end.
    pub seq: u64,
    /// The piece.
    pub delta: Delta,
}

/// The text of a run that another process drives, in order with the run's events.
#[derive(Default)]
pub struct FollowedText {
    /// While a subscriber wants it.
    receiver: Option<UnboundedReceiver<RelayedText>>,
    order: TextOrder,
}

impl FollowedText {
    /// The text after these events, the first ones of the run.
    pub fn after(records: &[Arc<Record>]) -> FollowedText {
        let mut text = FollowedText::default();
        records.iter().for_each(|record| text.note_record(record));
        text
    }

    /// Notes the next event of the run.
    pub fn note_record(&mut self, record: &Record) {
        self.order.note_record(record);
    }

    /// Whether the run is followed.
    pub fn is_following(&self) -> bool {
        self.receiver.is_some()
    }

    /// Follows the run while the text is wanted, if the journal has a relay.
    pub fn follow_while(&mut self, is_wanted: bool, journal: &dyn Journal, run: RunId) {
        match is_wanted {
            true if self.receiver.is_none() => {
                self.receiver = journal.text_relay().map(|relay| relay.follow_run(run));
            }
            true => {}
            false => self.receiver = None,
        }
    }

    /// Waits for text, and returns the part that is ready. Never completes without a relay.
    pub async fn next(&mut self) -> Vec<Delta> {
        let received = match &mut self.receiver {
            Some(receiver) => receiver.recv().await,
            None => None,
        };
        let Some(text) = received else { return pending().await };
        self.order.held.push(text);
        self.order.take_ready()
    }

    /// The text that is ready after the events that were noted last.
    pub fn take_ready(&mut self) -> Vec<Delta> {
        self.order.take_ready()
    }

    /// Whether text waits for an event that is not known yet.
    pub fn is_waiting(&self) -> bool {
        !self.order.held.is_empty()
    }
}

/// Puts text from another process in order with the events of the journal, which take another way: a piece comes after the
/// start of its attempt, before its end, and continues what came before.
#[derive(Default)]
struct TextOrder {
    /// The attempts in progress, with the number of characters that are known of each.
    open: HashMap<(Path, u32), u64>,
    /// Pieces that have arrived before the start of their attempts.
    held: Vec<RelayedText>,
    /// Sequence number of the last event.
    seq: u64,
    /// Sequence number of the event that began the present session. Text of earlier ones is void: another worker starts the
    /// attempt again.
    session_seq: u64,
}

impl TextOrder {
    /// Notes the next event.
    fn note_record(&mut self, record: &Record) {
        self.seq = record.seq;
        let attempt = || (record.path.clone(), record.attempt);
        match record.event {
            Event::StepStarted { .. } | Event::StepResent => {
                self.open.insert(attempt(), 0);
            }
            Event::StepFinished { .. } | Event::StepFailed { .. } | Event::StepAborted { .. } => {
                self.open.remove(&attempt());
            }
            Event::RunStarted { .. } => {
                self.session_seq = record.seq;
                self.open.values_mut().for_each(|characters| *characters = 0);
            }
            _ => {}
        }
    }

    /// The pieces that continue the known text. Those whose attempts have not started remain.
    fn take_ready(&mut self) -> Vec<Delta> {
        let held = std::mem::take(&mut self.held);
        let (ready, early) = held.into_iter().partition(|text| text.seq <= self.seq);
        self.held = early;
        Vec::into_iter(ready).filter_map(|text| self.continue_text(text)).collect()
    }

    /// The new text in a piece; `None` if the attempt is over, or if the piece adds nothing or leaves a gap.
    fn continue_text(&mut self, RelayedText { seq, delta }: RelayedText) -> Option<Delta> {
        if seq < self.session_seq {
            return None;
        }
        let known = self.open.get_mut(&(delta.path.clone(), delta.attempt))?;
        let skipped = usize::try_from(known.checked_sub(delta.offset)?).ok()?;
        let (start, _) = delta.text.char_indices().nth(skipped)?;
        let text = &delta.text[start..];
        let offset = *known;
        *known += text.chars().count() as u64;
        Some(Delta { text: text.into(), offset, ..delta })
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::hash::Hash;
    use flowloom_core::plan::EffectClass;

    use super::*;

    fn make_record(seq: u64, event: Event) -> Record {
        Record { run: RunId::new(0, [0; 10]), seq, at: 0, path: Path::root(), attempt: 1, event }
    }

    fn started(seq: u64) -> Record {
        let hash = Hash::of_bytes(b"");
        let class = EffectClass::AtLeastOnce;
        make_record(seq, Event::StepStarted { kind: "generate".into(), target: "m".into(), hash, class })
    }

    fn finished(seq: u64) -> Record {
        make_record(
            seq,
            Event::StepFinished { output: None, usage: None, memory: Vec::new(), reused: false, response: None },
        )
    }

    fn piece(seq: u64, offset: u64, text: &str) -> RelayedText {
        RelayedText { seq, delta: Delta { path: Path::root(), attempt: 1, offset, text: text.into() } }
    }

    /// The offsets and texts that follow from pieces.
    fn take(order: &mut TextOrder, pieces: &[RelayedText]) -> Vec<(u64, String)> {
        order.held.extend_from_slice(pieces);
        order.take_ready().into_iter().map(|delta| (delta.offset, delta.text.to_string())).collect()
    }

    #[test]
    fn a_piece_waits_for_the_start_of_its_attempt() {
        let mut order = TextOrder::default();
        assert_eq!(take(&mut order, &[piece(1, 0, "ä b")]), []);
        assert_eq!(order.held.len(), 1);
        order.note_record(&started(1));
        assert_eq!(take(&mut order, &[piece(1, 3, " c")]), [(0, "ä b".to_owned()), (3, " c".to_owned())]);
        assert!(order.held.is_empty());
    }

    #[test]
    fn a_piece_after_the_end_of_its_attempt_is_dropped() {
        let mut order = TextOrder::default();
        order.note_record(&started(1));
        order.note_record(&finished(2));
        assert_eq!(take(&mut order, &[piece(1, 0, "late")]), []);
        assert!(order.held.is_empty());
    }

    #[test]
    fn a_text_that_is_sent_again_continues_and_a_gap_waits_for_that() {
        let mut order = TextOrder::default();
        order.note_record(&started(1));
        assert_eq!(take(&mut order, &[piece(1, 0, "ein"), piece(1, 4, "r")]), [(0, "ein".to_owned())]);
        assert_eq!(take(&mut order, &[piece(1, 0, "einer")]), [(3, "er".to_owned())]);
        assert_eq!(take(&mut order, &[piece(1, 0, "einer")]), []);
    }

    #[test]
    fn another_worker_starts_the_text_again() {
        let mut order = TextOrder::default();
        order.note_record(&started(1));
        assert_eq!(take(&mut order, &[piece(1, 0, "first")]), [(0, "first".to_owned())]);
        order.note_record(&make_record(2, Event::RunStarted { epoch: 2 }));
        assert_eq!(take(&mut order, &[piece(1, 0, "old"), piece(2, 0, "second")]), [(0, "second".to_owned())]);
    }
}
