//! Reports the progress of a run to a waiting client.

use std::future::pending;
use std::time::{Duration, Instant};

use flowloom_core::event::{Event, Record};
use flowloom_runtime::publish::{Delivery, RunUpdate, Subscription};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

/// Number of notifications that are sent without a delay.
const MAX_BURST_NOTIFICATIONS: u32 = 16;

/// Minimum interval after those: a run may take a thousand steps in that time.
const MIN_NOTIFICATION_INTERVAL: Duration = Duration::from_millis(100);

/// Produces progress notifications, if the client requested them.
pub(crate) struct ProgressReporter {
    subscription: Option<(ProgressToken, Subscription)>,
    sent: u32,
    last: Instant,
}

impl ProgressReporter {
    /// Whether the call requests progress notifications.
    pub(crate) fn is_requested(context: &RequestContext<RoleServer>) -> bool {
        context.meta.get_progress_token().is_some()
    }

    pub(crate) fn new(context: &RequestContext<RoleServer>, subscription: Option<Subscription>) -> ProgressReporter {
        ProgressReporter {
            subscription: context.meta.get_progress_token().zip(subscription),
            sent: 0,
            last: Instant::now(),
        }
    }

    /// The next notification; pending forever if there is none.
    pub(crate) async fn next_notification(&mut self) -> ProgressNotificationParam {
        loop {
            let Some((token, subscription)) = &mut self.subscription else { return pending().await };
            match subscription.next().await {
                Some(Delivery::Update(RunUpdate::Event(record))) => {
                    let is_soon =
                        self.sent >= MAX_BURST_NOTIFICATIONS && self.last.elapsed() < MIN_NOTIFICATION_INTERVAL;
                    if let Some(text) = render_event(&record).filter(|_| !is_soon) {
                        (self.sent, self.last) = (self.sent + 1, Instant::now());
                        // Progress must increase, so it is the sequence number of the event; the total is unknown.
                        return ProgressNotificationParam::new(token.clone(), record.seq as f64).with_message(text);
                    }
                }
                Some(Delivery::Update(RunUpdate::Delta(_)) | Delivery::Missed(_)) => {}
                None => self.subscription = None,
            }
        }
    }
}

/// A short text for an event of a step.
fn render_event(record: &Record) -> Option<String> {
    let path = &record.path;
    match &record.event {
        Event::StepStarted { kind, target, .. } => Some(format!("{path}: {kind} {target}")),
        Event::StepFinished { .. } => Some(format!("{path} finished")),
        Event::StepFailed { error, .. } => Some(format!("{path} failed: {}", error.message)),
        Event::StepSkipped { .. } => Some(format!("{path} was skipped")),
        _ => None,
    }
}
