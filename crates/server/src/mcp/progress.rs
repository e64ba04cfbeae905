//! Reports the progress of a run to a waiting client.

use std::future::pending;
use std::time::{Duration, Instant};

use flowloom_core::event::{Event, Record};
use flowloom_runtime::publish::{Heard, Signal, Subscription};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

/// Number of notifications that are sent without a delay.
const AT_ONCE: u32 = 16;

/// Minimum interval after those: a run may take a thousand steps in that time.
const EVERY: Duration = Duration::from_millis(100);

/// Produces progress notifications, if the client requested them.
pub(crate) struct Progress {
    heard: Option<(ProgressToken, Subscription)>,
    told: u32,
    last: Instant,
}

impl Progress {
    /// Whether the call requests progress notifications.
    pub(crate) fn is_wanted(context: &RequestContext<RoleServer>) -> bool {
        context.meta.get_progress_token().is_some()
    }

    pub(crate) fn new(context: &RequestContext<RoleServer>, heard: Option<Subscription>) -> Progress {
        Progress { heard: context.meta.get_progress_token().zip(heard), told: 0, last: Instant::now() }
    }

    /// The next notification; pending forever if there is none.
    pub(crate) async fn next(&mut self) -> ProgressNotificationParam {
        loop {
            let Some((token, heard)) = &mut self.heard else { return pending().await };
            match heard.next().await {
                Some(Heard::Signal(Signal::Event(record))) => {
                    let is_soon = self.told >= AT_ONCE && self.last.elapsed() < EVERY;
                    if let Some(text) = words(&record).filter(|_| !is_soon) {
                        (self.told, self.last) = (self.told + 1, Instant::now());
                        // Progress must increase, so it is the sequence number of the event; the total is unknown.
                        return ProgressNotificationParam::new(token.clone(), record.seq as f64).with_message(text);
                    }
                }
                Some(Heard::Signal(Signal::Delta { .. }) | Heard::Missed(_)) => {}
                None => self.heard = None,
            }
        }
    }
}

/// A short text for an event of a step.
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
