//! Workflows started by a step. Each is a child run, which draws on the budget of its parent run and is cancelled with
//! the step. The step drives it: also after a crash, and after a command to the child run, which makes the journal ask the
//! parent run to continue.
//!
//! The caller knows the definition of the child run, and a [`ChildRunHost`] drives it.

use std::future::Future;
use std::sync::{Arc, Weak};

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{ChildSuspension, ParentStep};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::RunState;
use flowloom_core::status::Status;

use crate::command::{CommandAction, RunCommand};
use crate::effects::{BoxFuture, ChildEffects, Clock, EffectContext, effect_key};
use crate::engine::Engine;
use crate::error::{JournalError, RunError};
use crate::outcome::RunOutcome;
use crate::remote::DriveState;
use crate::run::Run;

/// Interval of polling a run that another worker drives, and a journal that cannot be reached, in milliseconds.
const POLL_INTERVAL_MS: u64 = 100;

/// A process in which steps drive child runs.
pub trait ChildRunHost: Send + Sync {
    /// A place for a child run that is driven, which is free again when this is dropped.
    type Place: Send;

    /// The clock of the process.
    fn clock(&self) -> &dyn Clock;

    /// Waits for a place at a depth of nesting, which is at least 1.
    fn acquire_place(&self, depth: u32, user: &Arc<str>) -> impl Future<Output = Self::Place> + Send;

    /// Stores the command with which the step `parent` retries a child run. Fails if there is no such run, with
    /// `OwnershipLost` if the lease of the step is, or if the journal cannot be written.
    fn post_retry(
        &self,
        run: RunId,
        command: RunCommand,
        parent: ParentStep,
    ) -> impl Future<Output = Result<(), JournalError>> + Send;

    /// Whether a worker drives a run, or a command to it is pending. Fails if the journal cannot be read.
    fn read_drive_state(&self, run: RunId) -> impl Future<Output = Result<DriveState, JournalError>> + Send;

    /// Drives the run that `opening` opens until it ends or waits, all of it on a task of its own: when the step is
    /// abandoned, the run can record its cancellation, and no run is left that this process has claimed and does not drive.
    /// Fails if the run cannot be opened, or if the task ends before the run.
    fn drive_run(&self, opening: OpeningRun) -> impl Future<Output = Result<RunOutcome, ChildRunError>> + Send;
}

/// A run that is being claimed, or that was just started.
pub type OpeningRun = BoxFuture<'static, Result<Run, RunError>>;

/// Why a child run has no outcome.
pub enum ChildRunError {
    /// It cannot be opened.
    Unopened(RunError),
    /// Its task has ended, for this reason.
    Aborted(String),
}

/// The step that runs a workflow.
pub struct CallingStep<'a> {
    /// The attempt at the step.
    pub context: &'a EffectContext,
    /// The run of the step.
    pub effects: &'a dyn ChildEffects,
}

/// A child run that a step drives, whether it was started before or not.
pub struct ChildRun {
    /// Its id.
    pub id: RunId,
    /// Its plan.
    pub plan: Arc<Plan>,
    /// Its engine.
    pub engine: Engine,
}

/// A child run that has ended.
pub struct ChildOutcome {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// Its final state.
    pub state: RunState,
    /// Its final variables, conversations and transcript.
    pub env: Env,
}

impl ChildOutcome {
    /// The same outcome. Fails unless the run has succeeded.
    pub fn require_success(self) -> Result<ChildOutcome, StepFailure> {
        match (&self.state.error, self.state.status) {
            // It is what the child run recorded, not an outage now.
            (Some(error), status) if status != Status::Succeeded && error.code.is_store_outage() => {
                Err(StepFailure::new(Code::FunctionFailed, error.message.clone()))
            }
            (Some(error), status) if status != Status::Succeeded => Err(error.clone()),
            _ => Ok(self),
        }
    }
}

/// The child run of an earlier attempt.
enum EarlierRun {
    None,
    /// It waits, and has received no command.
    Suspended(ChildSuspension),
    Interrupted,
    Ended(Box<ChildOutcome>),
}

