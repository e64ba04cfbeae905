//! Counts how long untrusted code computes, so that users can have quotas.

use std::fmt;
use std::time::Duration;

use flowloom_core::error::StepFailure;
use tokio::time::Instant;

/// Counts the time that untrusted code computes, by user.
pub trait SandboxMeter: fmt::Debug + Send + Sync {
    /// Fails if code of the user may not compute any longer.
    fn check_user(&self, user: &str) -> Result<(), StepFailure>;

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
    pub(crate) fn used(&self) -> Duration {
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
