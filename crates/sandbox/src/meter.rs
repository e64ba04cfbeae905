//! Counts how long untrusted code computes, so that users can have quotas.

use std::fmt;
use std::time::Duration;

use flowloom_core::error::StepFailure;
use flowloom_runtime::effects::BoxFuture;
use tokio::time::Instant;

/// Time that is reserved until this is dropped.
pub type TimeReservation = Box<dyn Send>;

/// Counts the time that untrusted code computes, by user.
pub trait SandboxMeter: fmt::Debug + Send + Sync {
    /// Reserves the longest time that code of the user may compute, until the result is dropped. Waits for other code of the
    /// user where that would be too much together. Fails if the user's code may not compute any longer.
    fn reserve_time<'a>(
        &'a self,
        user: &'a str,
        longest: Duration,
    ) -> BoxFuture<'a, Result<TimeReservation, StepFailure>>;

    /// Adds time in which code of the user computed.
    fn add_time(&self, user: &str, time: Duration);
}

/// Measures how long code computes. The time is counted when this is dropped, however the code ends.
pub(crate) struct ComputingTime<'a> {
    meter: Option<&'a dyn SandboxMeter>,
    user: &'a str,
    used: Duration,
    since: Option<Instant>,
}

impl<'a> ComputingTime<'a> {
    /// A time that does not run yet.
    pub(crate) fn new(meter: Option<&'a dyn SandboxMeter>, user: &'a str) -> ComputingTime<'a> {
        ComputingTime { meter, user, used: Duration::ZERO, since: None }
    }

    pub(crate) fn start(&mut self) {
        self.since = Some(Instant::now());
    }

    pub(crate) fn pause(&mut self) {
        self.used += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Counts at least this time.
    pub(crate) fn raise_to(&mut self, least: Duration) {
        self.used = self.used.max(least);
    }

    /// The time so far, without that since the last start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.used
    }
}

impl Drop for ComputingTime<'_> {
    fn drop(&mut self) {
        self.pause();
        if let Some(meter) = self.meter {
            meter.add_time(self.user, self.used);
        }
    }
}
