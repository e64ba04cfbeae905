//! Starts, resumes and replays runs. The only module that spawns their tasks.

use std::sync::Arc;

use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, ForkOrigin, ParentStep, Record, RunCreated, RunProject};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::{Phase, RunState};
use flowloom_core::status::Status;

use crate::command::{CommandAction, DecidedCommand, RunCommand};
use crate::divergence::Divergence;
use crate::drive::Drive;
use crate::effects::{BoxFuture, DefinitionIdentity, Effects};
use crate::engine_semantics;
use crate::error::{JournalError, RunError};
use crate::interpret::{FinalEnv, Interpreter, StepResult, ThreadStorage};
use crate::journal::{Batch, Journal, Lease, LeaseState};
use crate::log::{Mode, ReusableRecord, RunLog};
use crate::outcome::RunOutcome;
use crate::redact::Redactors;
use crate::remote::{RemoteRun, RunDriver};
use crate::reopen::{decide_retries, records_since_reopened};
use crate::requests::{CollectedRequests, OpenScope, ScopeKind, SentRequest};
use crate::run::{LocalRun, Run, stop_driving};
use crate::start_options::StartOptions;
use crate::steering::is_steered_by_user;

/// Runs plans with one set of effects and one journal.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use flowloom_core::hash::Hash;
/// use flowloom_core::plan::Plan;
/// use flowloom_core::value::Value;
/// use flowloom_runtime::effects::Effects;
/// use flowloom_runtime::memory::MemoryJournal;
/// use flowloom_runtime::{Engine, RunError, RunOutcome, StartOptions};
///
/// async fn run_greeting(effects: Effects, plan: Arc<Plan>, bundle: Hash) -> Result<RunOutcome, RunError> {
///     let engine = Engine::new(effects, Arc::new(MemoryJournal::new()));
///     let inputs = Value::map([("name", "Ann".into())]);
///     let run = engine.start_run(StartOptions::new(plan, bundle, inputs, "local"))?;
///     Ok(run.drive_to_end().await)
/// }
/// ```
#[derive(Clone)]
pub struct Engine {
    effects: Effects,
    journal: Arc<dyn Journal>,
    ids: Arc<dyn Fn() -> RunId + Send + Sync>,
    definition: DefinitionIdentity,
    project: Option<RunProject>,
    redactors: Option<Arc<dyn Redactors>>,
    /// Where the requests of new runs are collected, if they are.
    requests: Option<CollectedRequests>,
    /// The driver of new and resumed runs, if this process does not drive them.
    driver: Option<Arc<dyn RunDriver>>,
}

/// The event that reopens a run, and the decisions about the commands that asked for it.
struct ReopenedRun {
    event: Event,
    decided: Vec<DecidedCommand>,
}

/// A run that this worker has claimed.
struct ClaimedRun {
    lease: Lease,
    records: Vec<Arc<Record>>,
    /// The pending commands.
    commands: Vec<RunCommand>,
    /// Whether it was released again.
    is_released: bool,
}

impl Engine {
    /// An engine that generates its own run ids.
    #[allow(clippy::disallowed_methods, reason = "the one place that makes ids; tests give their own")]
    pub fn new(effects: Effects, journal: Arc<dyn Journal>) -> Engine {
        let ids = Arc::new(|| RunId(uuid::Uuid::now_v7()));
        Engine {
            effects,
            journal,
            ids,
            definition: DefinitionIdentity::default(),
            project: None,
            redactors: None,
            requests: None,
            driver: None,
        }
    }

    /// Sets whose definition the runs follow. Without it, they follow the operator's own.
    pub fn with_definition(mut self, definition: DefinitionIdentity) -> Engine {
        self.definition = definition;
        self
    }

    /// Sets the configuration that new runs record.
    pub fn with_project(mut self, project: RunProject) -> Engine {
        self.project = Some(project);
        self
    }

