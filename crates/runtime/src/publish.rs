//! Publishes a run's events and deltas to any number of subscribers. Queues are bounded: a subscriber that is too slow
//! for the live stream learns how many updates it missed and reads the journal instead. No subscriber can slow the run
//! down or grow its memory.
//!
//! A late subscriber knows from which event on it receives everything, and receives the text so far of the answers in
//! progress; nothing is lost or duplicated.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use parking_lot::{Mutex, MutexGuard};

use crate::effects::Deltas;

/// Maximum number of queued updates for a slow subscriber.
const MAX_QUEUED_UPDATES: usize = 4096;

/// Number of events that wait before a subscriber is woken while the run does not pause. Waking takes longer than many
/// small steps.
const WAKE_BATCH_EVENTS: usize = 512;

/// An update that a subscriber receives.
#[derive(Clone, Debug)]
pub enum RunUpdate {
    /// A stored event.
    Event(Arc<Record>),
    /// A piece of an answer as it arrives; not stored.
    Delta(Delta),
}

/// A piece of a model's answer.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The step.
    pub path: Path,
    /// The attempt.
    pub attempt: u32,
    /// Number of characters (code points) of the attempt's text before this delta. An offset of 0 starts the text; for a
    /// late subscriber that delta holds everything so far.
    pub offset: u64,
    /// The text that follows.
    pub text: Arc<str>,
}

/// The next item of a subscription.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// The next update.
    Update(RunUpdate),
    /// This many updates were missed; the journal has the events among them.
    Missed(u64),
}

/// The sending side of a run's updates. The stream ends when its last clone is dropped.
#[derive(Clone, Default)]
pub struct Publisher {
    shared: Arc<PublisherState>,
}

/// A handle for subscribing while the run is driven. It does not keep the run alive. The default is that of a run that has
/// ended.
#[derive(Clone, Default)]
pub struct SubscribeHandle(Weak<PublisherState>);

impl SubscribeHandle {
    /// A new subscription: further updates, preceded by the text so far of answers in progress. `None` if the stream
    /// has ended.
    pub fn subscribe(&self) -> Option<Subscription> {
        Some(Publisher { shared: self.0.upgrade()? }.subscribe())
    }
}

/// The state shared by all clones of a publisher.
#[derive(Default)]
struct PublisherState {
    hub: Mutex<Hub>,
}

#[derive(Default)]
struct Hub {
    /// Each queue allocates only what it holds: a thousand runs with one subscriber each must not cost a thousand full
    /// queues.
    queues: Vec<Arc<Queue>>,
    /// Sequence number of the last published event.
    seq: u64,
    /// Whether there may be late subscribers, who will need the text so far.
    is_open: bool,
    /// The text so far of each attempt in progress.
    texts: HashMap<(Path, u32), AttemptText>,
}

/// The text of an attempt so far.
#[derive(Default)]
struct AttemptText {
    text: String,
    characters: u64,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
}

/// The updates that a subscriber has not received yet.
#[derive(Default)]
struct QueueState {
    updates: VecDeque<RunUpdate>,
    missed: u64,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Publisher {
    /// The publisher of a run whose events up to sequence number `seq` are already known.
    pub(crate) fn starting_after(seq: u64) -> Publisher {
        let publisher = Publisher::default();
        publisher.shared.lock_hub().seq = seq;
        publisher
    }

    /// Publishes stored events. Subscribers receive them at the next [`Publisher::wake_subscribers`] at the latest.
    pub(crate) fn publish_records(&self, records: &[Arc<Record>]) {
        let mut hub = self.shared.lock_hub();
        records.iter().for_each(|record| hub.note_record(record));
        hub.send_updates(records.iter().map(|record| RunUpdate::Event(record.clone())), WAKE_BATCH_EVENTS);
    }

    /// Whether anybody receives the updates.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.shared.lock_hub().queues.iter().any(|queue| Arc::strong_count(queue) > 1)
    }

