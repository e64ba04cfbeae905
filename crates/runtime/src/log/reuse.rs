//! The parts that a fork takes from the record of another run: the outcomes of effects and the values of scripts, as
//! long as their requests are the same. A test of a workflow is given outcomes in the same way, but whatever happened
//! before.
//!
//! Outcomes of a fork are handed over in the order in which they happened in the other run. One that no step waits for
//! when its turn comes lies behind a step that differs, so it is dropped, and that step is performed. What was reused
//! is stored together with the creation of the fork: a crash cannot separate them, and resuming the fork never needs
//! the other run again.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use flowloom_core::effect::Request;
use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::value::Value;

use super::{LogState, RecordedOutcome, ResetAttempts, RunLog};

/// The outcomes and values of another run that a fork can reuse.
#[derive(Default)]
pub(crate) struct ReusableRecord {
    attempts: HashMap<(Path, u32), ReusableAttempt>,
    scripts: HashMap<Path, ReusableScript>,
    /// The outcomes of a test by the hash of their request and the attempt, for steps that have another path now; `None` if
    /// this is the record of a run.
    by_request: Option<HashMap<(Hash, u32), Event>>,
    /// Whether answers of another model than the run asks now count as the same: a fork that begins at a step keeps what was
    /// before that step, also if it chooses other models.
    ignores_models: bool,
}

/// An outcome that a run is given instead of performing an effect.
#[derive(Clone, Debug)]
pub struct Response {
    /// The step.
    pub path: Path,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Hash of the request that it was recorded for; `None` if there is none.
    pub hash: Option<Hash>,
    /// The requests for which the step receives it.
    pub answers: AnsweredRequests,
    /// `step_finished` or `step_failed`.
    pub outcome: Event,
}

/// The requests that an outcome answers.
#[derive(Clone)]
pub enum AnsweredRequests {
    /// Any request.
    Any,
    /// The request with this hash.
    Same(Hash),
    /// Those that the function accepts.
    Accepted(Arc<dyn Fn(&Request) -> bool + Send + Sync>),
}

impl std::fmt::Debug for AnsweredRequests {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AnsweredRequests::Any => formatter.write_str("Any"),
            AnsweredRequests::Same(hash) => formatter.debug_tuple("Same").field(hash).finish(),
            AnsweredRequests::Accepted(_) => formatter.write_str("Accepted"),
        }
    }
}

/// The value of a script.
#[derive(Clone, Debug)]
pub struct ScriptValue {
    /// The path of the script.
    pub path: Path,
    /// Hash of its source and the variables that it reads.
    pub hash: Hash,
    /// Its value; `None` is `undefined`.
    pub value: Option<Value>,
}

