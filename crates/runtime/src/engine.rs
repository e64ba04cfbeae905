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

/// What is needed to start a run.
pub struct Start {
    /// The compiled definition.
    pub plan: Arc<Plan>,
    /// Hash of the bundle it was compiled from.
    pub bundle: Hash,
    /// Its inputs.
    pub inputs: Value,
    /// Whose run it is.
    pub owner: String,
    /// The agent on whose behalf it runs.
    pub agent: Option<String>,
    /// Bounds.
    pub limits: Limits,
    /// Runs around this one.
    pub depth: u32,
    /// Under which id the definition was asked for, if not its own.
    pub workflow: Option<String>,
    /// Under which key the owner's conversation is kept when the run ends, together with its last event.
    pub keep: Option<String>,
    /// The run's id; a new one if it is not given.
    pub id: Option<RunId>,
}

/// Runs plans against one set of effects and one journal.
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

/// Where a run stands when it is no longer driven.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The run.
    pub id: RunId,
    /// Its state.
    pub state: RunState,
    /// Its records.
    pub records: Vec<Arc<Record>>,
    /// Its variables, conversations and text, as far as it came.
    pub env: Env,
    /// Why it stopped short, if its journal failed.
    pub broken: Option<StepError>,
}

impl Engine {
    /// An engine with new ids from the system.
    #[allow(clippy::disallowed_methods, reason = "the one place that makes ids; tests give their own")]
    pub fn new(effects: Effects, journal: Arc<dyn Journal>) -> Engine {
        Engine { effects, journal, ids: Arc::new(|| RunId(uuid::Uuid::now_v7())) }
    }

    /// An engine whose ids come from `ids`, for tests.
    pub fn with_ids(mut self, ids: impl Fn() -> RunId + Send + Sync + 'static) -> Engine {
        self.ids = Arc::new(ids);
        self
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Prepares a new run. Nothing happens until it is driven. Refused before anything is recorded: a required input
    /// that is missing, and an agent that may not do every step.
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

    /// Takes up a run where its journal stands. `plan` compiles the run's own bundle.
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

    /// Follows a run's record without performing anything. The outcome's records are those that were followed; an error
    /// if the plan does not lead there.
    pub async fn replay(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> Result<Outcome, StepError> {
        let (outcome, left_over) = self.follow(records, plan).await?;
        if let Some(error) = outcome.broken {
            return Err(error);
        }
        match left_over {
            Some(record) if !ended_outside(&outcome.state) => {
                let message =
                    format!("the record has {} at {}, which did not happen", record.event.name(), record.path);
                Err(StepError::new(Code::ReplayDivergence, message))
            }
            _ => Ok(outcome),
        }
    }

    /// What a recorded run left behind: its variables, conversations and text. Nothing is performed.
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

    /// Puts a wish for a run that nobody drives into its journal; the next resume obeys it.
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
                let message = format!("nothing waits for this at {path}");
                Err(StepError::new(Code::NothingToDo, message))
            }
        };
        let (path, attempt, event) = match wish {
            Wish::Cancel { by } => (Path::root(), 0, Event::CancelRequested { by }),
            Wish::Answer { path, value, by } => {
                let attempt = attempt_at(&path, Phase::Waiting)?;
                let schema = state.step(&path).and_then(|step| step.question.as_ref()?.schema.as_ref());
                if let Some(complaints) = schema.and_then(|schema| complaints(schema, &value)) {
                    let message = format!("the answer does not fit the question: {complaints}");
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

/// Whether what ended the run is not in what the plan does: a person, a clock, another process; or a bound that was met in the
/// middle of an effect, which a replay does not perform.
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
            "the run was created under semantics {}, and this program has {ENGINE_SEMANTICS}; use the version that made it",
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

    /// Hears everything from now on.
    pub fn subscribe(&self) -> Subscription {
        self.log.publisher.subscribe()
    }

    /// Lets others hear it later, while it is driven.
    pub fn listen(&self) -> Listen {
        self.log.publisher.listen()
    }

    /// Takes wishes while the run is driven.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Drives the run until it ends or only people can get it on.
    pub async fn drive(self) -> Outcome {
        let Run { id, log, drive, journal, left, .. } = self;
        // Driven to its end and dropped: what it had is left behind.
        let driven = drive.await;
        // Who only follows a record holds nothing: the run may be driven elsewhere in this process.
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
