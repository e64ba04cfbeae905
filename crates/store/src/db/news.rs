//! News of runs that other processes write.

use std::time::Duration;

use flowloom_core::id::RunId;

/// The content of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunNews {
    /// The run has a new command or decision.
    Command(RunId),
    /// The run has ended or waits.
    End(RunId),
}

/// How a process learns of commands and ends that others write.
pub(crate) trait NewsListener {
    /// Waits for notifications, or until it is time to poll. `None`: every run may have news.
    fn wait_for_news(&mut self) -> Option<Vec<RunNews>>;

    /// Whether notifications no longer arrive.
    fn is_lost(&self) -> bool;
}

/// Learns nothing, and lets its caller poll.
pub(crate) struct PollingListener {
    pub(crate) interval: Duration,
}

impl NewsListener for PollingListener {
    fn wait_for_news(&mut self) -> Option<Vec<RunNews>> {
        std::thread::sleep(self.interval);
        None
    }

    fn is_lost(&self) -> bool {
        false
    }
}
