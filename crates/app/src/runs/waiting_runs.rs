//! Runs that no worker of Restate takes, as a server reports them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flowloom_core::id::RunId;

/// How long a run may wait for a worker before that is reported: longer than Restate takes to notice that a worker hangs, with
/// the settings in `deploy/`.
const REPORT_DELAY: Duration = Duration::from_secs(20);

/// The runs that wait for a worker.
#[derive(Default)]
pub(super) struct WaitingRuns {
    since: HashMap<RunId, Instant>,
    is_reported: bool,
}

impl WaitingRuns {
    /// Notes which runs no worker drives now. Reports once that some have waited for long, and once that none waits any more.
    pub(super) fn note_runs(&mut self, runs: impl Iterator<Item = RunId>, now: Instant) {
        let earlier = std::mem::take(&mut self.since);
        self.since = runs.map(|run| (run, earlier.get(&run).copied().unwrap_or(now))).collect();
        let late = |since: &&Instant| now.saturating_duration_since(**since) >= REPORT_DELAY;
        let count = self.since.values().filter(late).count();
        if count > 0 && !std::mem::replace(&mut self.is_reported, true) {
            tracing::warn!(
                count,
                "{count} of the runs that must continue have waited for a worker of Restate for {} s: flowloom doctor says \
                 whether one with this project and configuration answers",
                REPORT_DELAY.as_secs()
            );
        }
        if self.since.is_empty() && std::mem::take(&mut self.is_reported) {
            tracing::info!("no run waits for a worker of Restate any more");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_reported_when_it_has_waited_for_long() {
        let (begin, run) = (Instant::now(), |number| RunId::new(number, [0; 10]));
        let mut waiting = WaitingRuns::default();
        waiting.note_runs([run(1)].into_iter(), begin);
        // Another run waits: the first one was taken.
        waiting.note_runs([run(2)].into_iter(), begin + REPORT_DELAY);
        assert!(!waiting.is_reported);
        waiting.note_runs([run(2)].into_iter(), begin + REPORT_DELAY * 2);
        assert!(waiting.is_reported);
        waiting.note_runs(std::iter::empty(), begin + REPORT_DELAY * 3);
        assert!(!waiting.is_reported && waiting.since.is_empty());
    }
}