    /// Wakes all subscribers with queued updates.
    pub(crate) fn wake_subscribers(&self) {
        self.shared.lock_hub().queues.iter().for_each(|queue| queue.push(std::iter::empty(), 1));
    }

    /// A new subscription: further updates, preceded by the text so far of answers in progress.
    pub fn subscribe(&self) -> Subscription {
        let queue = Arc::new(Queue::default());
        let mut hub = self.shared.lock_hub();
        let so_far = |((path, attempt), attempt_text): (&(Path, u32), &AttemptText)| {
            let text = attempt_text.text.as_str().into();
            RunUpdate::Delta(Delta { path: path.clone(), attempt: *attempt, offset: 0, text })
        };
        let mut texts: Vec<_> = hub.texts.iter().collect();
        texts.sort_by_key(|(attempt, _)| *attempt);
        let taken = texts.into_iter().map(so_far).collect();
        hub.queues.push(queue.clone());
        Subscription { queue, taken, after: hub.seq }
    }

    /// A handle for late subscribers.
    pub(crate) fn subscribe_handle(&self) -> SubscribeHandle {
        self.shared.lock_hub().is_open = true;
        SubscribeHandle(Arc::downgrade(&self.shared))
    }

    /// The receiver of streamed text.
    pub(crate) fn delta_sink(&self) -> Arc<dyn Deltas> {
        self.shared.clone()
    }
}

impl PublisherState {
    fn lock_hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock()
    }
}

impl Hub {
    fn send_updates(&mut self, signals: impl Iterator<Item = RunUpdate> + Clone, batch: usize) {
        // A queue that is referenced only by this list has lost its subscriber.
        self.queues.retain(|queue| Arc::strong_count(queue) > 1);
        self.queues.iter().for_each(|queue| queue.push(signals.clone(), batch));
    }

    /// Notes an event: a finished attempt has no text in progress, and another worker starts the texts again.
    fn note_record(&mut self, record: &Record) {
        self.seq = record.seq;
        if matches!(record.event, Event::RunStarted { .. }) {
            self.texts.clear();
        }
        let is_over =
            matches!(record.event, Event::StepFinished { .. } | Event::StepFailed { .. } | Event::StepAborted { .. });
        if is_over && !self.texts.is_empty() {
            self.texts.remove(&(record.path.clone(), record.attempt));
        }
    }
}

impl Deltas for PublisherState {
    fn push(&self, path: &Path, attempt: u32, text: &str) {
        let mut hub = self.lock_hub();
        if hub.queues.is_empty() && !hub.is_open {
            return;
        }
        let attempt_text = hub.texts.entry((path.clone(), attempt)).or_default();
        let offset = attempt_text.characters;
        attempt_text.text.push_str(text);
        attempt_text.characters += text.chars().count() as u64;
        if hub.queues.is_empty() {
            return;
        }
        let delta = Delta { path: path.clone(), attempt, offset, text: text.into() };
        hub.send_updates(std::iter::once_with(|| RunUpdate::Delta(delta.clone())), 1);
    }
}

impl Drop for PublisherState {
    fn drop(&mut self) {
        self.lock_hub().queues.iter().for_each(|queue| queue.close());
    }
}

