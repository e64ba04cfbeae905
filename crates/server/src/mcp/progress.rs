//! What a client that waits for a run is told meanwhile.

use std::future::pending;
use std::time::{Duration, Instant};

use flowloom_core::event::{Event, Record};
use flowloom_runtime::publish::{Heard, Signal, Subscription};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

/// Words that follow each other as they come.
const AT_ONCE: u32 = 16;

/// Between two words after those: a run may take a thousand steps in that time.
const EVERY: Duration = Duration::from_millis(100);

/// What there is to tell a client of a run, if it wants to hear it.
pub(crate) struct Progress {
    heard: Option<(ProgressToken, Subscription)>,
    told: u32,
    last: Instant,
}

impl Progress {
    /// Whether a call wants to hear of progress.
    pub(crate) fn is_wanted(context: &RequestContext<RoleServer>) -> bool {
        context.meta.get_progress_token().is_some()
    }

    pub(crate) fn new(context: &RequestContext<RoleServer>, heard: Option<Subscription>) -> Progress {
        Progress { heard: context.meta.get_progress_token().zip(heard), told: 0, last: Instant::now() }
    }

    /// The next thing to tell; never ready when there is nothing more.
    pub(crate) async fn next(&mut self) -> ProgressNotificationParam {
        loop {
            let Some((token, heard)) = &mut self.heard else { return pending().await };
            match heard.next().await {
                Some(Heard::Signal(Signal::Event(record))) => {
                    let is_soon = self.told >= AT_ONCE && self.last.elapsed() < EVERY;
                    if let Some(text) = words(&record).filter(|_| !is_soon) {
                        (self.told, self.last) = (self.told + 1, Instant::now());
                        // The number of the event grows as progress must; how many there will be, nobody knows.
                        return ProgressNotificationParam::new(token.clone(), record.seq as f64).with_message(text);
                    }
                }
                Some(Heard::Signal(Signal::Delta { .. }) | Heard::Missed(_)) => {}
                None => self.heard = None,
            }
        }
    }
}

/// An event of a step in a few words.
fn words(record: &Record) -> Option<String> {
    let path = &record.path;
    match &record.event {
        Event::StepStarted { kind, target, .. } => Some(format!("{path}: {kind} {target}")),
        Event::StepFinished { .. } => Some(format!("{path} finished")),
        Event::StepFailed { error, .. } => Some(format!("{path} failed: {}", error.message)),
        Event::StepSkipped { .. } => Some(format!("{path} was skipped")),
        _ => None,
    }
}