/// An attempt of an effect with its outcome.
struct ReusableAttempt {
    answers: AnsweredRequests,
    /// The model, if it was a model call.
    model: Option<Arc<str>>,
    seq: u64,
    at: u64,
    outcome: Event,
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
    /// The reusable part of a record, without the events at the steps `performed` and below. `scripts` are the
    /// hashes of the scripts that it has evaluated.
    pub(crate) fn new(records: &[Arc<Record>], scripts: &HashMap<Path, Hash>, performed: &[Path]) -> ReusableRecord {
        let performed: HashSet<&str> = performed.iter().map(Path::as_str).collect();
        let is_left_out =
            |path: &Path| performed.contains(path.as_str()) || path.ancestors().any(|above| performed.contains(above));
        let records = drop_reset_steps(records);
        let mut reusable = ReusableRecord::default();
        let mut started: HashMap<(Path, u32), StartedAttempt<'_>> = HashMap::new();
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
                Event::StepStarted { kind, hash, target, .. } => {
                    if matches!(&**kind, "python" | "call") {
                        hosts.insert(path.as_str(), *number);
                    }
                    let model = (&**kind == "generate").then(|| target.clone());
                    started.insert(key, StartedAttempt { hash: *hash, model, path: path.as_str() });
                }
                Event::Answered { .. } => drop(answers.insert(path, record.clone())),
                Event::Evaluated { value } => {
                    if let Some(hash) = scripts.get(path) {
                        let script = ReusableScript { hash: *hash, value: value.clone() };
                        reusable.scripts.insert(path.clone(), script);
                    }
                }
                Event::StepFinished { .. } | Event::StepFailed { .. } => {
                    let Some(StartedAttempt { hash, model, path: text }) = started.remove(&key) else { continue };
                    hosts.remove(text);
                    let attempt = ReusableAttempt {
                        answers: AnsweredRequests::Same(hash),
                        model,
                        seq: record.seq,
                        at: record.at,
                        outcome: record.event.clone(),
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

    /// Lets answers of any model count as answers of the one that is asked now.
    pub(crate) fn ignoring_models(self) -> ReusableRecord {
        ReusableRecord { ignores_models: true, ..self }
    }

    /// The responses that a run is given instead of a record, in the order in which they happen.
    pub(crate) fn from_responses(responses: Vec<Response>, scripts: Vec<ScriptValue>) -> ReusableRecord {
        let by_request = responses.iter().filter_map(|response| {
            let key = (response.hash?, response.attempt);
            Some((key, response.outcome.clone()))
        });
        let by_request = Some(by_request.collect());
        let attempt = |(index, response): (usize, Response)| {
            let Response { path, attempt, answers, outcome, hash: _ } = response;
            let seq = index as u64 + 1;
            let (model, answer, child_effects) = (None, None, Vec::new());
            let reusable = ReusableAttempt { answers, model, seq, at: 0, outcome, answer, child_effects };
            ((path, attempt), reusable)
        };
        let script = |script: ScriptValue| (script.path, ReusableScript { hash: script.hash, value: script.value });
        ReusableRecord {
            attempts: responses.into_iter().enumerate().map(attempt).collect(),
            scripts: scripts.into_iter().map(script).collect(),
            by_request,
            ignores_models: false,
        }
    }

    /// The inverse of [`ReusableRecord::from_responses`].
    pub(crate) fn into_responses(self) -> (Vec<Response>, Vec<ScriptValue>) {
        let mut attempts: Vec<_> = self.attempts.into_iter().collect();
        attempts.sort_by_key(|(_, attempt)| attempt.seq);
        let response = |((path, attempt), reusable): ((Path, u32), ReusableAttempt)| Response {
            path,
            attempt,
            hash: match &reusable.answers {
                AnsweredRequests::Same(hash) => Some(*hash),
                AnsweredRequests::Any | AnsweredRequests::Accepted(_) => None,
            },
            answers: reusable.answers,
            outcome: reusable.outcome,
        };
        let script =
            |(path, script): (Path, ReusableScript)| ScriptValue { path, hash: script.hash, value: script.value };
        let mut scripts: Vec<ScriptValue> = self.scripts.into_iter().map(script).collect();
        scripts.sort_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
        (attempts.into_iter().map(response).collect(), scripts)
    }

    /// Whether an outcome is handed over also after the run continued without one.
    fn outlasts_differences(&self) -> bool {
        self.by_request.is_some()
    }

    fn outcome_positions(&self) -> impl Iterator<Item = u64> {
        self.attempts.values().map(|attempt| attempt.seq)
    }
}

/// An attempt whose outcome was not read yet.
struct StartedAttempt<'a> {
    hash: Hash,
    model: Option<Arc<str>>,
    path: &'a str,
}

/// The records whose results still count, with the numbers of their attempts counted from 1 again.
fn drop_reset_steps(records: &[Arc<Record>]) -> Vec<(u32, Arc<Record>)> {
    let reset = ResetAttempts::new(records);
    records.iter().filter_map(|record| Some((reset.count_attempt(record)?, record.clone()))).collect()
}

impl RunLog {
    /// Lets a new run begin with what it can reuse of another one.
    pub(crate) fn reuse_record(&self, reusable: ReusableRecord) {
        let mut state = self.lock_state();
        state.outcomes.extend(reusable.outcome_positions());
        state.live = false;
        state.reusable = Some(reusable);
        self.may_follow.store(true, Ordering::Release);
    }

    /// Whether the run still takes outcomes from another one. Until it does not, nothing is stored and nothing performed.
    pub(crate) fn is_reusing(&self) -> bool {
        let state = self.lock_state();
        state.reusable.is_some() && !state.live
    }

    /// Notes that the interpreter has received an outcome that was not reused: from now on, the run is not the other one.
    pub(crate) fn note_own_outcome(&self) {
        self.has_own_outcomes.store(true, Ordering::Release);
    }

    /// Whether the interpreter has received an outcome that was not reused. Reused ones come first, also in a replay.
    pub(crate) fn has_own_outcomes(&self) -> bool {
        self.has_own_outcomes.load(Ordering::Acquire)
    }

    /// Whether the other run has an outcome of this attempt, whatever its request was.
    pub(crate) fn has_reusable_attempt(&self, path: &Path, attempt: u32) -> bool {
        let state = self.lock_state();
        let is_usable = |reusable: &&ReusableRecord| !state.live || reusable.outlasts_differences();
        let reusable = state.reusable.as_ref().filter(is_usable);
        reusable.is_some_and(|reusable| reusable.attempts.contains_key(&(path.clone(), attempt)))
    }

    /// The outcome of an attempt with the same request in the other run, once it is its turn; `None` if there is none.
    pub(crate) async fn reuse_outcome(
        &self,
        path: &Path,
        attempt: u32,
        request: &Request,
        hash: &Hash,
    ) -> Option<RecordedOutcome> {
        let reused = self.lock_state().take_reusable(path, attempt, request, hash)?;
        let seq = reused.seq;
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
            // The event of the fork records that nothing was performed again.
            let event = match record.event.clone() {
                Event::StepFinished { output, usage, memory, response, .. } => {
                    Event::StepFinished { output, usage, memory, reused: true, response }
                }
                Event::StepFailed { error, then, usage, .. } => Event::StepFailed { error, then, usage, reused: true },
                event => event,
            };
            let number = if record.path == *path { attempt } else { record.attempt };
            self.push_event(&mut state, &record.path, number, event);
        }
        match reused.outcome {
            Event::StepFinished { output, usage, memory, response, .. } => {
                Some(RecordedOutcome::Finished { output, usage, memory, response, is_reused: true })
            }
            Event::StepFailed { error, then, usage, .. } => {
                Some(RecordedOutcome::Failed { error, then, usage, at: reused.at, is_reused: true })
            }
            _ => None,
        }
    }

    /// The value of the same script over the same variables in the other run.
    pub(crate) fn reuse_script(&self, path: &Path, hash: impl FnOnce() -> Hash) -> Option<Option<Value>> {
        let mut state = self.lock_state();
        let is_live = state.live;
        let reusable = state.reusable.as_mut().filter(|reusable| !is_live || reusable.outlasts_differences())?;
        let script = reusable.scripts.remove(path)?;
        (script.hash == hash()).then_some(script.value)
    }
}

impl LogState {
    fn take_reusable(&mut self, path: &Path, attempt: u32, request: &Request, hash: &Hash) -> Option<ReusableAttempt> {
        let reusable = self.reusable.as_mut()?;
        let Some(reused) = reusable.attempts.remove(&(path.clone(), attempt)) else {
            let outcome = reusable.by_request.as_ref()?.get(&(*hash, attempt))?.clone();
            let (model, answer, child_effects) = (None, None, Vec::new());
            let answers = AnsweredRequests::Same(*hash);
            return Some(ReusableAttempt { answers, model, seq: 0, at: 0, outcome, answer, child_effects });
        };
        let earlier_model = reused.model.as_deref().filter(|_| reusable.ignores_models);
        let is_same = match &reused.answers {
            AnsweredRequests::Any => true,
            AnsweredRequests::Same(known) => {
                known == hash || earlier_model.and_then(|model| request.hash_for_model(model)) == Some(*known)
            }
            AnsweredRequests::Accepted(accepts) => accepts(request),
        };
        let is_in_order = reusable.outlasts_differences() || self.outcomes.contains(&reused.seq);
        (is_same && is_in_order).then_some(reused)
    }
}
