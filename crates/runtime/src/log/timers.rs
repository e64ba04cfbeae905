//! The times that branches of a run wait for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::RunLog;

/// What happens at the time.
#[derive(Clone, Copy)]
pub(crate) enum TimerKind {
    /// A step that waits for the time finishes.
    Wait,
    /// A question to a person expires.
    Question,
}

/// How many branches wait, by the time for which they wait, in milliseconds since the Unix epoch.
#[derive(Default)]
pub(super) struct Timers {
    waits: BTreeMap<u64, usize>,
    questions: BTreeMap<u64, usize>,
}

impl Timers {
    fn of_kind(&mut self, kind: TimerKind) -> &mut BTreeMap<u64, usize> {
        match kind {
            TimerKind::Wait => &mut self.waits,
            TimerKind::Question => &mut self.questions,
        }
    }
}

impl RunLog {
    /// Counts a timer until the guard is dropped.
    pub(crate) fn start_timer(self: &Arc<RunLog>, until: u64, kind: TimerKind) -> Timer {
        *self.lock_state().timers.of_kind(kind).entry(until).or_default() += 1;
        Timer { log: self.clone(), until, kind }
    }

    /// Whether a step waits for a time.
    pub(crate) fn has_timers(&self) -> bool {
        !self.lock_state().timers.waits.is_empty()
    }

    /// The first time that a step waits for.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.lock_state().timers.waits.first_key_value().map(|(until, _)| *until)
    }

    /// When the first question expires.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        self.lock_state().timers.questions.first_key_value().map(|(until, _)| *until)
    }
}

/// Marks a branch as waiting until it is dropped.
pub(crate) struct Timer {
    log: Arc<RunLog>,
    until: u64,
    kind: TimerKind,
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut state = self.log.lock_state();
        if let Entry::Occupied(mut waiting) = state.timers.of_kind(self.kind).entry(self.until) {
            *waiting.get_mut() -= 1;
            if *waiting.get() == 0 {
                waiting.remove();
            }
        }
    }
}
