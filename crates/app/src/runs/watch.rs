//! Watching a run from its first event until it ends or waits.

use std::sync::Arc;

use flowloom_core::event::Record;
use flowloom_core::path::Path;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::Journal;
use flowloom_runtime::publish::{Delivery, RunUpdate, Subscription};

/// An observer of a run.
pub trait Watcher: Send {
    /// Handles an event. Each event arrives once, in order.
    fn on_event(&mut self, record: &Record);

    /// Handles streamed text.
    fn on_delta(&mut self, _path: &Path, _attempt: u32, _text: &str) {}

    /// Called once when the run has ended or waits.
    fn on_close(&mut self) {}
}

/// Forwards the events of a run to `watcher` until the run ends or waits.
pub fn forward_events(
    mut subscription: Subscription,
    journal: Arc<dyn Journal>,
    run: flowloom_core::RunId,
    mut watcher: Box<dyn Watcher>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut seen = 0;
        while let Some(signal) = subscription.next().await {
            let records = match signal {
                Delivery::Update(RunUpdate::Event(record)) => vec![record],
                Delivery::Update(RunUpdate::Delta(delta)) => {
                    watcher.on_delta(&delta.path, delta.attempt, &delta.text);
                    continue;
                }
                // The subscriber was too slow; the journal contains every event that was missed.
                Delivery::Missed(_) => journal.read(run, seen).await.unwrap_or_default(),
            };
            for record in records {
                // Events read from the journal may arrive a second time from the live stream.
                if record.seq > seen {
                    seen = record.seq;
                    watcher.on_event(&record);
                }
            }
        }
        watcher.on_close();
    })
}
