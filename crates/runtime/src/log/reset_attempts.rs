//! The attempts of steps that no longer count, because a retry of the run performed the steps again.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;

/// The steps of a run that retries have reset.
#[derive(Default)]
pub struct ResetAttempts {
    by_path: HashMap<Path, ResetStep>,
}

/// The last time that a step was reset.
#[derive(Clone, Copy)]
struct ResetStep {
    /// Position of the event that reset it.
    seq: u64,
    /// Number of the last attempt before that; 0 if there was none.
    last_attempt: u32,
}

impl ResetAttempts {
    /// The steps that the retries in a record have reset.
    pub fn new(records: &[Arc<Record>]) -> ResetAttempts {
        let mut by_path: HashMap<Path, ResetStep> = HashMap::new();
        if !records.iter().any(|record| matches!(record.event, Event::RunReopened { .. })) {
            return ResetAttempts { by_path };
        }
        let mut last_attempts: HashMap<&Path, u32> = HashMap::new();
        for record in records {
            if let Event::RunReopened { reset, .. } = &record.event {
                for path in reset {
                    let last_attempt = last_attempts.get(path).copied().unwrap_or_default();
                    by_path.insert(path.clone(), ResetStep { seq: record.seq, last_attempt });
                }
            }
            let last = last_attempts.entry(&record.path).or_default();
            *last = (*last).max(record.attempt);
        }
        ResetAttempts { by_path }
    }

    /// Number of the last attempt of a step that no longer counts; 0 if all of them count.
    pub fn last_attempt(&self, path: &Path) -> u32 {
        self.by_path.get(path).map_or(0, |step| step.last_attempt)
    }

    /// Number of the attempt of a record, counted from 1 since its step was reset; `None` if the attempt no longer counts.
    pub(super) fn count_attempt(&self, record: &Record) -> Option<u32> {
        match self.by_path.get(&record.path) {
            Some(step) if record.seq < step.seq => None,
            Some(step) => Some(record.attempt.saturating_sub(step.last_attempt)),
            None => Some(record.attempt),
        }
    }
}
