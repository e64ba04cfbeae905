//! The times that branches of a run wait for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::RunLog;

/// The purpose of a timer.
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
    /// The latest time that the sender of a command knew of.
    known_ms: u64,
    /// The wakers of branches that wait for a later one.
    waiters: Vec<Waker>,
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

    /// How long to wait until the time `until`, in milliseconds, if the wait began at the time `since`. Setting the clock
    /// back does not make the wait longer than it was.
    pub(crate) fn remaining_ms(&self, until: u64, since: u64) -> u64 {
        until.saturating_sub(self.clock.now_ms().max(since))
    }

    /// Notes that it is at least this late. Returns whether a question expires therefore.
    pub(super) fn note_time(&self, now_ms: u64) -> bool {
        let mut state = self.lock_state();
        let timers = &mut state.timers;
        timers.known_ms = timers.known_ms.max(now_ms);
        let is_due = timers.questions.first_key_value().is_some_and(|(until, _)| *until <= timers.known_ms);
        let waiters = std::mem::take(&mut timers.waiters);
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
        is_due
    }

    /// Completes once a command has reported a time of at least `until`.
    pub(crate) async fn wait_for_known_time(&self, until: u64) {
        poll_fn(|context| {
            let timers = &mut self.lock_state().timers;
            if timers.known_ms >= until {
                return Poll::Ready(());
            }
            timers.waiters.retain(|waiter| !waiter.will_wake(context.waker()));
            timers.waiters.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether a step waits for a time.
    pub(crate) fn has_timers(&self) -> bool {
        !self.lock_state().timers.waits.is_empty()
    }

    /// The first time that a step waits for.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.lock_state().timers.waits.first_key_value().map(|(until, _)| *until)
    }

    /// Whether a question expires so soon that the run is not suspended until then.
    pub(crate) fn expires_soon(&self, within_ms: u64) -> bool {
        let soon = self.now_ms().saturating_add(within_ms);
        self.next_expiry().is_some_and(|expires_at| expires_at <= soon || self.clock.skips_waits())
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
