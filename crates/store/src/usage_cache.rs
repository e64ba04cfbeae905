//! The usage of listed runs so far, so that a list reads only the events since the last one.

use std::collections::HashMap;

use flowloom_core::chat::Usage;
use flowloom_core::id::RunId;
use parking_lot::{Mutex, MutexGuard};

/// Number of runs whose usage is kept.
const MAX_KNOWN_RUNS: usize = 10_000;

/// The usage of runs that were listed, so that only newer events are read the next time.
#[derive(Debug, Default)]
pub(crate) struct UsageCache(Mutex<HashMap<RunId, KnownUsage>>);

/// The usage of a run up to an event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownUsage {
    pub(crate) usage: Option<Usage>,
    /// Id of the last event that was added up.
    pub(crate) last_event: Option<u64>,
    /// When the run ended, if it had ended before. A run that was reopened ends at another time.
    pub(crate) finished_at: Option<u64>,
}

impl KnownUsage {
    /// Adds what newer events have used.
    pub(crate) fn add_newer(&mut self, newer: &NewerUsage) {
        self.last_event = Some(newer.last_event);
        if let Some(usage) = &newer.usage {
            self.usage.get_or_insert(Usage::none()).add(usage);
        }
    }
}

/// The usage in the events of a run after the last known one.
pub(crate) struct NewerUsage {
    pub(crate) run: RunId,
    /// `None` if they called no model.
    pub(crate) usage: Option<Usage>,
    pub(crate) last_event: u64,
}

impl UsageCache {
    fn lock_known(&self) -> MutexGuard<'_, HashMap<RunId, KnownUsage>> {
        self.0.lock()
    }

    /// The known usage of these runs.
    pub(crate) fn find_known(&self, runs: impl Iterator<Item = RunId>) -> HashMap<RunId, KnownUsage> {
        let known = self.lock_known();
        runs.map(|run| (run, known.get(&run).copied().unwrap_or_default())).collect()
    }

    /// Keeps the known usage.
    pub(crate) fn keep_usage(&self, usage: &HashMap<RunId, KnownUsage>) {
        let mut known = self.lock_known();
        if known.len() + usage.len() > MAX_KNOWN_RUNS {
            known.clear();
        }
        known.extend(usage);
    }
}