impl Queue {
    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Appends updates, and wakes the subscriber if at least `batch` of them are queued.
    fn push(&self, signals: impl Iterator<Item = RunUpdate>, batch: usize) {
        let mut state = self.lock_state();
        for signal in signals {
            if state.updates.len() == MAX_QUEUED_UPDATES {
                state.updates.pop_front();
                state.missed += 1;
            }
            state.updates.push_back(signal);
        }
        let waker = if state.updates.len() >= batch { state.waker.take() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn close(&self) {
        let mut state = self.lock_state();
        state.is_closed = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The receiving side of a run's updates.
pub struct Subscription {
    queue: Arc<Queue>,
    /// Taken from the queue in one go, so that the run and its subscriber rarely contend for its lock.
    taken: VecDeque<RunUpdate>,
    after: u64,
}

impl Subscription {
    /// Sequence number of the last event that this subscription does not receive: it receives all later ones, in order.
    /// Earlier ones are in the journal.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// The next delivery; `None` after the run's last update.
    pub async fn next(&mut self) -> Option<Delivery> {
        if let Some(signal) = self.taken.pop_front() {
            return Some(Delivery::Update(signal));
        }
        poll_fn(|context| {
            let mut state = self.queue.lock_state();
            if state.missed > 0 {
                return Poll::Ready(Some(Delivery::Missed(std::mem::take(&mut state.missed))));
            }
            std::mem::swap(&mut self.taken, &mut state.updates);
            if let Some(signal) = self.taken.pop_front() {
                return Poll::Ready(Some(Delivery::Update(signal)));
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

    fn make_record(seq: u64) -> Arc<Record> {
        let run = RunId::new(0, [0; 10]);
        Arc::new(Record { run, seq, at: 0, path: Path::root(), attempt: 0, event: Event::StepUncertain })
    }

    #[test]
    fn a_slow_subscriber_receives_what_it_missed() {
        let publisher = Publisher::default();
        let mut subscription = publisher.subscribe();
        drop(publisher.subscribe());
        let records: Vec<_> = (1..=MAX_QUEUED_UPDATES as u64 + 3).map(make_record).collect();
        publisher.publish_records(&records);
        publisher.delta_sink().push(&Path::root(), 1, "text");
        drop(publisher);
        let mut next = || {
            let mut context = std::task::Context::from_waker(Waker::noop());
            match std::pin::pin!(subscription.next()).poll(&mut context) {
                Poll::Ready(delivery) => delivery,
                Poll::Pending => panic!("everything is there"),
            }
        };
        assert!(matches!(next(), Some(Delivery::Missed(4))));
        for seq in 5..=MAX_QUEUED_UPDATES as u64 + 3 {
            assert!(matches!(next(), Some(Delivery::Update(RunUpdate::Event(record))) if record.seq == seq));
        }
        assert!(matches!(next(), Some(Delivery::Update(RunUpdate::Delta(_)))));
        assert!(next().is_none());
    }

    #[test]
    fn who_comes_later_receives_the_text_so_far() {
        let publisher = Publisher::starting_after(6);
        let listen = publisher.subscribe_handle();
        let (deltas, path) = (publisher.delta_sink(), Path::root());
        deltas.push(&path, 1, "a ü ");
        publisher.publish_records(&[make_record(7)]);
        deltas.push(&path, 1, "→");
        let mut later = listen.subscribe().expect("it goes on");
        assert_eq!(later.after(), 7);
        deltas.push(&path, 1, "!");
        let ended =
            Event::StepFinished { output: None, usage: None, memory: Vec::new(), reused: false, response: None };
        publisher.publish_records(&[Arc::new(Record { attempt: 1, event: ended, ..(*make_record(8)).clone() })]);
        let mut last = listen.subscribe().expect("it goes on");
        drop((publisher, deltas));
        let delivery = |subscription: &mut Subscription| {
            let mut context = std::task::Context::from_waker(Waker::noop());
            match std::pin::pin!(subscription.next()).poll(&mut context) {
                Poll::Ready(Some(Delivery::Update(RunUpdate::Delta(Delta { offset, text, .. })))) => {
                    Some((offset, text.to_string()))
                }
                Poll::Ready(Some(Delivery::Update(RunUpdate::Event(record)))) => Some((record.seq, String::new())),
                _ => None,
            }
        };
        assert_eq!(delivery(&mut later), Some((0, "a ü →".to_owned())));
        assert_eq!(delivery(&mut later), Some((5, "!".to_owned())));
        assert_eq!(delivery(&mut later), Some((8, String::new())));
        assert_eq!((delivery(&mut last), last.after()), (None, 8));
    }
}
