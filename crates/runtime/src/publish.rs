//! Hands what happens to any number of subscribers. Buffers are bounded: a subscriber that is too slow for the live
//! stream is told how far it fell behind and reads the journal from there, so that nobody slows the run or its memory.
//!
//! A subscriber that comes later knows from which event on it hears everything, and hears the text so far of the answers
//! that are under way, so that nothing is lost or doubled.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;

use crate::effects::Deltas;

/// Signals kept for a subscriber that is slow.
const BUFFER: usize = 4096;

/// Events that wait at most until a subscriber is woken, while the run does not pause: waking one takes longer than a
/// many small steps.
const BATCH: usize = 512;

/// Something a subscriber hears.
#[derive(Clone, Debug)]
pub enum Signal {
    /// An event that is stored.
    Event(Arc<Record>),
    /// Text of an answer as it arrives; not stored.
    Delta {
        /// The step.
        path: Path,
        /// The attempt.
        attempt: u32,
        /// Characters (code points) of the attempt's text that stand before it. At 0 the text begins: for one who
        /// subscribed later, with everything so far.
        offset: u64,
        /// The text that follows.
        text: Arc<str>,
    },
}

/// What a subscription gives next.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The next signal.
    Signal(Signal),
    /// So many signals were missed; the journal has the events among them.
    Missed(u64),
}

/// The sending side of a run's signals. The last signal is out when its last clone is gone.
#[derive(Clone, Default)]
pub struct Publisher {
    shared: Arc<Shared>,
}

/// Lets more subscribers in while the run goes on, without keeping it alive.
#[derive(Clone)]
pub struct Listen(Weak<Shared>);

impl Listen {
    /// A new subscription, from now on and with the text so far of answers under way; `None` if the last signal is out.
    pub fn subscribe(&self) -> Option<Subscription> {
        Some(Publisher { shared: self.0.upgrade()? }.subscribe())
    }
}

/// What all clones of a publisher share.
#[derive(Default)]
struct Shared {
    hub: Mutex<Hub>,
}

#[derive(Default)]
struct Hub {
    /// Each takes room for what it holds and no more: a thousand runs with a subscriber each must not cost a thousand
    /// full buffers.
    queues: Vec<Arc<Queue>>,
    /// The number of the last event that was told.
    seq: u64,
    /// Whether someone may come later, who will want the text so far.
    is_open: bool,
    /// The text so far of each attempt under way.
    texts: HashMap<(Path, u32), Text>,
}

/// The text of an attempt so far.
#[derive(Default)]
struct Text {
    text: String,
    characters: u64,
}

#[derive(Default)]
struct Queue {
    state: Mutex<Waiting>,
}

/// What a subscriber has not heard yet.
#[derive(Default)]
struct Waiting {
    signals: VecDeque<Signal>,
    missed: u64,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Publisher {
    /// The publisher of a run whose events up to number `seq` were told before.
    pub(crate) fn after(seq: u64) -> Publisher {
        let publisher = Publisher::default();
        publisher.shared.hub().seq = seq;
        publisher
    }

    /// Tells everyone about stored events; they hear them at the next [`Publisher::wake`] at the latest.
    pub(crate) fn publish(&self, records: &[Arc<Record>]) {
        let mut hub = self.shared.hub();
        records.iter().for_each(|record| hub.note(record));
        hub.send(records.iter().map(|record| Signal::Event(record.clone())), BATCH);
    }

    /// Wakes everyone for whom there is something.
    pub(crate) fn wake(&self) {
        self.shared.hub().queues.iter().for_each(|queue| queue.push(std::iter::empty(), 1));
    }

    /// A new subscription, from now on and with the text so far of answers under way.
    pub fn subscribe(&self) -> Subscription {
        let queue = Arc::new(Queue::default());
        let mut hub = self.shared.hub();
        let so_far = |((path, attempt), said): (&(Path, u32), &Text)| Signal::Delta {
            path: path.clone(),
            attempt: *attempt,
            offset: 0,
            text: said.text.as_str().into(),
        };
        let mut texts: Vec<_> = hub.texts.iter().collect();
        texts.sort_by_key(|(attempt, _)| *attempt);
        let taken = texts.into_iter().map(so_far).collect();
        hub.queues.push(queue.clone());
        Subscription { queue, taken, after: hub.seq }
    }

    /// What lets subscribers in later.
    pub(crate) fn listen(&self) -> Listen {
        self.shared.hub().is_open = true;
        Listen(Arc::downgrade(&self.shared))
    }

    /// What takes the text of answers as it arrives.
    pub(crate) fn deltas(&self) -> Arc<dyn Deltas> {
        self.shared.clone()
    }
}

impl Shared {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    fn send(&mut self, signals: impl Iterator<Item = Signal> + Clone, batch: usize) {
        // A queue that only this list holds has lost its subscriber.
        self.queues.retain(|queue| Arc::strong_count(queue) > 1);
        self.queues.iter().for_each(|queue| queue.push(signals.clone(), batch));
    }

