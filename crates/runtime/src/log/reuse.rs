//! What a fork takes from the record of another run: the outcomes of effects and the values of scripts, as long as their
//! requests are the same.
//!
//! Outcomes are handed over in the order in which they happened in the other run. One that nobody waits for when its turn
//! comes lies behind a step that differs, so it is dropped, and that step is performed. What was reused is stored together
//! with the creation of the fork: a crash cannot separate them, and resuming the fork never needs the other run again.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::value::Value;

use super::{LogState, RecordedOutcome, RunLog};

/// The outcomes and values of another run that a fork can reuse.
#[derive(Default)]
pub(crate) struct ReusableRecord {
    attempts: HashMap<(Path, u32), ReusableAttempt>,
    scripts: HashMap<Path, ReusableScript>,
}

/// An attempt of an effect with its outcome.
struct ReusableAttempt {
    hash: Hash,
    outcome: Arc<Record>,
    /// The answer of a person, if it was a question.
    answer: Option<Arc<Record>>,
    /// The events of its child effects.
    child_effects: Vec<Arc<Record>>,
}

struct ReusableScript {
    /// Hash of the source and the variables that it reads.
    hash: Hash,
    value: Option<Value>,
}

impl ReusableRecord {
    /// What can be reused of a record, except for what happened at `at` and below. `scripts` are the hashes of the scripts
    /// that it has evaluated.
    pub(crate) fn new(records: &[Arc<Record>], scripts: &HashMap<Path, Hash>, at: Option<&Path>) -> ReusableRecord {
        let is_left_out = |path: &Path| at.is_some_and(|at| path.is_within(at));
        let records = drop_reset_steps(records);
        let mut reusable = ReusableRecord::default();
        let mut started: HashMap<(Path, u32), (Hash, &str)> = HashMap::new();
        let mut answers: HashMap<&Path, Arc<Record>> = HashMap::new();
        let mut hosts: HashMap<&str, u32> = HashMap::new();
        let mut child_effects: HashMap<&str, Vec<Arc<Record>>> = HashMap::new();
        for (number, record) in &records {
            let path = &record.path;
            if is_left_out(path) {
                continue;
            }
            let key = (path.clone(), *number);
            if let Some(host) = path.ancestors().find_map(|above| hosts.get_key_value(above).map(|(host, _)| *host)) {
                child_effects.entry(host).or_default().push(record.clone());
                continue;
            }
            match &record.event {
                Event::StepStarted { kind, hash, .. } => {
                    if matches!(&**kind, "python" | "call") {
                        hosts.insert(path.as_str(), *number);
                    }
                    started.insert(key, (*hash, path.as_str()));
                }
                Event::Answered { .. } => drop(answers.insert(path, record.clone())),
                Event::Evaluated { value } => {
                    if let Some(hash) = scripts.get(path) {
                        let script = ReusableScript { hash: *hash, value: value.clone() };
                        reusable.scripts.insert(path.clone(), script);
                    }
                }
                Event::StepFinished { .. } | Event::StepFailed { .. } => {
                    let Some((hash, text)) = started.remove(&key) else { continue };
                    hosts.remove(text);
                    let attempt = ReusableAttempt {
                        hash,
                        outcome: record.clone(),
                        answer: answers.get(path).cloned(),
                        child_effects: child_effects.remove(text).unwrap_or_default(),
                    };
                    reusable.attempts.insert(key, attempt);
                }
                _ => {}
            }
        }
        reusable
    }

    fn outcome_positions(&self) -> impl Iterator<Item = u64> {
        self.attempts.values().map(|attempt| attempt.outcome.seq)
    }
}

