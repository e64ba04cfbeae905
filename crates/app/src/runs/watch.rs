//! Watching a run from its first event until it ends or waits.

use std::sync::Arc;

use flowloom_core::event::Record;
use flowloom_core::path::Path;
use flowloom_runtime::effects::Boxed;
use flowloom_runtime::journal::Journal;
use flowloom_runtime::publish::{Heard, Signal, Subscription};

/// An observer of a run.
pub trait Watcher: Send {
    /// Handles an event. Each event arrives once, in order.
    fn event(&mut self, record: &Record);

    /// Handles streamed text.
    fn delta(&mut self, _path: &Path, _attempt: u32, _text: &str) {}

    /// Called once when the run has ended or waits.
    fn close(&mut self) {}
}

/// Forwards the events of a run to `watcher` until the run ends or waits.
pub fn follow(
    mut heard: Subscription,
    journal: Arc<dyn Journal>,
    run: flowloom_core::RunId,
    mut watcher: Box<dyn Watcher>,
) -> Boxed<'static, ()> {
    Box::pin(async move {
        let mut seen = 0;
        while let Some(signal) = heard.next().await {
            let records = match signal {
                Heard::Signal(Signal::Event(record)) => vec![record],
                Heard::Signal(Signal::Delta { path, attempt, text, .. }) => {
                    watcher.delta(&path, attempt, &text);
                    continue;
                }
                // The subscriber was too slow; the journal contains every event that was missed.
                Heard::Missed(_) => journal.read(run, seen).await.unwrap_or_default(),
            };
            for record in records {
                // Events read from the journal may arrive a second time from the live stream.
                if record.seq > seen {
                    seen = record.seq;
                    watcher.event(&record);
                }
            }
        }
        watcher.close();
    })
}
