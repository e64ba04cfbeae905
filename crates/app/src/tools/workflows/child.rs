//! The definitions of child runs: which one a step starts, with which bundle, secrets and limits. The step drives it as
//! [`flowloom_runtime::child_run`] says.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, ParentStep};
use flowloom_core::id::RunId;
use flowloom_core::value::Value;
use flowloom_runtime::child_run::{
    CallingStep, ChildOutcome, ChildRun, ChildRunError, ChildRunHost, OpeningRun, choose_child_run, drive_child_run,
    find_child_limits, note_limit, repeat_in_outage,
};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::{Clock, EffectContext};
use flowloom_runtime::fair::FairPermit;
use flowloom_runtime::remote::DriveState;
use flowloom_runtime::{JournalError, RunOutcome};
use flowloom_store::Store;

use super::WorkflowHost;
use crate::definitions::bundle::Bundle;
use crate::engine_factory::EngineFactory;
use crate::runs::start::StartRun;

impl WorkflowHost {
    /// Runs a definition as a child run, or finds the run that an earlier attempt of this step started. Fails unless
    /// the run succeeds.
    pub(super) async fn run_child(
        &self,
        new_child: impl FnOnce() -> Result<NewChildRun, StepFailure>,
        step: &CallingStep<'_>,
    ) -> Result<ChildOutcome, StepFailure> {
        self.run_child_to_end(new_child, step).await?.require_success()
    }

    /// Runs a definition as a child run and returns its outcome, whatever its status. While the child run is suspended, the
    /// step waits. Its usage is charged to the parent's budget, and it is cancelled if the step is abandoned. `new_child` is
    /// only asked for a run that was not started before: one that was keeps its definition.
    pub(super) async fn run_child_to_end(
        &self,
        new_child: impl FnOnce() -> Result<NewChildRun, StepFailure>,
        step: &CallingStep<'_>,
    ) -> Result<ChildOutcome, StepFailure> {
        let context = step.context;
        let engines = self.engine_factory()?;
        let process = ChildRunProcess { store: &self.store, engines: &engines };
        let id = choose_child_run(&process, context).await?;
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
                parent: Some(context.as_parent()),
                trace: context.trace.as_ref().map(|trace| trace.of_child(context.run, &context.path)),
                asks_first: context.asks_first,
                id: Some(id),
                ..StartRun::new(&workflow, child.inputs.clone(), &context.user, limits.clone())
            };
            Ok(start.start(&self.store)?.run)
        };
        let child = ChildRun { id, plan: workflow.plan.clone(), engine: workflow.engine.clone() };
        drive_child_run(&process, &child, step, start).await
    }

    /// A child run that may be started by a step: with values that a caller chose if the step has such values. Fails with
    /// `SecretDenied` if its definition is a user's, and what it returns could carry a secret of the operator away.
    fn check_child(
        &self,
        engines: &EngineFactory,
        context: &EffectContext,
        mut child: NewChildRun,
    ) -> Result<NewChildRun, StepFailure> {
        child.bundle.is_steered |= self.bundle.is_steered;
        if let Some(user) = &child.bundle.tenant {
            engines.check_definition_of_user(context.run, user)?;
        }
        Ok(child)
    }

    /// The text of the bundle of a run that an earlier attempt of this step has started; `None` if there is none.
    async fn read_started_bundle(&self, id: RunId) -> Result<Option<Arc<str>>, StepFailure> {
        let read = || std::future::ready(self.store.read_events(id, 0, 1).map_err(JournalError::from));
        let records = match repeat_in_outage(&SystemClock, read).await {
            Err(JournalError::RunNotFound(_)) => return Ok(None),
            records => records?,
        };
        match records.first().map(|record| &record.event) {
            Some(Event::RunCreated(created)) => {
                Ok(Some(self.store.read_bundle(created.bundle).map_err(|error| error.of_run(id))?))
            }
            _ => Ok(None),
        }
    }
}

/// A child run to start.
pub(super) struct NewChildRun {
    pub(super) bundle: Bundle,
    /// Id of the definition.
    pub(super) workflow: Option<String>,
    pub(super) inputs: Value,
    pub(super) agent: Option<String>,
}

/// This process, as far as it drives child runs.
struct ChildRunProcess<'a> {
    store: &'a Store,
    engines: &'a EngineFactory,
}

impl ChildRunHost for ChildRunProcess<'_> {
    type Place = FairPermit;

    fn clock(&self) -> &dyn Clock {
        &SystemClock
    }

    async fn acquire_place(&self, depth: u32, user: &Arc<str>) -> FairPermit {
        self.engines.child_places.acquire_place(depth, user).await
    }

    async fn post_retry(&self, run: RunId, command: RunCommand, parent: ParentStep) -> Result<(), JournalError> {
        Ok(self.store.post_retry_by_step(run, command, SystemClock.now_ms(), parent).await.map(drop)?)
    }

    async fn read_drive_state(&self, run: RunId) -> Result<DriveState, JournalError> {
        Ok(self.store.read_drive_state(run)?)
    }

    async fn drive_run(&self, opening: OpeningRun) -> Result<RunOutcome, ChildRunError> {
        let driven = tokio::spawn(async move {
            let run = opening.await?;
            let is_driven_here = run.is_local();
            Ok((run.drive_to_end().await, is_driven_here))
        });
        let driven = driven.await.map_err(|error| ChildRunError::Aborted(error.to_string()))?;
        let (outcome, is_driven_here): (RunOutcome, bool) = driven.map_err(ChildRunError::Unopened)?;
        // The worker that drives a run exports it.
        let telemetry = self.engines.trace_exporter().filter(|_| is_driven_here && outcome.broken.is_none());
        if let Some(telemetry) = telemetry {
            telemetry.export_run(&outcome.state);
        }
        Ok(outcome)
    }
}
