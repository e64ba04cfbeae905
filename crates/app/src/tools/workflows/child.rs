//! Workflows started by a step. Each is a child run, which draws on the budget of its parent run and is cancelled with
//! the step.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::effects::EffectContext;
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::{Control, Engine, Run, RunError};
use flowloom_store::Store;

use super::WorkflowHost;
use crate::definitions::bundle::{Bundle, compile_bundle};
use crate::runs::start::{PreparedDefinition, StartRun};

/// Interval of polling a run that another worker drives.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl WorkflowHost {
    /// Runs a definition as a child run, or finds the run that an earlier attempt of this step started. Fails unless
    /// the run succeeds.
    pub(super) async fn run_child(
        &self,
        bundle: Bundle,
        inputs: Value,
        agent: Option<String>,
        context: &EffectContext,
    ) -> Result<ChildOutcome, StepFailure> {
        let ended = self.run_child_to_end(ChildRun { bundle, workflow: None, inputs, agent }, context).await?;
        match (&ended.state.error, ended.state.status) {
            (_, Status::Succeeded) => Ok(ended),
            (Some(error), _) => Err(error.clone()),
            (None, _) => Err(unfinished_error(&ended)),
        }
    }

    /// Runs a definition as a child run and returns its outcome, whatever its status. Its usage is charged to the
    /// parent's budget, and it is cancelled if the step is abandoned.
    pub(super) async fn run_child_to_end(
        &self,
        child: ChildRun,
        context: &EffectContext,
    ) -> Result<ChildOutcome, StepFailure> {
        let plan = compile_bundle(&child.bundle)?;
        let depth = context.depth + 1;
        let limits = context
            .allowance
            .as_ref()
            .map_or(plan.limits.clone(), |allowance| allowance.remaining.narrow_to(&plan.limits));
        if depth > limits.subflow_depth {
            let message = format!("workflows call each other more than {} levels deep", limits.subflow_depth);
            return Err(StepFailure::new(Code::LimitSubflow, message));
        }
        let Some(engine) = self.engine.get().and_then(|make| make(&child.bundle)) else {
            return Err(StepFailure::new(Code::FunctionFailed, "the engine is not ready"));
        };
        // Listed just before the parent run, so that `last` refers to the run that the user started.
        let id = derive_run_id(&context.idempotency_key(), context.run.at_ms().saturating_sub(1));
        let ended = match self.find_started(&engine, id, &plan).await? {
            EarlierRun::Finished(ended) => ended,
            EarlierRun::Unfinished(run) => self.drive_child(run, plan).await?,
            EarlierRun::None => {
                let workflow = PreparedDefinition::new(plan.clone(), engine, &child.bundle)?;
                let start = StartRun {
                    workflow_id: child.workflow,
                    agent: child.agent,
                    depth,
                    id: Some(id),
                    ..StartRun::new(&workflow, child.inputs, &context.user, limits)
                };
                self.drive_child(start.start(&self.store)?.run, plan).await?
            }
        };
        if let Some(allowance) = &context.allowance {
            allowance.add_usage(&ended.state.usage);
        }
        Ok(ended)
    }

    /// Drives a run on its own task, so that it can record its cancellation.
    async fn drive_child(&self, run: Run, plan: Arc<Plan>) -> Result<ChildOutcome, StepFailure> {
        let (id, _given) = (run.id(), CancelOnDrop { run: run.control(), store: self.store.clone() });
        flowloom_runtime::failpoint::hit("child_run_start_before");
        let outcome = run.spawn().await;
        flowloom_runtime::failpoint::hit("child_run_end_after");
        let failed =
            |error| StepFailure::new(Code::FunctionFailed, format!("the run {id} ended unexpectedly: {error}"));
        let outcome = outcome.map_err(failed)?;
        outcome.broken.map_or(Ok(()), Err)?;
        Ok(ChildOutcome { id, plan, state: outcome.state, env: outcome.env })
    }

    /// The state of the run that an earlier attempt of this step may have started. Waits while another worker drives
    /// it.
    async fn find_started(&self, engine: &Engine, id: RunId, plan: &Arc<Plan>) -> Result<EarlierRun, StepFailure> {
        loop {
            let Ok(records) = self.store.read(id, 0).await else { return Ok(EarlierRun::None) };
            let state = RunState::from_records(records.iter().map(|record| &**record))?;
            if state.status.is_final() {
                let env = engine.final_env(records, plan.clone()).await;
                return Ok(EarlierRun::Finished(ChildOutcome { id, plan: plan.clone(), state, env }));
            }
            let resumed = plan.clone();
            match engine.resume_run(id, resumed).await {
                Err(error) if error.is_owned() => tokio::time::sleep(POLL_INTERVAL).await,
                // It has ended since its events were read.
                Err(RunError::Ended(_)) => {}
                run => return Ok(EarlierRun::Unfinished(run?)),
            }
        }
    }
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
    Unfinished(Run),
    Finished(ChildOutcome),
}

/// A child run that has ended or waits.
pub(super) struct ChildOutcome {
    id: RunId,
    pub(super) plan: Arc<Plan>,
    pub(super) state: RunState,
    pub(super) env: Env,
}

/// Cancels a child run when its step is abandoned, unless the run has ended. When the process stops, both are left for
/// recovery.
struct CancelOnDrop {
    run: Control,
    store: Arc<Store>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.store.is_shutting_down() {
            self.run.cancel_run("its step was abandoned");
        }
    }
}

/// The error of a child run that has not ended.
pub(super) fn unfinished_error(ended: &ChildOutcome) -> StepFailure {
    let (id, status) = (ended.id, ended.state.status.name());
    let message = match ended.state.status {
        Status::Waiting => format!("the workflow is waiting for an answer; continue it with flowloom answer {id}"),
        _ => format!("the workflow's run {id} is {status}"),
    };
    StepFailure::new(Code::FunctionFailed, message)
}

/// The id of the run that a step starts, equal for every attempt of that step. Its timestamp is `at_ms`, so that runs
/// are listed in chronological order.
pub fn derive_run_id(key: &str, at_ms: u64) -> RunId {
    let mut random = [0; 10];
    random.copy_from_slice(&Hash::of_bytes(key.as_bytes()).as_bytes()[..10]);
    RunId::new(at_ms, random)
}
