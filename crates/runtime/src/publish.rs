//! Hands what happens to any number of subscribers. Buffers are bounded: a subscriber that is too slow for the live
//! stream is told how far it fell behind and reads the journal from there, so that nobody slows the run or its memory.

use std::sync::Arc;

use flowloom_core::event::Record;
use flowloom_core::path::Path;
use tokio::sync::broadcast;

use crate::effects::Deltas;

/// Signals kept for the slowest subscriber.
const BUFFER: usize = 1024;

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

/// The sending side of a run's signals.
#[derive(Clone)]
pub struct Publisher {
    sender: broadcast::Sender<Signal>,
}

impl Default for Publisher {
    fn default() -> Publisher {
        Publisher { sender: broadcast::Sender::new(BUFFER) }
    }
}

impl Publisher {
    /// Tells everyone about stored events.
    pub(crate) fn publish(&self, records: &[Arc<Record>]) {
        if self.sender.receiver_count() > 0 {
            for record in records {
                // An error only says that the last subscriber has just left.
                let _ = self.sender.send(Signal::Event(record.clone()));
            }
        }
    }

    /// A new subscription, from now on.
    pub fn subscribe(&self) -> Subscription {
        Subscription { receiver: self.sender.subscribe() }
    }
}

impl Deltas for Publisher {
    fn push(&self, path: &Path, attempt: u32, text: &str) {
        if self.sender.receiver_count() > 0 {
            let _ = self.sender.send(Signal::Delta { path: path.clone(), attempt, text: text.into() });
        }
    }
}

/// The receiving side.
pub struct Subscription {
    receiver: broadcast::Receiver<Signal>,
}

impl Subscription {
    /// The next thing heard; `None` after the run's last signal.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.receiver.recv().await {
            Ok(signal) => Some(Heard::Signal(signal)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
