//! Starts, resumes and replays runs. The only module that spawns their tasks.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{Event, Record, RunCreated};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::{Phase, RunState};
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use crate::ENGINE_SEMANTICS;
pub use crate::drive::Control;
use crate::drive::Drive;
use crate::drive::Driven;
use crate::effects::{Boxed, Effects};
use crate::interpret::{Interpreter, Keeping, Left, Walked};
use crate::journal::{Journal, Lease, Wish};
use crate::log::{Mode, RunLog};
use crate::publish::{Listen, Subscription};
use crate::schema::complaints;

/// The parameters of a new run.
pub struct Start {
    /// The compiled definition.
    pub plan: Arc<Plan>,
    /// Hash of the bundle from which the plan was compiled.
    pub bundle: Hash,
    /// The inputs.
    pub inputs: Value,
    /// The user who owns the run.
    pub owner: String,
    /// The agent on whose behalf the run acts.
    pub agent: Option<String>,
    /// The limits.
    pub limits: Limits,
    /// Number of runs around this one.
    pub depth: u32,
    /// The workflow id under which the definition was started, if it is not its own.
    pub workflow: Option<String>,
    /// The key under which the conversation is stored for the user, together with the run's last event.
    pub keep: Option<String>,
    /// The id of the run; `None` for a new one.
    pub id: Option<RunId>,
}

/// Runs plans with one set of effects and one journal.
#[derive(Clone)]
pub struct Engine {
    effects: Effects,
    journal: Arc<dyn Journal>,
    ids: Arc<dyn Fn() -> RunId + Send + Sync>,
}

/// A run that is ready to be driven.
pub struct Run {
    id: RunId,
    log: Arc<RunLog>,
    control: Control,
    drive: Drive,
    journal: Arc<dyn Journal>,
    left: Left,
}

/// The state of a run that is no longer driven.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The id of the run.
    pub id: RunId,
    /// The state of the run.
    pub state: RunState,
    /// The stored records.
    pub records: Vec<Arc<Record>>,
    /// The final variables, conversations and transcript.
    pub env: Env,
    /// The error of the journal, if it stopped the run.
    pub broken: Option<StepError>,
}

impl Engine {
    /// An engine that generates its own run ids.
    #[allow(clippy::disallowed_methods, reason = "the one place that makes ids; tests give their own")]
    pub fn new(effects: Effects, journal: Arc<dyn Journal>) -> Engine {
        Engine { effects, journal, ids: Arc::new(|| RunId(uuid::Uuid::now_v7())) }
    }

