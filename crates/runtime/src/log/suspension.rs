//! Steps that wait for a person, and the commands that end their wait.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use flowloom_core::event::{Event, Resolution};
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use super::{LogState, RunLog};
use crate::command::{CommandAction, CommandOutcome, DecidedCommand, RunCommand};
use crate::error::RunError;
use crate::schema::validation_errors;

/// A step that waits for a person.
pub(super) struct SuspendedStep {
    attempt: u32,
    wait: PersonWait,
    waker: Waker,
}

/// The decision of a person that a suspended step waits for.
#[derive(Clone, PartialEq)]
enum PersonWait {
    /// An answer that matches the schema.
    Answer { schema: Option<Value> },
    /// A decision about its uncertain effect.
    Resolution,
}

impl LogState {
    /// Whether an uncertain effect waits for a decision.
    pub(super) fn has_uncertain_step(&self) -> bool {
        self.suspended.values().any(|step| step.wait == PersonWait::Resolution)
    }
}

/// How often the driver has read the whole inbox and decided about it because the time of a question had come.
#[derive(Default)]
pub(super) struct ExpiryRounds {
    started: u64,
    ended: u64,
}

impl RunLog {
    /// Waits for an answer that matches `schema` to the question at `path`.
    pub(crate) async fn wait_for_answer(&self, path: &Path, attempt: u32, schema: Option<&Value>) -> Value {
        let wait = PersonWait::Answer { schema: schema.cloned() };
        self.suspend_until(path, attempt, wait, |state| state.answers.get(path).cloned()).await
    }

