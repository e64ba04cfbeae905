//! Hands what happens to any number of subscribers. Buffers are bounded: a subscriber that is too slow for the live
//! stream is told how far it fell behind and reads the journal from there, so that nobody slows the run or its memory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use flowloom_core::event::Record;
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
    /// A new subscription, from now on; `None` if the last signal is out.
    pub fn subscribe(&self) -> Option<Subscription> {
        Some(Publisher { shared: self.0.upgrade()? }.subscribe())
    }
}

/// The queues of all subscribers. Each takes room for what it holds and no more: a thousand runs with a subscriber each
/// must not cost a thousand full buffers.
#[derive(Default)]
struct Shared {
    queues: Mutex<Vec<Arc<Queue>>>,
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
    /// Tells everyone about stored events; they hear them at the next [`Publisher::wake`] at the latest.
    pub(crate) fn publish(&self, records: &[Arc<Record>]) {
        self.shared.send(records.iter().map(|record| Signal::Event(record.clone())), BATCH);
    }

    /// Wakes everyone for whom there is something.
    pub(crate) fn wake(&self) {
        self.shared.queues().iter().for_each(|queue| queue.push(std::iter::empty(), 1));
    }

    /// A new subscription, from now on.
    pub fn subscribe(&self) -> Subscription {
        let queue = Arc::new(Queue::default());
        self.shared.queues().push(queue.clone());
        Subscription { queue, taken: VecDeque::new() }
    }

    /// What lets subscribers in later.
    pub(crate) fn listen(&self) -> Listen {
        Listen(Arc::downgrade(&self.shared))
    }

    /// What takes the text of answers as it arrives.
    pub(crate) fn deltas(&self) -> Arc<dyn Deltas> {
        self.shared.clone()
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, signals: impl Iterator<Item = Signal> + Clone, batch: usize) {
        let mut queues = self.queues();
        // A queue that only this list holds has lost its subscriber.
        queues.retain(|queue| Arc::strong_count(queue) > 1);
        queues.iter().for_each(|queue| queue.push(signals.clone(), batch));
    }
}

impl Deltas for Shared {
    fn push(&self, path: &Path, attempt: u32, text: &str) {
        if self.queues().is_empty() {
            return;
        }
        let text: Arc<str> = text.into();
        let delta = || Signal::Delta { path: path.clone(), attempt, text: text.clone() };
        self.send(std::iter::once_with(delta), 1);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queues().iter().for_each(|queue| queue.close());
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
}

impl Subscription {
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
}
