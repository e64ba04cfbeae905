//! The child effects of an attempt that failed, for the attempt that retries it: what succeeded is kept, and what may have
//! happened is asked about.

use flowloom_core::event::{Event, EventKind};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::value::Value;

use super::RunLog;

/// A child effect of an earlier attempt.
pub(crate) struct EarlierEffect {
    pub(crate) hash: Hash,
    pub(crate) outcome: EarlierOutcome,
}

/// Its outcome.
pub(crate) enum EarlierOutcome {
    Finished(Option<Value>),
    Failed,
    /// It was started, and may or may not have happened.
    Unknown,
}

impl RunLog {
    /// The child effects directly below a path, in the order in which they started.
    pub(crate) fn list_child_effects(&self, above: &Path) -> Vec<EarlierEffect> {
        let state = self.lock_state();
        let mut started: Vec<_> = state
            .recorded
            .iter()
            .filter(|((path, _, kind), _)| *kind == EventKind::StepStarted && path.parent() == *above)
            .collect();
        started.sort_by_key(|(_, record)| record.seq);
        let list = started.into_iter().filter_map(|((path, attempt, _), record)| {
            let Event::StepStarted { hash, .. } = &record.event else { return None };
            let find = |kind| state.recorded.get(&(path.clone(), *attempt, kind));
            let outcome = match find(EventKind::StepFinished).map(|record| &record.event) {
                Some(Event::StepFinished { output, .. }) => EarlierOutcome::Finished(output.clone()),
                _ if find(EventKind::StepFailed).is_some() => EarlierOutcome::Failed,
                _ => EarlierOutcome::Unknown,
            };
            Some(EarlierEffect { hash: *hash, outcome })
        });
        list.collect()
    }
}
