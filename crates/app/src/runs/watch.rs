//! Watching a run from its first event until it ends or waits.

use std::sync::Arc;

use flowloom_core::event::Record;
use flowloom_core::path::Path;
use flowloom_runtime::effects::Boxed;
use flowloom_runtime::journal::Journal;
use flowloom_runtime::publish::{Heard, Signal, Subscription};

/// Shows a run to somebody.
pub trait Watcher: Send {
    /// What happened; each event once, in order.
    fn event(&mut self, record: &Record);

    /// Text as it arrives.
    fn delta(&mut self, _path: &Path, _attempt: u32, _text: &str) {}

    /// The run is over, or waits.
    fn close(&mut self) {}
}

/// Follows a subscription until the run is over.
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
                // Too slow for the live stream: the journal has every event among what was missed.
                Heard::Missed(_) => journal.read(run, seen).await.unwrap_or_default(),
            };
            for record in records {
                // What was read from the journal may still come over the live stream.
                if record.seq > seen {
                    seen = record.seq;
                    watcher.event(&record);
                }
            }
        }
        watcher.close();
    })
}