/// The records whose results still count, with the numbers of their attempts counted from 1 again.
fn drop_reset_steps(records: &[Arc<Record>]) -> Vec<(u32, Arc<Record>)> {
    let mut reset_at: HashMap<&Path, (u64, u32)> = HashMap::new();
    let mut last_attempts: HashMap<&Path, u32> = HashMap::new();
    for record in records {
        if let Event::RunReopened { reset, .. } = &record.event {
            for path in reset {
                reset_at.insert(path, (record.seq, last_attempts.get(path).copied().unwrap_or_default()));
            }
        }
        let last = last_attempts.entry(&record.path).or_default();
        *last = (*last).max(record.attempt);
    }
    let counted = records.iter().filter_map(|record| match reset_at.get(&record.path) {
        Some((seq, _)) if record.seq < *seq => None,
        Some((_, earlier)) => Some((record.attempt.saturating_sub(*earlier), record.clone())),
        None => Some((record.attempt, record.clone())),
    });
    counted.collect()
}

impl RunLog {
    /// Lets a new run begin with what it can reuse of another one.
    pub(crate) fn reuse_record(&self, reusable: ReusableRecord) {
        let mut state = self.lock_state();
        state.outcomes.extend(reusable.outcome_positions());
        state.live = false;
        state.reusable = Some(reusable);
    }

    /// Whether the run still takes outcomes from another one. Until it does not, nothing is stored and nothing performed.
    pub(crate) fn is_reusing(&self) -> bool {
        let state = self.lock_state();
        state.reusable.is_some() && !state.live
    }

    /// Whether the other run has an outcome of this attempt, whatever its request was.
    pub(crate) fn has_reusable_attempt(&self, path: &Path, attempt: u32) -> bool {
        let state = self.lock_state();
        !state.live
            && state.reusable.as_ref().is_some_and(|reusable| reusable.attempts.contains_key(&(path.clone(), attempt)))
    }

    /// The outcome of an attempt with the same request in the other run, once it is its turn; `None` if there is none.
    pub(crate) async fn reuse_outcome(&self, path: &Path, attempt: u32, hash: &Hash) -> Option<RecordedOutcome> {
        let reused = self.lock_state().take_reusable(path, attempt, hash)?;
        let seq = reused.outcome.seq;
        poll_fn(|context| {
            let mut state = self.lock_state();
            if !state.outcomes.contains(&seq) {
                return Poll::Ready(());
            }
            state.turns.insert(seq, context.waker().clone());
            Poll::Pending
        })
        .await;
        let mut state = self.lock_state();
        for record in reused.answer.iter().chain(&reused.child_effects) {
            // The event of the fork says that nothing was performed again.
            let event = match record.event.clone() {
                Event::StepFinished { output, usage, memory, .. } => {
                    Event::StepFinished { output, usage, memory, reused: true }
                }
                event => event,
            };
            let number = if record.path == *path { attempt } else { record.attempt };
            self.push_event(&mut state, &record.path, number, event);
        }
        match &reused.outcome.event {
            Event::StepFinished { output, usage, memory, .. } => Some(RecordedOutcome::Finished {
                output: output.clone(),
                usage: *usage,
                memory: memory.clone(),
                is_reused: true,
            }),
            Event::StepFailed { error, then } => {
                Some(RecordedOutcome::Failed { error: error.clone(), then: then.clone(), at: reused.outcome.at })
            }
            _ => None,
        }
    }

    /// The value of the same script over the same variables in the other run.
    pub(crate) fn reuse_script(&self, path: &Path, hash: impl FnOnce() -> Hash) -> Option<Option<Value>> {
        let mut state = self.lock_state();
        if state.live {
            return None;
        }
        let script = state.reusable.as_mut()?.scripts.remove(path)?;
        (script.hash == hash()).then_some(script.value)
    }
}

impl LogState {
    fn take_reusable(&mut self, path: &Path, attempt: u32, hash: &Hash) -> Option<ReusableAttempt> {
        let reusable = self.reusable.as_mut()?;
        let reused = reusable.attempts.remove(&(path.clone(), attempt))?;
        (reused.hash == *hash && self.outcomes.contains(&reused.outcome.seq)).then_some(reused)
    }
}