    /// Sets what removes secrets from everything that the runs record and show.
    pub fn with_redactors(mut self, redactors: Arc<dyn Redactors>) -> Engine {
        self.redactors = Some(redactors);
        self
    }

    /// An engine whose run ids come from `ids`, for tests.
    pub fn with_ids(mut self, ids: impl Fn() -> RunId + Send + Sync + 'static) -> Engine {
        self.ids = Arc::new(ids);
        self
    }

    /// Replaces the journal, for example by one that halts runs. This process drives the runs of another journal itself.
    pub fn with_journal(mut self, journal: Arc<dyn Journal>) -> Engine {
        self.journal = journal;
        self.without_driver()
    }

    /// The same engine for runs that this process drives itself.
    pub fn without_driver(mut self) -> Engine {
        self.driver = None;
        self
    }

    /// Sets what drives the runs of this journal instead of this process. Forks are driven by this process still.
    pub fn with_driver(mut self, driver: Arc<dyn RunDriver>) -> Engine {
        self.driver = Some(driver);
        self
    }

    /// Sets where the requests of new runs are collected.
    pub(crate) fn with_requests(mut self, requests: CollectedRequests) -> Engine {
        self.requests = Some(requests);
        self
    }

    /// The current time, in milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.effects.clock.now_ms()
    }

    /// Completes after `duration_ms` milliseconds.
    pub(crate) fn sleep_for(&self, duration_ms: u64) -> BoxFuture<'static, ()> {
        self.effects.clock.sleep_for(duration_ms)
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Prepares a new run; nothing happens until it is driven. Fails before anything is recorded if the inputs are not
    /// valid (`FL1031`, `FL1038`) or if the agent lacks a permission.
    pub fn start_run(&self, start: StartOptions) -> Result<Run, RunError> {
        self.start_following(start, None, None)
    }

    pub(crate) fn start_following(
        &self,
        start: StartOptions,
        fork: Option<ForkOrigin>,
        reusable: Option<ReusableRecord>,
    ) -> Result<Run, RunError> {
        self.check_start(&start)?;
        let lease = self.journal.begin_run(start.id.unwrap_or_else(|| (self.ids)()))?;
        let driver = self.driver.clone().filter(|_| reusable.is_none());
        let plan = start.plan.clone();
        let created = start.into_event(self.project.clone(), fork);
        if let Some(driver) = driver {
            return Ok(Run::Remote(Box::new(RemoteRun::new_created(self.clone(), driver, plan, lease.run, created))));
        }
        let log = self.open_log(lease, Mode::Live, Vec::new());
        if let Some(reusable) = reusable {
            log.reuse_record(reusable);
        }
        let run = self.build_run(plan, log.clone(), &created, self.effects.clock.now_ms());
        log.append_event(&Path::root(), 0, Event::RunCreated(Box::new(created)));
        crate::failpoint::hit("run_create_after");
        log.append_event(&Path::root(), 0, Event::RunStarted { epoch: lease.epoch });
        Ok(Run::Local(Box::new(run)))
    }

    /// Resumes a run from its journal. `plan` is compiled from the run's bundle. Fails with [`RunError::Ended`] if it has ended.
    pub async fn resume_run(&self, run: RunId, plan: Arc<Plan>) -> Result<Run, RunError> {
        match &self.driver {
            Some(driver) => Ok(Run::Remote(Box::new(RemoteRun::open(self.clone(), driver.clone(), plan, run).await?))),
            None => self.resume_claimed(self.journal.claim_run(run).await?, plan).await,
        }
    }

    /// Resumes a child run for the step that drives it. Fails as [`Engine::resume_run`] does, and, unless another engine drives
    /// the runs, with [`JournalError::OwnershipLost`] if the lease of the step is lost.
    pub async fn resume_child_run(&self, run: RunId, plan: Arc<Plan>, parent: ParentStep) -> Result<Run, RunError> {
        match &self.driver {
            Some(_) => self.resume_run(run, plan).await,
            None => self.resume_claimed(self.journal.claim_child_run(run, parent).await?, plan).await,
        }
    }

    async fn resume_claimed(&self, lease: Lease, plan: Arc<Plan>) -> Result<Run, RunError> {
        let read = self.read_claimed(lease).await.map_err(RunError::from);
        let mut claimed = read.inspect_err(|error| stop_driving(&*self.journal, lease, error))?;
        let reopened = self.reopen_ended(&mut claimed, &plan).await;
        let is_released = claimed.is_released;
        let resumed = reopened.and_then(|reopened| self.prepare_resume(claimed, reopened, plan));
        // Another driver may hold a run that was released already.
        if let Err(error) = &resumed
            && !is_released
        {
            stop_driving(&*self.journal, lease, error);
        }
        Ok(Run::Local(Box::new(resumed?)))
    }

    fn prepare_resume(
        &self,
        claimed: ClaimedRun,
        reopened: Option<ReopenedRun>,
        plan: Arc<Plan>,
    ) -> Result<LocalRun, RunError> {
        let ClaimedRun { lease, records, commands, .. } = claimed;
        let created = read_created(&records, lease.run)?;
        if created.engine_semantics != engine_semantics() {
            return self.prepare_cancellation(lease, records, &created, plan, commands);
        }
        let recent = records_since_reopened(&records);
        let cancelled =
            reopened.is_none() && recent.iter().any(|record| matches!(record.event, Event::CancelRequested { .. }));
        // The time limit of a run that was reopened starts again.
        let start = match (&reopened, recent.first()) {
            (None, Some(first)) => first.at,
            _ => self.effects.clock.now_ms(),
        };
        let suspended = match records.last().map(|last| &last.event) {
            Some(Event::RunSuspended { status }) => Some(*status),
            _ => None,
        };
        let log = self.open_log(lease, Mode::Live, records);
        crate::failpoint::hit("run_resume_before");
        if let Some(ReopenedRun { event, decided }) = reopened {
            log.reopen_run(event, decided);
            crate::failpoint::hit("run_reopen_after");
        }
        // A run that only waited for a timer continues as if it had never been put aside.
        let asleep = suspended.filter(|_| self.journal.was_asleep(lease));
        if asleep.is_none() {
            log.append_event(&Path::root(), 0, Event::RunStarted { epoch: lease.epoch });
        }
        let mut run = self.build_run(plan, log, &created, start);
        run.drive.set_suspended(asleep);
        run.drive.receive_pending(commands);
        if cancelled {
            run.drive.end_cancelled();
        }
        Ok(run)
    }

    /// Decides about the commands to a run that has ended. `None` if it has not ended. Fails with [`RunError::Ended`] if no
    /// command reopens it.
    async fn reopen_ended(&self, claimed: &mut ClaimedRun, plan: &Plan) -> Result<Option<ReopenedRun>, RunError> {
        let ClaimedRun { lease, records, commands, is_released } = claimed;
        let state = RunState::from_records(records.iter().map(|record| &**record))?;
        if !state.status.is_final() {
            return Ok(None);
        }
        loop {
            let (decided, event) = decide_retries(&state, records, plan, commands);
            commands.retain(|command| decided.iter().all(|decided| decided.id != command.id));
            if let Some(event) = event {
                return Ok(Some(ReopenedRun { event, decided }));
            }
            if decided.is_empty() {
                return Err(RunError::Ended(state.status));
            }
            let batch = Batch { decided, releases_lease: true, ..Batch::default() };
            if self.journal.append_batch(*lease, batch).wait().await? == LeaseState::Released {
                *is_released = true;
                return Err(RunError::Ended(state.status));
            }
            *commands = self.journal.pending_commands(lease.run).await?;
        }
    }

    /// A run of another version of the engine, which can be cancelled and nothing else. Fails with
    /// [`RunError::OtherSemantics`] unless a command asks for it.
    fn prepare_cancellation(
        &self,
        lease: Lease,
        records: Vec<Arc<Record>>,
        created: &RunCreated,
        plan: Arc<Plan>,
        commands: Vec<RunCommand>,
    ) -> Result<LocalRun, RunError> {
        if !commands.iter().any(|command| matches!(command.action, CommandAction::Cancel {})) {
            return Err(RunError::OtherSemantics(created.engine_semantics));
        }
        let log = self.open_log(lease, Mode::Live, records);
        let mut run = self.build_run(plan, log, created, self.effects.clock.now_ms());
        run.drive.receive_pending(commands);
        Ok(run)
    }

    /// Replays the record of a run without performing effects. The records of the outcome are those that were replayed.
    /// Fails with [`RunError::Divergence`] if the plan does not reproduce the record.
    pub async fn replay_run(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> Result<RunOutcome, RunError> {
        let (mut outcome, left_over) = self.follow_records(records, plan, None).await?;
        let has_external_end = has_external_end(&outcome.state);
        let is_reproduced = left_over.as_ref().is_none_or(|record| matches!(record.event, Event::RunFinished { .. }));
        match outcome.broken.take() {
            // What ended the run came before the interpreter could produce this event.
            Some(RunError::Divergence(divergence))
                if divergence.is_beyond_record && has_external_end && is_reproduced => {}
            Some(error) => return Err(error),
            None => {}
        }
        match left_over {
            Some(record) if !has_external_end => {
                let message =
                    format!("the record has {} at {}, but the replay does not", record.event.name(), record.path);
                Err(Divergence::new(message).into())
            }
            _ => Ok(outcome),
        }
    }

    /// The final variables, conversations and transcript of a recorded run. Performs no effects. Fails if this version of the
    /// engine cannot follow the record.
    pub async fn final_env(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> Result<Env, RunError> {
        let (outcome, _) = self.follow_records(records, plan, None).await?;
        match outcome.broken {
            // The records may be the first ones of the run, or end where something outside ended it.
            Some(RunError::Divergence(divergence)) if divergence.is_beyond_record => Ok(outcome.env),
            Some(error) => Err(error),
            None => Ok(outcome.env),
        }
    }

    /// The scopes visible to the step at `path` after these records, from the innermost iteration or block to the variables
    /// of the run. Performs no effects.
    pub async fn list_scopes(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>, path: &Path) -> Vec<OpenScope> {
        let requests = CollectedRequests::default();
        let followed = self.follow_records(records, plan, Some(requests.clone())).await;
        let values = followed.map(|(outcome, _)| outcome.env.vars.shared_map()).unwrap_or_default();
        let mut scopes = requests.list_scopes(path);
        scopes.push(OpenScope { path: Path::root(), kind: ScopeKind::Variables, values });
        scopes
    }

    /// The requests that a recorded run has sent, as far as its plan reproduces them. Performs no effects.
    pub async fn collect_requests(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> Vec<SentRequest> {
        let requests = CollectedRequests::default();
        // A record that diverges shows its requests up to there.
        drop(self.follow_records(records, plan, Some(requests.clone())).await);
        requests.take()
    }

    pub(crate) async fn follow_records(
        &self,
        records: Vec<Arc<Record>>,
        plan: Arc<Plan>,
        requests: Option<CollectedRequests>,
    ) -> Result<(RunOutcome, Option<Arc<Record>>), RunError> {
        let Some(run) = records.first().map(|record| record.run) else {
            return Err(RunError::NothingToReplay);
        };
        let created = read_created(&records, run)?;
        if created.engine_semantics != engine_semantics() {
            return Err(RunError::OtherSemantics(created.engine_semantics));
        }
        RunState::from_records(records.iter().map(|record| &**record))?;
        let log = self.open_log(Lease { run, epoch: 0 }, Mode::Replay, records.clone());
        let left = FinalEnv::default();
        let keeping = ThreadStorage::new(&created, &plan, &left);
        let mut interpreter = self.build_interpreter(&log, &plan, &created);
        if requests.is_some() {
            interpreter.requests = requests;
        }
        let root = start_interpreter(interpreter, plan, &created, left.clone());
        let driving = Box::new(LocalRun {
            id: run,
            user: created.user.as_str().into(),
            drive: Drive::new(root, log.clone(), self.journal.clone()).with_thread_storage(keeping),
            journal: self.journal.clone(),
            log: log.clone(),
            final_env: left,
        });
        let outcome = driving.drive_to_end().await;
        Ok((outcome, log.find_unreplayed()))
    }

    async fn read_claimed(&self, lease: Lease) -> Result<ClaimedRun, JournalError> {
        let records = self.journal.read(lease.run, 0).await?;
        let commands = self.journal.pending_commands(lease.run).await?;
        Ok(ClaimedRun { lease, records, commands, is_released: false })
    }

    fn open_log(&self, lease: Lease, mode: Mode, records: Vec<Arc<Record>>) -> Arc<RunLog> {
        Arc::new(RunLog::new(lease, mode, self.effects.clock.clone(), self.journal.clone(), records))
    }

    fn build_interpreter(&self, log: &Arc<RunLog>, plan: &Plan, created: &RunCreated) -> Interpreter {
        let is_steered = self.definition.is_steered || is_steered_by_user(plan, &created.user);
        let definition = DefinitionIdentity { id: created.workflow.clone(), is_steered, ..self.definition.clone() };
        let mut interpreter = Interpreter::new(self.effects.clone(), log.clone(), self.journal.clone(), created);
        interpreter.definition = Arc::new(definition);
        interpreter.redactor = self.redactors.as_ref().map(|redactors| redactors.redactor_for(&created.user));
        interpreter.requests.clone_from(&self.requests);
        interpreter
    }

    fn build_run(&self, plan: Arc<Plan>, log: Arc<RunLog>, created: &RunCreated, start: u64) -> LocalRun {
        let left = FinalEnv::default();
        let keeping = ThreadStorage::new(created, &plan, &left);
        let interpreter = self.build_interpreter(&log, &plan, created);
        let root = start_interpreter(interpreter, plan, created, left.clone());
        let drive = Drive::new(root, log.clone(), self.journal.clone()).with_thread_storage(keeping).with_deadline(
            &*self.effects.clock,
            start,
            created.limits.time_ms,
        );
        let user = created.user.as_str().into();
        LocalRun { id: log.lease.run, user, log, drive, journal: self.journal.clone(), final_env: left }
    }

    fn check_start(&self, start: &StartOptions) -> Result<(), StepFailure> {
        if let Some(error) = start.plan.check_inputs(&start.inputs) {
            return Err(error);
        }
        if let Some(agent) = &start.agent {
            self.effects.functions.check_agent(agent)?;
            for (function, _) in &start.plan.functions {
                self.effects.functions.check_permission(agent, function)?;
            }
        }
        Ok(())
    }
}

/// Runs a plan from its start.
fn start_interpreter(
    interpreter: Interpreter,
    plan: Arc<Plan>,
    created: &RunCreated,
    left: FinalEnv,
) -> BoxFuture<'static, StepResult> {
    let mut start = interpreter.guard_start(plan.initial_env(&created.inputs), left);
    Box::pin(async move { interpreter.run(&plan, &mut start).await })
}

/// Whether the run was ended by something outside the plan: a person, a clock or another process, or a limit reached
/// during an effect, which a replay does not perform.
fn has_external_end(state: &RunState) -> bool {
    let in_flight = |path: &Path| state.find_step(path).is_some_and(|step| step.phase == Phase::Running);
    matches!(state.status, Status::Cancelled | Status::TimedOut | Status::Running | Status::Uncertain)
        || state.failed.as_ref().is_some_and(in_flight)
}

fn read_created(records: &[Arc<Record>], run: RunId) -> Result<RunCreated, RunError> {
    let Some(Event::RunCreated(created)) = records.first().map(|record| &record.event) else {
        return Err(JournalError::RunNotFound(run).into());
    };
    Ok((**created).clone())
}
