//! Attempts whose results no longer count, because the run was reopened. The interpreter does not find them in the
//! record. What they cost still counts.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use flowloom_core::chat::Usage;
use flowloom_core::event::{Event, EventKind};
use flowloom_core::path::Path;

use super::{LogState, RunLog};
use crate::command::DecidedCommand;

/// Attempts whose results no longer count.
#[derive(Default)]
pub(super) struct ForgottenAttempts {
    /// The last attempt of each step.
    last: HashMap<Path, ForgottenAttempt>,
    /// Number of attempts of steps that were started.
    started: u64,
    usage: Vec<Usage>,
    /// How often the run was reopened.
    reopenings: u32,
}

/// The last attempt of a step that no longer counts.
#[derive(Clone, Copy, Default)]
struct ForgottenAttempt {
    number: u32,
    /// Whether the run was reopened to retry what failed, and not to repeat everything from a step on.
    is_retried: bool,
}

impl ForgottenAttempts {
    pub(super) fn has_attempts(&self) -> bool {
        !self.last.is_empty()
    }
}

impl RunLog {
    /// Reopens the run: appends the event, and stores it together with the decisions about the commands to the run that had
    /// ended.
    pub(crate) fn reopen_run(&self, reopened: Event, decided: Vec<DecidedCommand>) {
        let mut state = self.lock_state();
        if let Event::RunReopened { from, reset, continued, .. } = &reopened {
            state.reopen(reset, continued, from.is_none());
        }
        state.live = state.outcomes.is_empty();
        self.may_follow.store(true, Ordering::Release);
        self.has_forgotten.store(state.forgotten.has_attempts(), Ordering::Release);
        self.push_event(&mut state, &Path::root(), 0, reopened);
        state.pending.decided.extend(decided);
    }

    /// Number of the last attempt of a step that no longer counts; 0 if there is none.
    pub(crate) fn last_forgotten_attempt(&self, path: &Path) -> u32 {
        self.find_forgotten(path).number
    }

    /// Number of the attempt that the current one retries because it had failed; 0 if there is none.
    pub(crate) fn retried_attempt(&self, path: &Path) -> u32 {
        let last = self.find_forgotten(path);
        if last.is_retried { last.number } else { 0 }
    }

    /// The last attempt of a step that no longer counts; the default if there is none.
    fn find_forgotten(&self, path: &Path) -> ForgottenAttempt {
        if !self.has_forgotten.load(Ordering::Acquire) {
            return ForgottenAttempt::default();
        }
        self.lock_state().forgotten.last.get(path).copied().unwrap_or_default()
    }

    /// How often the run ended before it was reopened.
    pub(crate) fn count_earlier_ends(&self) -> u32 {
        self.lock_state().forgotten.reopenings
    }

    /// Number of steps that were started and no longer count, and the usage of those that finished.
    pub(crate) fn forgotten_cost(&self) -> (u64, Vec<Usage>) {
        let state = self.lock_state();
        (state.forgotten.started, state.forgotten.usage.clone())
    }
}

impl LogState {
    /// Removes the steps in `reset`, the end of the effects in `continued`, and the end of the run from the record that the
    /// interpreter follows.
    pub(super) fn reopen(&mut self, reset: &[Path], continued: &[Path], is_retried: bool) {
        let (reset, continued): (HashSet<&Path>, HashSet<&Path>) = (reset.iter().collect(), continued.iter().collect());
        let LogState { recorded, outcomes, forgotten, .. } = self;
        forgotten.reopenings += 1;
        recorded.remove(&(Path::root(), 0, EventKind::RunFinished));
        recorded.retain(|(path, _, kind), _| *kind != EventKind::StepAborted || !continued.contains(path));
        recorded.retain(|(path, attempt, _), record| {
            if !reset.contains(path) {
                return true;
            }
            outcomes.remove(&record.seq);
            let last = forgotten.last.entry(path.clone()).or_default();
            *last = ForgottenAttempt { number: last.number.max(*attempt), is_retried };
            match &record.event {
                Event::StepStarted { .. } => forgotten.started += 1,
                Event::StepFinished { usage, .. } | Event::StepFailed { usage, .. } => forgotten.usage.extend(*usage),
                _ => {}
            }
            false
        });
        self.answers.retain(|path, _| !reset.contains(path));
        self.resolutions.retain(|(path, _), _| !reset.contains(path));
    }
}