    /// Learns from an event: an attempt that is over has no text under way.
    fn note(&mut self, record: &Record) {
        self.seq = record.seq;
        let is_over =
            matches!(record.event, Event::StepFinished { .. } | Event::StepFailed { .. } | Event::StepAborted { .. });
        if is_over && !self.texts.is_empty() {
            self.texts.remove(&(record.path.clone(), record.attempt));
        }
    }
}

impl Deltas for Shared {
    fn push(&self, path: &Path, attempt: u32, text: &str) {
        let mut hub = self.hub();
        if hub.queues.is_empty() && !hub.is_open {
            return;
        }
        let said = hub.texts.entry((path.clone(), attempt)).or_default();
        let offset = said.characters;
        said.text.push_str(text);
        said.characters += text.chars().count() as u64;
        if hub.queues.is_empty() {
            return;
        }
        let text: Arc<str> = text.into();
        let delta = || Signal::Delta { path: path.clone(), attempt, offset, text: text.clone() };
        hub.send(std::iter::once_with(delta), 1);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.hub().queues.iter().for_each(|queue| queue.close());
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds signals, and wakes the subscriber if `batch` of them wait.
    fn push(&self, signals: impl Iterator<Item = Signal>, batch: usize) {
        let mut state = self.state();
        for signal in signals {
            if state.signals.len() == BUFFER {
                state.signals.pop_front();
                state.missed += 1;
            }
            state.signals.push_back(signal);
        }
        let waker = if state.signals.len() >= batch { state.waker.take() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The receiving side.
pub struct Subscription {
    queue: Arc<Queue>,
    /// Taken out of the queue at once, so that the run and its subscriber seldom meet at its lock.
    taken: VecDeque<Signal>,
    after: u64,
}

impl Subscription {
    /// The number of the last event that is not heard: all that follow it are, in their order. Those before it are in the
    /// journal.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// The next thing heard; `None` after the run's last signal.
    pub async fn next(&mut self) -> Option<Heard> {
        if let Some(signal) = self.taken.pop_front() {
            return Some(Heard::Signal(signal));
        }
        poll_fn(|context| {
            let mut state = self.queue.state();
            if state.missed > 0 {
                return Poll::Ready(Some(Heard::Missed(std::mem::take(&mut state.missed))));
            }
            std::mem::swap(&mut self.taken, &mut state.signals);
            if let Some(signal) = self.taken.pop_front() {
                return Poll::Ready(Some(Heard::Signal(signal)));
            }
            if state.is_closed {
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::event::Event;
    use flowloom_core::id::RunId;

    use super::*;

    fn record(seq: u64) -> Arc<Record> {
        let run = RunId::new(0, [0; 10]);
        Arc::new(Record { run, seq, at: 0, path: Path::root(), attempt: 0, event: Event::StepUncertain })
    }

    #[test]
    fn a_slow_subscriber_hears_what_it_missed() {
        let publisher = Publisher::default();
        let mut subscription = publisher.subscribe();
        drop(publisher.subscribe());
        let records: Vec<_> = (1..=BUFFER as u64 + 3).map(record).collect();
        publisher.publish(&records);
        publisher.deltas().push(&Path::root(), 1, "text");
        drop(publisher);
        let mut next = || {
            let mut context = std::task::Context::from_waker(Waker::noop());
            match std::pin::pin!(subscription.next()).poll(&mut context) {
                Poll::Ready(heard) => heard,
                Poll::Pending => panic!("everything is there"),
            }
        };
        assert!(matches!(next(), Some(Heard::Missed(4))));
        for seq in 5..=BUFFER as u64 + 3 {
            assert!(matches!(next(), Some(Heard::Signal(Signal::Event(record))) if record.seq == seq));
        }
        assert!(matches!(next(), Some(Heard::Signal(Signal::Delta { .. }))));
        assert!(next().is_none());
    }

    #[test]
    fn who_comes_later_hears_the_text_so_far() {
        let publisher = Publisher::after(6);
        let listen = publisher.listen();
        let (deltas, path) = (publisher.deltas(), Path::root());
        deltas.push(&path, 1, "a ü ");
        publisher.publish(&[record(7)]);
        deltas.push(&path, 1, "→");
        let mut later = listen.subscribe().expect("it goes on");
        assert_eq!(later.after(), 7);
        deltas.push(&path, 1, "!");
        let ended = Event::StepFinished { output: None, usage: None, memory: Vec::new() };
        publisher.publish(&[Arc::new(Record { attempt: 1, event: ended, ..(*record(8)).clone() })]);
        let mut last = listen.subscribe().expect("it goes on");
        drop((publisher, deltas));
        let heard = |subscription: &mut Subscription| {
            let mut context = std::task::Context::from_waker(Waker::noop());
            match std::pin::pin!(subscription.next()).poll(&mut context) {
                Poll::Ready(Some(Heard::Signal(Signal::Delta { offset, text, .. }))) => {
                    Some((offset, text.to_string()))
                }
                Poll::Ready(Some(Heard::Signal(Signal::Event(record)))) => Some((record.seq, String::new())),
                _ => None,
            }
        };
        assert_eq!(heard(&mut later), Some((0, "a ü →".to_owned())));
        assert_eq!(heard(&mut later), Some((5, "!".to_owned())));
        assert_eq!(heard(&mut later), Some((8, String::new())));
        assert_eq!((heard(&mut last), last.after()), (None, 8));
    }
}