    /// Completes once a round has ended that started after this call: an answer that was stored in time counts, although no
    /// worker drove the run before the question expired.
    pub(crate) async fn wait_for_decisions(&self) {
        let started = self.lock_state().expiry_rounds.started;
        poll_fn(|context| {
            let mut state = self.lock_state();
            if state.expiry_rounds.ended > started {
                return Poll::Ready(());
            }
            state.expiring.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether the time of a question has come.
    pub(crate) fn has_expiring_questions(&self) -> bool {
        !self.lock_state().expiring.is_empty()
    }

    /// Starts a round of decisions, before the inbox is read for it. Returns `false` if one has not ended.
    pub(crate) fn start_expiry_round(&self) -> bool {
        let rounds = &mut self.lock_state().expiry_rounds;
        let is_new = rounds.started == rounds.ended;
        rounds.started += u64::from(is_new);
        is_new
    }

    /// Ends the round: no command is left to decide about, so the questions expire whose time had come when it started.
    pub(crate) fn end_expiry_round(&self) {
        let mut state = self.lock_state();
        state.expiry_rounds.ended = state.expiry_rounds.started;
        let expiring = std::mem::take(&mut state.expiring);
        drop(state);
        expiring.into_iter().for_each(Waker::wake);
    }

    /// Waits for the decision about the uncertain effect at `path`.
    pub(crate) async fn wait_for_resolution(&self, path: &Path, attempt: u32) -> Resolution {
        let find = |state: &LogState| state.resolutions.get(&(path.clone(), attempt)).cloned();
        self.suspend_until(path, attempt, PersonWait::Resolution, find).await
    }

    async fn suspend_until<T>(
        &self,
        path: &Path,
        attempt: u32,
        wait: PersonWait,
        find: impl Fn(&LogState) -> Option<T>,
    ) -> T {
        let _guard = SuspensionGuard { log: self, path };
        poll_fn(|context| {
            let mut state = self.lock_state();
            match find(&state) {
                Some(found) => Poll::Ready(found),
                None => {
                    let step = SuspendedStep { attempt, wait: wait.clone(), waker: context.waker().clone() };
                    state.suspended.insert(path.clone(), step);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Whether the step that a command is about may still begin to wait for it, because a block or function that runs
    /// now has it as a child effect.
    pub(crate) fn may_begin_to_wait(&self, command: &RunCommand) -> bool {
        let Some(path) = command.action.path().filter(|_| !command.action.needs_ended_run()) else { return false };
        let state = self.lock_state();
        let is_decided = state.suspended.contains_key(path)
            || state.answers.contains_key(path)
            || state.resolutions.keys().any(|(resolved, _)| resolved == path);
        state.active > 0 && !is_decided && path.ancestors().any(|above| state.hosts.contains(above))
    }

    /// Applies an answer or a decision to the step that waits for it, or rejects it; either way the decision is stored
    /// together with the event. Returns whether a step continues.
    pub(crate) fn decide_command(&self, command: RunCommand) -> bool {
        crate::failpoint::hit("command_decision_before");
        let RunCommand { id, sender, action } = command;
        let decided = match action {
            CommandAction::Cancel {} => Ok(false),
            CommandAction::Resume { now_ms } => {
                let is_due = now_ms.is_some_and(|now_ms| self.note_time(now_ms));
                Ok(self.wake_child_waits(&mut self.lock_state()) || is_due)
            }
            CommandAction::Retry { .. } => Err(RunError::NotEnded(Status::Running)),
            CommandAction::Unknown {} => Err(RunError::UnknownCommand),
            CommandAction::Answer { path, value } => self.apply_answer(&path, value, sender).map(|()| true),
            CommandAction::Resolve { path, how } => self.apply_resolution(&path, how, sender).map(|()| true),
        };
        let (outcome, continues) = match decided {
            Ok(continues) => (CommandOutcome::Applied, continues),
            Err(error) => (CommandOutcome::Rejected(error.into()), false),
        };
        self.lock_state().pending.decided.push(DecidedCommand { id, outcome });
        crate::failpoint::hit("command_decision_after");
        continues
    }

    fn apply_answer(&self, path: &Path, value: Value, by: String) -> Result<(), RunError> {
        let mut state = self.lock_state();
        let (attempt, schema) = match state.suspended.get(path) {
            Some(SuspendedStep { attempt, wait: PersonWait::Answer { schema }, .. }) => (*attempt, schema.as_ref()),
            _ if state.answers.contains_key(path) => return Err(RunError::AlreadyAnswered(path.clone())),
            _ => return Err(RunError::NotWaiting(path.clone())),
        };
        if let Some(problems) = schema.and_then(|schema| validation_errors(schema, &value)) {
            return Err(RunError::InvalidAnswer(problems));
        }
        state.answers.insert(path.clone(), value.clone());
        self.wake_suspended(&mut state, path, attempt, Event::Answered { value, by })
    }

    fn apply_resolution(&self, path: &Path, how: Resolution, by: String) -> Result<(), RunError> {
        let mut state = self.lock_state();
        let attempt = match state.suspended.get(path) {
            Some(SuspendedStep { attempt, wait: PersonWait::Resolution, .. }) => *attempt,
            _ if state.resolutions.keys().any(|(resolved, _)| resolved == path) => {
                return Err(RunError::AlreadyResolved(path.clone()));
            }
            _ => return Err(RunError::NotWaiting(path.clone())),
        };
        state.resolutions.insert((path.clone(), attempt), how.clone());
        self.wake_suspended(&mut state, path, attempt, Event::Resolved { how, by })
    }

    /// Appends the event that a suspended step waits for, and wakes the step.
    fn wake_suspended(&self, state: &mut LogState, path: &Path, attempt: u32, event: Event) -> Result<(), RunError> {
        let step = state.suspended.remove(path).ok_or_else(|| RunError::NotWaiting(path.clone()))?;
        self.push_event(state, path, attempt, event);
        step.waker.wake();
        Ok(())
    }
}

/// Removes a step from the suspended ones when its branch ends.
struct SuspensionGuard<'a> {
    log: &'a RunLog,
    path: &'a Path,
}

impl Drop for SuspensionGuard<'_> {
    fn drop(&mut self) {
        self.log.lock_state().suspended.remove(self.path);
    }
}