/// The child run of a step: the one that the step would start, or, if the parent run is retried, that of the attempt that
/// failed. That one is retried, so that what succeeded in it is kept. Fails if the journal refuses the command to it.
pub async fn choose_child_run(host: &impl ChildRunHost, context: &EffectContext) -> Result<RunId, StepFailure> {
    for attempt in (1..=context.retried_attempt).rev() {
        let id = find_child_run_id(context.run, &context.path, attempt);
        // The same id for each time that this attempt is performed.
        let command = RunCommand {
            id: format!("retry-{}", context.attempt),
            sender: retry_sender(context.run),
            action: CommandAction::Retry { from: None },
        };
        match repeat_in_outage(host.clock(), || host.post_retry(id, command.clone(), context.as_parent())).await {
            Ok(()) => return Ok(id),
            Err(JournalError::RunNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(find_child_run_id(context.run, &context.path, context.attempt))
}

/// The sender of the commands with which the steps of a run retry its child runs.
pub fn retry_sender(parent: RunId) -> String {
    format!("the run {parent}")
}

/// Drives a child run, which `start` starts unless it was started before, until it ends, and charges the budget of the
/// parent run with what it has used. While it is suspended, the step waits. Fails if `start` does, or if the journal
/// refuses the run.
pub async fn drive_child_run(
    host: &impl ChildRunHost,
    child: &ChildRun,
    step: &CallingStep<'_>,
    start: impl Fn() -> Result<Run, StepFailure>,
) -> Result<ChildOutcome, StepFailure> {
    let (context, parent) = (step.context, step.effects);
    let (attempt, mut is_refused) = (Arc::new(()), false);
    let pause = || host.clock().sleep_for(POLL_INTERVAL_MS);
    loop {
        let seen = parent.resume_count();
        let place = host.acquire_place(context.depth + 1, &context.user).await;
        let opening: OpeningRun = match find_started(host, child).await? {
            // Its parent run has ended or is driven by another worker, so this one has lost it.
            EarlierRun::None if is_refused => return Err(JournalError::OwnershipLost.into()),
            EarlierRun::None => match start() {
                // This process may be about to store it, for a step that was interrupted.
                Err(error) if error.code.is_store_outage() || error.code == Code::RunOwned => {
                    pause().await;
                    continue;
                }
                run => Box::pin(open_started(run?, Arc::downgrade(&attempt))),
            },
            EarlierRun::Interrupted => {
                let (engine, id, plan, step) =
                    (child.engine.clone(), child.id, child.plan.clone(), context.as_parent());
                Box::pin(async move { engine.resume_child_run(id, plan, step).await })
            }
            EarlierRun::Suspended(suspension) => {
                drop(place);
                parent.wait_for_child(suspension, seen).await;
                continue;
            }
            EarlierRun::Ended(ended) => {
                charge_child_run(context, &ended.state);
                return Ok(*ended);
            }
        };
        parent.record_child_resumed(child.id);
        let driven = drive_opening(host, child.id, opening).await;
        drop(place);
        match driven? {
            Ok(outcome) => match outcome.state.to_child_suspension() {
                Some(suspension) => parent.wait_for_child(suspension, seen).await,
                None => {
                    charge_child_run(context, &outcome.state);
                    return Ok(ChildOutcome { plan: child.plan.clone(), state: outcome.state, env: outcome.env });
                }
            },
            // It has ended since its events were read, and is about to be released.
            Err(RunError::Ended(_)) => pause().await,
            // Another worker drives it on, or it is driven on from where it was stored.
            Err(error) if error.is_owned() || error.is_ownership_lost() || error.is_outage() => {
                is_refused = error.is_ownership_lost();
                pause().await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Drives a child run until it ends or waits. The outcome of the run is an error if it is no longer driven for another
/// reason.
async fn drive_opening(
    host: &impl ChildRunHost,
    id: RunId,
    opening: OpeningRun,
) -> Result<Result<RunOutcome, RunError>, StepFailure> {
    crate::failpoint::hit("child_run_start_before");
    let driven = host.drive_run(opening).await;
    crate::failpoint::hit("child_run_end_after");
    match driven {
        // The step may not drive it any more.
        Err(ChildRunError::Unopened(error)) if error.is_ownership_lost() => Err(error.into()),
        Ok(RunOutcome { broken: Some(error), .. }) | Err(ChildRunError::Unopened(error)) => Ok(Err(error)),
        Ok(outcome) => Ok(Ok(outcome)),
        Err(ChildRunError::Aborted(reason)) => {
            let message = format!("the run {id} ended unexpectedly: {reason}");
            Err(StepFailure::new(Code::FunctionFailed, message))
        }
    }
}

/// Opens a run that was just started, unless its step is abandoned by now: no event would cancel it.
async fn open_started(run: Run, attempt: Weak<()>) -> Result<Run, RunError> {
    match attempt.strong_count() {
        0 => {
            run.abandon_start();
            Err(JournalError::OwnershipLost.into())
        }
        _ => Ok(run),
    }
}

/// The run that an earlier attempt of this step may have started.
async fn find_started(host: &impl ChildRunHost, child: &ChildRun) -> Result<EarlierRun, StepFailure> {
    let ChildRun { id, plan, engine } = child;
    // Before the record: a run at rest stays as it is until this step drives it, or a command asks the run of the step to
    // continue. One that another process drives may end in between.
    let drive_state = repeat_in_outage(host.clock(), || host.read_drive_state(*id)).await?;
    let records = match repeat_in_outage(host.clock(), || engine.journal().read(*id, 0)).await {
        Err(JournalError::RunNotFound(_)) => return Ok(EarlierRun::None),
        records => records?,
    };
    let state = RunState::from_records(records.iter().map(|record| &**record))?;
    // A run that has ended and has a command is about to be retried.
    let is_at_rest = drive_state == DriveState::AtRest;
    if state.status.is_final() && is_at_rest {
        let env = engine.final_env(records, plan.clone()).await?;
        return Ok(EarlierRun::Ended(Box::new(ChildOutcome { plan: plan.clone(), state, env })));
    }
    // A person who resumes the parent run resumes a child run that is quarantined, too.
    match state.to_child_suspension().filter(|child| child.status != Status::Quarantined) {
        Some(suspension) if is_at_rest => Ok(EarlierRun::Suspended(suspension)),
        _ => Ok(EarlierRun::Interrupted),
    }
}

/// Calls the journal until it can be reached. Fails with another error of the journal.
pub async fn repeat_in_outage<T, F>(clock: &dyn Clock, call: impl Fn() -> F) -> Result<T, JournalError>
where
    F: Future<Output = Result<T, JournalError>>,
{
    loop {
        match call().await {
            Err(error) if error.is_outage() => clock.sleep_for(POLL_INTERVAL_MS).await,
            result => return result,
        }
    }
}

/// The limits of a child run that a step starts. Fails with `LimitSubflow` if workflows call each other too deep.
pub fn find_child_limits(context: &EffectContext, plan: &Plan) -> Result<Limits, StepFailure> {
    let remaining = context.allowance.as_ref().map(|allowance| allowance.remaining.clone());
    let limits = remaining.unwrap_or_default().narrow_to(&plan.limits);
    if context.depth < limits.subflow_depth {
        return Ok(limits);
    }
    let message = format!("workflows call each other more than {} levels deep", limits.subflow_depth);
    Err(note_limit(context, StepFailure::new(Code::LimitSubflow, message)))
}

/// Charges the budget of the calling run with what a child run has used, and ends the calling run, too, if the child run has
/// reached a limit.
pub fn charge_child_run(context: &EffectContext, state: &RunState) {
    if let Some(allowance) = &context.allowance {
        allowance.add_usage(&state.usage_since_reopened());
    }
    let is_limit = |error: &StepFailure| state.status == Status::BudgetExceeded || error.code == Code::LimitSubflow;
    if let Some(error) = state.error.clone().filter(is_limit) {
        note_limit(context, error);
    }
}

/// Ends the calling run, too, because of a limit: whatever the step does with a failure, the limits are those of all runs
/// around the child run.
pub fn note_limit(context: &EffectContext, error: StepFailure) -> StepFailure {
    if let Some(allowance) = &context.allowance {
        allowance.note_exceeded_limit(error.clone());
    }
    error
}

/// The id of the child run that an attempt of a step starts. It is listed just before the parent run, so that `last` refers
/// to the run that the user started.
pub fn find_child_run_id(run: RunId, path: &Path, attempt: u32) -> RunId {
    derive_run_id(&effect_key(run, path, attempt), run.at_ms().saturating_sub(1))
}

/// The id of the run that a step starts, equal for every attempt of that step. Its timestamp is `at_ms`, so that runs
/// are listed in chronological order.
pub fn derive_run_id(key: &str, at_ms: u64) -> RunId {
    let mut random = [0; 10];
    random.copy_from_slice(&Hash::of_bytes(key.as_bytes()).as_bytes()[..10]);
    RunId::new(at_ms, random)
}
