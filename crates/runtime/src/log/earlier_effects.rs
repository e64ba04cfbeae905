//! The child effects of an attempt that failed, for the attempt that retries it: what succeeded is kept, and what may have
//! happened is asked about.

use std::collections::{HashMap, VecDeque};

use flowloom_core::event::{Event, EventKind};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::value::Value;

use super::RunLog;

/// The outcomes of the child effects of an earlier attempt, by the hash of the request, in the order in which they started.
pub(crate) type EarlierEffects = HashMap<Hash, VecDeque<EarlierOutcome>>;

/// The outcome of a child effect of an earlier attempt.
pub(crate) enum EarlierOutcome {
    Finished(Option<Value>),
    Failed,
    /// It was started, and may or may not have happened.
    Unknown,
}

impl RunLog {
    /// The child effects directly below a path.
    pub(crate) fn find_child_effects(&self, above: &Path) -> EarlierEffects {
        let state = self.lock_state();
        let mut started: Vec<_> = state
            .recorded
            .iter()
            .filter(|((path, _, kind), _)| *kind == EventKind::StepStarted && path.parent() == *above)
            .collect();
        started.sort_by_key(|(_, record)| record.seq);
        let mut effects = EarlierEffects::new();
        for ((path, attempt, _), record) in started {
            let Event::StepStarted { hash, .. } = &record.event else { continue };
            let find = |kind| state.recorded.get(&(path.clone(), *attempt, kind));
            let outcome = match find(EventKind::StepFinished).map(|record| &record.event) {
                Some(Event::StepFinished { output, .. }) => EarlierOutcome::Finished(output.clone()),
                _ if find(EventKind::StepFailed).is_some() => EarlierOutcome::Failed,
                _ => EarlierOutcome::Unknown,
            };
            effects.entry(*hash).or_default().push_back(outcome);
        }
        effects
    }
}
