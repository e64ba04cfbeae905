//! Child runs: the code that drives them in the program, in a process of the simulation.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::ParentStep;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::value::Value;
use flowloom_runtime::child_run::{
    CallingStep, ChildRun, ChildRunError, ChildRunHost, OpeningRun, choose_child_run, drive_child_run,
    find_child_limits,
};
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::Clock;
use flowloom_runtime::remote::DriveState;
use flowloom_runtime::{JournalError, RunError, RunOutcome, StartOptions};
use tokio::sync::oneshot;

use crate::process::Process;
use crate::world::{ProcessId, World};

/// Longest time until a child run has a place, in milliseconds.
const MAX_PLACE_MS: u64 = 100;

/// The field of the output of a step with the child run that it has driven.
pub(crate) const RUN_FIELD: &str = "run";

/// The field with the number of the last event of the child run.
pub(crate) const SEQ_FIELD: &str = "seq";

/// A process, as far as it drives child runs.
struct SimulatedHost(Arc<Process>);

impl World {
    /// Runs a plan of the calling run as a child run. Returns the id of the child run and its last event.
    pub(crate) async fn run_child(
        &self,
        process: ProcessId,
        number: usize,
        step: &CallingStep<'_>,
    ) -> Result<Value, StepFailure> {
        let context = step.context;
        let missing = || StepFailure::new(Code::FunctionFailed, "the process or the plan is gone");
        let process = self.find_process(process).ok_or_else(missing)?;
        let caller = self.planned_run(context.run).ok_or_else(missing)?;
        let planned = caller.children.get(number).ok_or_else(missing)?;
        let host = SimulatedHost(process.clone());
        let id = choose_child_run(&host, context).await?;
        self.plan_run(id, planned.clone());
        let limits = find_child_limits(context, &planned.plan)?;
        let start = || {
            // Each run has a user of its own, whose memory is what the run wrote.
            let (plan, bundle, user) = (planned.plan.clone(), Hash::of_bytes(b"bundle"), format!("user of {id}"));
            let start = StartOptions {
                limits: limits.clone(),
                depth: context.depth + 1,
                parent: Some(context.as_parent()),
                id: Some(id),
                ..StartOptions::new(plan, bundle, Value::Null, user)
            };
            Ok(process.engine.start_run(start)?)
        };
        let child = ChildRun { id, plan: planned.plan.clone(), engine: process.engine.clone() };
        let ended = drive_child_run(&host, &child, step, start).await?.require_success()?;
        Ok(Value::map([(RUN_FIELD, id.to_string().into()), (SEQ_FIELD, Value::from(ended.state.seq as i64))]))
    }
}

impl ChildRunHost for SimulatedHost {
    type Place = ();

    fn clock(&self) -> &dyn Clock {
        &self.0.world.clock
    }

    async fn acquire_place(&self, _depth: u32, _user: &Arc<str>) {
        if self.0.world.choices.one_in(4) {
            self.0.world.sleep_up_to(MAX_PLACE_MS).await;
        }
    }

    async fn post_retry(&self, run: RunId, command: RunCommand, parent: ParentStep) -> Result<(), JournalError> {
        self.0.connection.post_retry_by_step(run, command, parent).await.map(drop)
    }

    async fn read_drive_state(&self, run: RunId) -> Result<DriveState, JournalError> {
        self.0.connection.read_drive_state(run).await
    }

    async fn drive_run(&self, opening: OpeningRun) -> Result<RunOutcome, ChildRunError> {
        let process = self.0.clone();
        let (done, ended) = oneshot::channel();
        self.0.spawn("child run", async move {
            // The step may have been abandoned.
            let _ = done.send(process.drive_child_run(opening).await);
        });
        let driven = ended.await.map_err(|_| ChildRunError::Aborted("the process has ended".to_owned()))?;
        driven.map_err(ChildRunError::Unopened)
    }
}

impl Process {
    async fn drive_child_run(self: Arc<Process>, opening: OpeningRun) -> Result<RunOutcome, RunError> {
        let run = opening.await?;
        let id = run.id();
        self.spawn("subscriber", self.clone().follow_run(id, run.subscribe()));
        let outcome = run.drive_to_end().await;
        if let Some(error) = &outcome.broken {
            self.check_run_error(id, error);
        }
        Ok(outcome)
    }
}