    /// An engine whose run ids come from `ids`, for tests.
    pub fn with_ids(mut self, ids: impl Fn() -> RunId + Send + Sync + 'static) -> Engine {
        self.ids = Arc::new(ids);
        self
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Prepares a new run; nothing happens until it is driven. Fails before anything is recorded if the inputs are not
    /// valid (`FL1031`, `FL1038`) or if the agent lacks a permission.
    pub fn start(&self, start: Start) -> Result<Run, StepError> {
        self.check(&start)?;
        let lease = self.journal.begin(start.id.unwrap_or_else(|| (self.ids)()))?;
        let created = RunCreated {
            engine_semantics: ENGINE_SEMANTICS,
            format: start.plan.format,
            name: start.plan.name.clone(),
            bundle: start.bundle,
            inputs: start.inputs,
            owner: start.owner,
            agent: start.agent,
            limits: start.limits,
            depth: start.depth,
            workflow: start.workflow.or_else(|| start.plan.id.clone()),
            keep: start.keep,
        };
        let log = self.log(lease, Mode::Live, Vec::new());
        let run = self.run(start.plan, log.clone(), &created, self.effects.clock.now_ms());
        log.note(&Path::root(), 0, Event::RunCreated(Box::new(created)));
        log.note(&Path::root(), 0, Event::RunStarted { epoch: lease.epoch });
        Ok(run)
    }

    /// Resumes a run from its journal. `plan` compiles the run's own bundle. Fails with `FL1208` if the run has ended.
    pub async fn resume(
        &self,
        run: RunId,
        plan: impl AsyncFnOnce(&RunCreated) -> Result<Arc<Plan>, StepError>,
    ) -> Result<Run, StepError> {
        let (lease, records) = self.claim(run).await?;
        match self.prepare(lease, records, plan).await {
            Ok(run) => Ok(run),
            Err(error) => {
                self.journal.release(lease);
                Err(error)
            }
        }
    }

    async fn prepare(
        &self,
        lease: Lease,
        records: Vec<Arc<Record>>,
        plan: impl AsyncFnOnce(&RunCreated) -> Result<Arc<Plan>, StepError>,
    ) -> Result<Run, StepError> {
        let created = created(&records, lease.run)?;
        let plan = plan(&created).await?;
        let state = RunState::of(records.iter().map(|record| &**record))?;
        if state.status.is_final() {
            let message = format!("the run has ended: {}", state.status.name());
            return Err(StepError::new(Code::NothingToDo, message));
        }
        let cancelled = records.iter().any(|record| matches!(record.event, Event::CancelRequested { .. }));
        let log = self.log(lease, Mode::Live, records);
        log.note(&Path::root(), 0, Event::RunStarted { epoch: lease.epoch });
        let mut run = self.run(plan, log, &created, state.created_at);
        if cancelled {
            run.drive.already_cancelled();
        }
        Ok(run)
    }

    /// Replays the record of a run without performing effects. The records of the outcome are those that were replayed.
    /// Fails with `FL1201` if the plan does not reproduce the record.
    pub async fn replay(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> Result<Outcome, StepError> {
        let (outcome, left_over) = self.follow(records, plan).await?;
        if let Some(error) = outcome.broken {
            return Err(error);
        }
        match left_over {
            Some(record) if !ended_outside(&outcome.state) => {
                let message =
                    format!("the record has {} at {}, but the replay does not", record.event.name(), record.path);
                Err(StepError::new(Code::ReplayDivergence, message))
            }
            _ => Ok(outcome),
        }
    }

    /// The final variables, conversations and transcript of a recorded run. Performs no effects.
    pub async fn left(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> Env {
        self.follow(records, plan).await.map(|(outcome, _)| outcome.env).unwrap_or_default()
    }

    async fn follow(
        &self,
        records: Vec<Arc<Record>>,
        plan: Arc<Plan>,
    ) -> Result<(Outcome, Option<Arc<Record>>), StepError> {
        let Some(run) = records.first().map(|record| record.run) else {
            return Err(StepError::new(Code::RunNotFound, "there is nothing to replay"));
        };
        let created = created(&records, run)?;
        RunState::of(records.iter().map(|record| &**record))?;
        let log = self.log(Lease { run, epoch: 0 }, Mode::Replay, records.clone());
        let left = Left::default();
        let keeping = Keeping::new(&created, &plan, &left);
        let root = self.root(plan, &log, &created, left.clone());
        let driving = Run {
            id: run,
            control: Control::default(),
            drive: Drive::new(root, log.clone(), self.journal.clone(), Control::default()).with_keeping(keeping),
            journal: self.journal.clone(),
            log: log.clone(),
            left,
        };
        let outcome = driving.drive().await;
        Ok((outcome, log.left_over()))
    }

    /// Writes a signal into the journal of a run that is not driven; the next resume applies it. Fails with `FL1208` if
    /// the run does not wait for it, and with `FL1042` if an answer does not match its schema.
    pub async fn post(&self, run: RunId, wish: Wish) -> Result<(), StepError> {
        let (lease, records) = self.claim(run).await?;
        let posted = self.record_wish(lease, &records, wish).await;
        self.journal.release(lease);
        posted
    }

    async fn record_wish(&self, lease: Lease, records: &[Arc<Record>], wish: Wish) -> Result<(), StepError> {
        let state = RunState::of(records.iter().map(|record| &**record))?;
        if state.status.is_final() {
            let message = format!("the run has ended: {}", state.status.name());
            return Err(StepError::new(Code::NothingToDo, message));
        }
        let attempt_at = |path: &Path, phase: Phase| match state.step(path) {
            Some(step) if step.phase == phase => Ok(step.attempts),
            _ => {
                let message = format!("no step waits for this signal at {path}");
                Err(StepError::new(Code::NothingToDo, message))
            }
        };
        let (path, attempt, event) = match wish {
            Wish::Cancel { by } => (Path::root(), 0, Event::CancelRequested { by }),
            Wish::Answer { path, value, by } => {
                let attempt = attempt_at(&path, Phase::Waiting)?;
                let schema = state.step(&path).and_then(|step| step.question.as_ref()?.schema.as_ref());
                if let Some(complaints) = schema.and_then(|schema| complaints(schema, &value)) {
                    let message = format!("the answer does not match the schema of the question: {complaints}");
                    return Err(StepError::new(Code::AnswerInvalid, message));
                }
                (path, attempt, Event::Answered { value, by })
            }
            Wish::Resolve { path, how, by } => {
                let attempt = attempt_at(&path, Phase::Uncertain)?;
                (path, attempt, Event::Resolved { how, by })
            }
        };
        let log = self.log(lease, Mode::Live, records.to_vec());
        log.note(&path, attempt, event);
        match log.submit() {
            Some((_, crate::journal::Append::Done(result))) => result,
            Some((_, crate::journal::Append::Later(append))) => append.await,
            None => Ok(()),
        }
    }

    async fn claim(&self, run: RunId) -> Result<(Lease, Vec<Arc<Record>>), StepError> {
        let lease = self.journal.claim(run).await?;
        match self.journal.read(run, 0).await {
            Ok(records) => Ok((lease, records)),
            Err(error) => {
                self.journal.release(lease);
                Err(error)
            }
        }
    }

    fn log(&self, lease: Lease, mode: Mode, records: Vec<Arc<Record>>) -> Arc<RunLog> {
        Arc::new(RunLog::new(lease, mode, self.effects.clock.clone(), self.journal.clone(), records))
    }

    fn root(&self, plan: Arc<Plan>, log: &Arc<RunLog>, created: &RunCreated, left: Left) -> Boxed<'static, Walked> {
        let interpreter = Interpreter::new(self.effects.clone(), log.clone(), self.journal.clone(), created);
        let start = plan.start(&created.inputs);
        Box::pin(async move { interpreter.run(&plan, start, &left).await })
    }

    fn run(&self, plan: Arc<Plan>, log: Arc<RunLog>, created: &RunCreated, start: u64) -> Run {
        let control = Control::default();
        let left = Left::default();
        let keeping = Keeping::new(created, &plan, &left);
        let root = self.root(plan, &log, created, left.clone());
        let drive = Drive::new(root, log.clone(), self.journal.clone(), control.clone())
            .with_keeping(keeping)
            .with_deadline(&*self.effects.clock, start, created.limits.time_ms);
        Run { id: log.lease.run, log, control, drive, journal: self.journal.clone(), left }
    }

    fn check(&self, start: &Start) -> Result<(), StepError> {
        if let Some(error) = start.plan.inputs.refuse(&start.inputs) {
            return Err(error);
        }
        if let Some(agent) = &start.agent {
            for (function, _) in &start.plan.functions {
                self.effects.functions.permit(agent, function)?;
            }
        }
        Ok(())
    }
}

/// Whether the run was ended by something outside the plan: a person, a clock or another process, or a limit reached
/// during an effect, which a replay does not perform.
fn ended_outside(state: &RunState) -> bool {
    let in_flight = |path: &Path| state.step(path).is_some_and(|step| step.phase == Phase::Running);
    matches!(state.status, Status::Cancelled | Status::TimedOut | Status::Running | Status::Uncertain)
        || state.failed.as_ref().is_some_and(in_flight)
}

fn created(records: &[Arc<Record>], run: RunId) -> Result<RunCreated, StepError> {
    let Some(Event::RunCreated(created)) = records.first().map(|record| &record.event) else {
        return Err(StepError::new(Code::RunNotFound, format!("there is no run {run}")));
    };
    if created.engine_semantics != ENGINE_SEMANTICS {
        let message = format!(
            "the run has engine semantics {}, and this version has {ENGINE_SEMANTICS}; use the version that created it",
            created.engine_semantics
        );
        return Err(StepError::new(Code::EngineTooOld, message));
    }
    Ok((**created).clone())
}

impl Run {
    /// The run's id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Subscribes to all further events.
    pub fn subscribe(&self) -> Subscription {
        self.log.publisher.subscribe()
    }

    /// A handle for subscribing later, while the run is driven.
    pub fn listen(&self) -> Listen {
        self.log.publisher.listen()
    }

    /// A handle for sending signals while the run is driven.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Drives the run until it ends or waits for people.
    pub async fn drive(self) -> Outcome {
        let Run { id, log, drive, journal, left, .. } = self;
        // The future has completed and is dropped, so the final variables are in `left`.
        let driven = drive.await;
        // A replay holds no lease: the run may be driven elsewhere in this process.
        if log.mode == Mode::Live {
            journal.release(log.lease);
        }
        let records = log.records();
        let (state, illegal) = RunState::up_to_illegal(records.iter().map(|record| &**record));
        let broken = if let Driven::Broken(error) = driven { Some(error) } else { illegal.map(StepError::from) };
        Outcome { id, state, records, broken, env: left.take() }
    }

    /// Drives the run on a task of its own.
    pub fn spawn(self) -> tokio::task::JoinHandle<Outcome> {
        tokio::spawn(self.drive())
    }
}
