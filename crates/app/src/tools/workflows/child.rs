//! Workflows started by a step. Each is a child run, which draws on the budget of its parent run and is cancelled with
//! the step. The step drives it: also after a crash, and after a command to the child run, which makes the journal ask the
//! parent run to continue.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{ChildSuspension, Event, ParentStep};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::effects::{ChildEffects, Clock as _, EffectContext, effect_key};
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::{JournalError, Run, RunError};

use super::WorkflowHost;
use super::called::ChildOutcome;
use crate::definitions::bundle::Bundle;
use crate::engine_factory::EngineFactory;
use crate::runs::start::{PreparedDefinition, StartRun};

/// Interval of polling a run that another worker drives.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl WorkflowHost {
    /// Runs a definition as a child run, or finds the run that an earlier attempt of this step started. Fails unless
    /// the run succeeds.
    pub(super) async fn run_child(
        &self,
        new_child: impl FnOnce() -> Result<ChildRun, StepFailure>,
        step: &CallingStep<'_>,
    ) -> Result<ChildOutcome, StepFailure> {
        self.run_child_to_end(new_child, step).await?.require_success()
    }

    /// Runs a definition as a child run and returns its outcome, whatever its status. While the child run is suspended, the
    /// step waits. Its usage is charged to the parent's budget, and it is cancelled if the step is abandoned. `new_child` is
    /// only asked for a run that was not started before: one that was keeps its definition.
    pub(super) async fn run_child_to_end(
        &self,
        new_child: impl FnOnce() -> Result<ChildRun, StepFailure>,
        step: &CallingStep<'_>,
    ) -> Result<ChildOutcome, StepFailure> {
        let context = step.context;
        let id = match self.retry_earlier(context).await? {
            Some(earlier) => earlier,
            None => child_run_id(context, context.attempt),
        };
        let engines = self.engine_factory()?;
        let (text, new) = match self.read_started_bundle(id).await? {
            Some(text) => (text, None),
            None => {
                let child = self.check_child(&engines, context, new_child()?)?;
                (child.bundle.to_json()?.into(), Some(child))
            }
        };
        let workflow = engines.prepare_child(text, &self.models)?;
        let (depth, limits) = (context.depth + 1, find_child_limits(context, &workflow.plan)?);
        let start = || {
            let Some(child) = &new else { return Err(JournalError::RunNotFound(id).into()) };
            if self.store.count_tree_runs(context.run)? >= limits.child_runs {
                let message = format!("the run and its child runs have started {} child runs", limits.child_runs);
                return Err(note_limit(context, StepFailure::new(Code::LimitChildRuns, message)));
            }
            let start = StartRun {
                workflow_id: child.workflow.clone(),
                agent: child.agent.clone(),
                depth,
                parent: Some(ParentStep { run: context.run, path: context.path.clone() }),
                trace: context.trace.as_ref().map(|trace| trace.of_child(context.run, &context.path)),
                asks_first: context.asks_first,
                id: Some(id),
                ..StartRun::new(&workflow, child.inputs.clone(), &context.user, limits.clone())
            };
            Ok(start.start(&self.store)?.run)
        };
        let ended = self.drive_to_end(&engines, &workflow, id, step, start).await?;
        charge_child_run(context, &ended.state);
        Ok(ended)
    }

    /// A child run that may be started by a step: with values that a caller chose if the step has such values. Fails with
    /// `SecretDenied` if its definition is a user's, and what it returns could carry a secret of the operator away.
    fn check_child(
        &self,
        engines: &EngineFactory,
        context: &EffectContext,
        mut child: ChildRun,
    ) -> Result<ChildRun, StepFailure> {
        child.bundle.is_steered |= self.bundle.is_steered;
        if let Some(user) = &child.bundle.tenant {
            engines.check_definition_of_user(context.run, user)?;
        }
        Ok(child)
    }

    /// If the parent run is retried, retries the child run of the attempt that failed, so that what succeeded in it is kept;
    /// `None` if there is none that can be retried.
    async fn retry_earlier(&self, context: &EffectContext) -> Result<Option<RunId>, StepFailure> {
        for attempt in (1..=context.retried_attempt).rev() {
            let id = child_run_id(context, attempt);
            // The same id for each time that this attempt is performed.
            let command = RunCommand {
                id: format!("retry-{}", context.attempt),
                sender: format!("the run {}", context.run),
                action: CommandAction::Retry { from: None },
            };
            loop {
                let posted = self.store.post_command(id, command.clone(), SystemClock.now_ms()).await;
                match posted.map_err(JournalError::from) {
                    Ok(_) => return Ok(Some(id)),
                    Err(JournalError::RunNotFound(_)) => break,
                    Err(error) if error.is_outage() => tokio::time::sleep(POLL_INTERVAL).await,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(None)
    }

    /// The text of the bundle of a run that an earlier attempt of this step has started; `None` if there is none.
    async fn read_started_bundle(&self, id: RunId) -> Result<Option<Arc<str>>, StepFailure> {
        loop {
            match self.store.read_events(id, 0, 1).map_err(JournalError::from) {
                Ok(records) => {
                    let created = records.first().map(|record| &record.event);
                    let Some(Event::RunCreated(created)) = created else { return Ok(None) };
                    return Ok(Some(self.store.read_bundle(created.bundle).map_err(|error| error.of_run(id))?));
                }
                Err(JournalError::RunNotFound(_)) => return Ok(None),
                Err(error) if error.is_outage() => tokio::time::sleep(POLL_INTERVAL).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Drives the run `id`, which `start` starts unless it was started before, until it ends.
    async fn drive_to_end(
        &self,
        engines: &EngineFactory,
        workflow: &PreparedDefinition,
        id: RunId,
        step: &CallingStep<'_>,
        start: impl Fn() -> Result<Run, StepFailure>,
    ) -> Result<ChildOutcome, StepFailure> {
        let (context, parent) = (step.context, step.effects);
        loop {
            let seen = parent.resume_count();
            let place = engines.child_places.acquire_place(context.depth + 1, &context.user).await;
            let run = match self.find_started(workflow, id).await? {
                EarlierRun::None => match start() {
                    Err(error) if error.code.is_store_outage() => {
                        tokio::time::sleep(POLL_INTERVAL).await;
                        continue;
                    }
                    run => run?,
                },
                EarlierRun::Interrupted(run) => run,
                EarlierRun::Suspended(child) => {
                    drop(place);
                    parent.wait_for_child(child, seen).await;
                    continue;
                }
                EarlierRun::Ended(ended) => return Ok(*ended),
            };
            parent.record_child_resumed(id);
            flowloom_runtime::failpoint::hit("child_run_start_before");
            // On its own task, so that it can record its cancellation.
            let outcome = run.spawn().await;
            drop(place);
            flowloom_runtime::failpoint::hit("child_run_end_after");
            let failed =
                |error| StepFailure::new(Code::FunctionFailed, format!("the run {id} ended unexpectedly: {error}"));
            let outcome = outcome.map_err(failed)?;
            if let Some(telemetry) = engines.trace_exporter().filter(|_| outcome.broken.is_none()) {
                telemetry.export_run(&outcome.state);
            }
            match (outcome.broken, outcome.state.to_child_suspension()) {
                // The worker that has claimed it drives it on.
                (Some(error), _) if error.is_ownership_lost() => {}
                // The run is as it was stored, and is driven on from there.
                (Some(error), _) if error.is_outage() => tokio::time::sleep(POLL_INTERVAL).await,
                (Some(error), _) => return Err(error.into()),
                (None, Some(child)) => parent.wait_for_child(child, seen).await,
                (None, None) => {
                    return Ok(ChildOutcome { plan: workflow.plan.clone(), state: outcome.state, env: outcome.env });
                }
            }
        }
    }

    /// The run that an earlier attempt of this step may have started. Waits while another worker drives it.
    async fn find_started(&self, workflow: &PreparedDefinition, id: RunId) -> Result<EarlierRun, StepFailure> {
        let PreparedDefinition { plan, engine, .. } = workflow;
        loop {
            let records = match self.store.read(id, 0).await {
                Ok(records) => records,
                Err(JournalError::RunNotFound(_)) => return Ok(EarlierRun::None),
                Err(error) if error.is_outage() => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let state = RunState::from_records(records.iter().map(|record| &**record))?;
            // A run that has ended and has a command is about to be retried.
            let is_at_rest = match self.store.is_at_rest(id).map_err(JournalError::from) {
                Err(error) if error.is_outage() => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                is_at_rest => is_at_rest?,
            };
            if state.status.is_final() && is_at_rest {
                let env = engine.final_env(records, plan.clone()).await;
                return Ok(EarlierRun::Ended(Box::new(ChildOutcome { plan: plan.clone(), state, env })));
            }
            // A person who resumes the parent run resumes a child run that is quarantined, too.
            if let Some(child) = state.to_child_suspension().filter(|child| child.status != Status::Quarantined)
                && is_at_rest
            {
                return Ok(EarlierRun::Suspended(child));
            }
            match engine.resume_run(id, plan.clone()).await {
                Err(error) if error.is_owned() || error.is_outage() => tokio::time::sleep(POLL_INTERVAL).await,
                // It has ended since its events were read.
                Err(RunError::Ended(_)) => {}
                run => return Ok(EarlierRun::Interrupted(run?)),
            }
        }
    }
}

/// The step that runs a workflow.
pub(super) struct CallingStep<'a> {
    pub(super) context: &'a EffectContext,
    pub(super) effects: &'a dyn ChildEffects,
}

/// A child run to start.
pub(super) struct ChildRun {
    pub(super) bundle: Bundle,
    /// Id of the definition.
    pub(super) workflow: Option<String>,
    pub(super) inputs: Value,
    pub(super) agent: Option<String>,
}

/// The child run of an earlier attempt.
enum EarlierRun {
    None,
    /// It waits, and has received no command.
    Suspended(ChildSuspension),
    Interrupted(Run),
    Ended(Box<ChildOutcome>),
}

/// The limits of a child run that a step starts. Fails with `LimitSubflow` if workflows call each other too deep.
pub(crate) fn find_child_limits(context: &EffectContext, plan: &Plan) -> Result<Limits, StepFailure> {
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
pub(crate) fn charge_child_run(context: &EffectContext, state: &RunState) {
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
fn note_limit(context: &EffectContext, error: StepFailure) -> StepFailure {
    if let Some(allowance) = &context.allowance {
        allowance.note_exceeded_limit(error.clone());
    }
    error
}

fn child_run_id(context: &EffectContext, attempt: u32) -> RunId {
    find_child_run_id(context.run, &context.path, attempt)
}

/// The id of the child run that an attempt of a step starts. It is listed just before the parent run, so that `last` refers
/// to the run that the user started.
pub(crate) fn find_child_run_id(run: RunId, path: &Path, attempt: u32) -> RunId {
    derive_run_id(&effect_key(run, path, attempt), run.at_ms().saturating_sub(1))
}

/// The id of the run that a step starts, equal for every attempt of that step. Its timestamp is `at_ms`, so that runs
/// are listed in chronological order.
pub fn derive_run_id(key: &str, at_ms: u64) -> RunId {
    let mut random = [0; 10];
    random.copy_from_slice(&Hash::of_bytes(key.as_bytes()).as_bytes()[..10]);
    RunId::new(at_ms, random)
}
