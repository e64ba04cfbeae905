//! The interpreter: composites schedule their children, and leaves perform effects.
//!
//! The semantics of a plan are written in direct style, as async code. Between effects nothing reads a clock or draws a
//! random number, so following a record reproduces the run.

mod agent;
mod block;
mod budget;
mod child_effects;
mod composite;
mod effect;
mod fork_variables;
mod kept_values;
mod leaf;
mod measure;
mod model_call;
mod outcome;
mod question;
mod recorded;
mod requests;
mod scoped;
mod script;
mod semaphore;
mod store_reads;
mod tool;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flowloom_core::budget::Ledger;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{AfterFailure, Event, MemoryWrite, Record, RunCreated};
use flowloom_core::expr::TextRules;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::bind;
use flowloom_core::plan::{Composite, Env, MissingReferences, OnError, Plan, Step, StepKind};
use flowloom_core::status::Status;
use flowloom_core::trace::TraceContext;
use flowloom_core::value::Value;
use parking_lot::Mutex;

use crate::divergence::Divergence;
use crate::effects::{BoxFuture, DefinitionIdentity, Effects};
use crate::error::{JournalError, RunError};
use crate::journal::memory_owner;
use crate::log::{ActivityScope, RunLog};
use crate::memory_quota::MemoryUsage;
use crate::redact::Redactor;
use crate::requests::CollectedRequests;
use crate::scope;

/// The reason why a branch stops.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// A step failed; an enclosing step may continue.
    Failed(StepFailure, Path),
    /// A limit or the budget stopped the whole run, which ends with this status.
    Limit(Status, StepFailure, Path),
    /// The journal failed or the record differs: the run is no longer driven.
    Broken(RunError),
    /// The run ends with this output.
    Return(Option<Value>),
}

impl From<Divergence> for Interrupt {
    fn from(error: Divergence) -> Interrupt {
        Interrupt::Broken(error.into())
    }
}

impl From<JournalError> for Interrupt {
    fn from(error: JournalError) -> Interrupt {
        Interrupt::Broken(error.into())
    }
}

/// The output of a step, or the interrupt that stopped it.
pub(crate) type StepResult = Result<Option<Value>, Interrupt>;

/// One run of a plan.
pub(crate) struct Interpreter {
    pub(crate) effects: Effects,
    pub(crate) log: Arc<RunLog>,
    pub(crate) limits: Limits,
    pub(crate) user: Arc<str>,
    /// The owner of the memory that the run reads.
    memory_owner: String,
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) definition: Arc<DefinitionIdentity>,
    pub(crate) redactor: Option<Arc<dyn Redactor>>,
    pub(crate) depth: u32,
    pub(crate) trace: Option<Arc<TraceContext>>,
    pub(crate) memory: Arc<dyn crate::journal::Journal>,
    /// The size of the user's memory; `None` before the first write.
    pub(crate) memory_usage: Mutex<Option<MemoryUsage>>,
    pub(crate) ledger: budget::Budget,
    pub(crate) steps: AtomicU64,
    /// Iterations of loops, and steps of graphs, since the run was started or resumed.
    iterations: AtomicU64,
    /// Memory that the values take which are kept until the run ends, in bytes.
    kept_bytes: AtomicU64,
    pub(crate) in_flight: semaphore::Semaphore,
    /// Memory writes of finished blocks that are not yet applied to the variables.
    pub(crate) pending_memory_writes: Mutex<HashMap<Path, Vec<MemoryWrite>>>,
    /// References without a value in the request that is being built.
    pub(crate) missing: MissingReferences,
    /// Where requests are collected, if they are.
    pub(crate) requests: Option<CollectedRequests>,
    /// Whether effects that may happen at most once wait for a person.
    asks_first: bool,
    /// The variables that a fork sets.
    fork_variables: Vec<fork_variables::ForkVariables>,
}

/// The position of the interpreter in the plan, and the settings in force there.
#[derive(Clone)]
pub(crate) struct StepContext {
    pub(crate) path: Path,
    pub(crate) text: TextRules,
    pub(crate) nesting: u32,
    pub(crate) depth: u32,
    /// The effect around this one, if this is a child effect; it shares the permit of its step.
    pub(crate) enclosing: Option<Arc<ActivityScope>>,
    /// Whether an earlier attempt may have sent the same effect, so that a person decides about it.
    pub(crate) may_have_happened: bool,
}

impl StepContext {
    fn with_path(&self, path: Path) -> StepContext {
        StepContext { path, ..self.clone() }
    }
}

impl Interpreter {
    pub(crate) fn new(
        effects: Effects,
        log: Arc<RunLog>,
        memory: Arc<dyn crate::journal::Journal>,
        created: &RunCreated,
    ) -> Interpreter {
        let (started, usage) = log.forgotten_cost();
        let earlier_ends = log.count_earlier_ends();
        let trace = created.trace.clone().map(|trace| TraceContext { earlier_ends, ..trace });
        let ledger = budget::Budget::new(Ledger::default());
        usage.iter().for_each(|usage| ledger.add_usage(Some(usage)));
        Interpreter {
            effects,
            log,
            memory,
            memory_usage: Mutex::default(),
            limits: created.limits.clone(),
            user: created.user.as_str().into(),
            memory_owner: memory_owner(created),
            agent: created.agent.as_deref().map(Into::into),
            definition: Arc::default(),
            redactor: None,
            depth: created.depth,
            trace: trace.map(Arc::new),
            ledger,
            steps: AtomicU64::new(started),
            iterations: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            in_flight: semaphore::Semaphore::default(),
            pending_memory_writes: Mutex::default(),
            missing: MissingReferences::default(),
            requests: None,
            asks_first: created.asks_before_effects(),
            fork_variables: fork_variables::ForkVariables::list_of(created.fork.as_ref()),
        }
    }

    /// The variables at the start of the plan. They are moved into `left` when the guard is dropped, however the run ends.
    pub(crate) fn guard_start(&self, start: Env, left: FinalEnv) -> EnvGuard {
        EnvGuard { env: Env { missing: Some(self.missing.clone()), ..start }, final_env: left }
    }

    /// Runs the whole plan. Returns the output of the root, or of the step that returned.
    pub(crate) async fn run(&self, plan: &Plan, start: &mut EnvGuard) -> StepResult {
        let env = &mut start.env;
        let place = StepContext {
            path: Path::root(),
            text: plan.text,
            nesting: 0,
            depth: self.depth,
            enclosing: None,
            may_have_happened: false,
        };
        let result = match self.run_step_at(&plan.root, env, place).await {
            Err(Interrupt::Return(output)) => Ok(output),
            result => result,
        };
        self.report_held_messages();
        result
    }

    /// Runs a child of `place` and applies its output.
    fn run_child<'a>(&'a self, step: &'a Step, env: &'a mut Env, place: &'a StepContext) -> BoxFuture<'a, StepResult> {
        self.run_step_at(step, env, place.with_path(place.path.child_path(&step.key)))
    }

    /// Runs the step whose path is `place` and applies its output.
    fn run_step_at<'a>(&'a self, step: &'a Step, env: &'a mut Env, place: StepContext) -> BoxFuture<'a, StepResult> {
        scope::box_small(async move {
            let (result, names) = self.run_without_writing(step, env, &place).await;
            let StepFlow::Ran(output) = result? else { return Ok(None) };
            bind::write_output(step, names, output.as_ref(), env);
            Ok(output)
        })
    }

    /// Runs a step without applying its output. Also returns the variables that it will write; their names are resolved
    /// before the step runs.
    async fn run_without_writing(
        &self,
        step: &Step,
        env: &mut Env,
        place: &StepContext,
    ) -> (Result<StepFlow, Interrupt>, Vec<Arc<str>>) {
        self.set_fork_variables(env, &place.path);
        if !step.scripts.is_empty()
            && let Err(halt) = Box::pin(self.evaluate_scripts(&step.scripts, env, place)).await
        {
            return (self.apply_error_policy(step, halt), Vec::new());
        }
        let names = match self.prepare_step(step, env, place) {
            Err(halt) => return (Err(halt), Vec::new()),
            Ok(None) => return (Ok(StepFlow::Skipped(None)), Vec::new()),
            Ok(Some(names)) => names,
        };
        (self.run_with_policy(step, env, place).await, names)
    }

    /// Applies the error policy to a failure before the step itself, which is recorded already.
    fn apply_error_policy(&self, step: &Step, halt: Interrupt) -> Result<StepFlow, Interrupt> {
        match halt {
            Interrupt::Failed(error, _) if step.policy.on_error == OnError::Continue => {
                Ok(StepFlow::skip_failed(error))
            }
            halt => Err(halt),
        }
    }

    /// Checks the limits and the condition. Returns the names to write, or `None` if the step is skipped.
    fn prepare_step(&self, step: &Step, env: &Env, place: &StepContext) -> Result<Option<Vec<Arc<str>>>, Interrupt> {
        if place.nesting > self.limits.nesting {
            let message = format!("steps are nested more than {} levels deep", self.limits.nesting);
            return Err(Interrupt::Limit(
                Status::Failed,
                StepFailure::new(Code::LimitNesting, message),
                place.path.clone(),
            ));
        }
        let fail = |error| Interrupt::Failed(error, place.path.clone());
        if let Some(condition) = &step.condition
            && !condition.is_true(env, None).map_err(fail)?
        {
            self.emit_event(place, 0, Event::StepSkipped { reason: "condition not met".into() })?;
            return Ok(None);
        }
        bind::resolve_write_names(step, env, place.text).map(Some).map_err(fail)
    }

    /// Runs a step and applies its error policy if it is a composite. Leaves apply theirs to each attempt.
    async fn run_with_policy(&self, step: &Step, env: &mut Env, place: &StepContext) -> Result<StepFlow, Interrupt> {
        let result = self.run_step(step, env, place).await;
        match result {
            Ok(output) => Ok(StepFlow::Ran(output)),
            Err(Interrupt::Failed(error, at)) if step.policy.on_error == OnError::Continue => {
                if at != place.path || !step.kind.is_leaf() {
                    let (error, then) = (error.clone(), AfterFailure::Continue);
                    self.emit_event(place, 0, Event::StepFailed { error, then, usage: None, reused: false })?;
                }
                Ok(StepFlow::skip_failed(error))
            }
            Err(halt) => Err(halt),
        }
    }

    async fn run_step(&self, step: &Step, env: &mut Env, place: &StepContext) -> StepResult {
        match &step.kind {
            StepKind::Leaf(leaf) => self.run_leaf(step, leaf, env, place).await,
            StepKind::Composite(composite) => self.run_composite(step, composite, env, place).await,
        }
    }

    /// Runs a composite. Each is boxed, so that the future of a leaf does not reserve space for that of a composite: small
    /// futures are allocated faster.
    async fn run_composite(
        &self,
        step: &Step,
        composite: &Composite,
        env: &mut Env,
        place: &StepContext,
    ) -> StepResult {
        let inner = StepContext { nesting: place.nesting + 1, ..place.clone() };
        match composite {
            Composite::Sequence(steps) => Box::pin(self.run_sequence(steps, env, &inner)).await,
            Composite::Parallel(members) => Box::pin(self.run_parallel(members, env, &inner)).await,
            Composite::Dag(dag) => Box::pin(self.run_dag(dag, env, &inner)).await,
            Composite::Machine(machine) => Box::pin(self.run_machine(machine, env, &inner)).await,
            Composite::Loop(looped) => Box::pin(self.run_loop(looped, env, &inner)).await,
            Composite::Branch { arms, otherwise } => {
                Box::pin(self.run_branch(arms, otherwise.as_deref(), env, &inner)).await
            }
            Composite::Return(step) => {
                self.run_step_at(step, env, inner).await.and_then(|output| Err(Interrupt::Return(output)))
            }
            Composite::Subflow(subflow) => Box::pin(self.run_subflow(subflow, env, &inner)).await,
            Composite::Scoped(scoped) => Box::pin(self.run_scoped(scoped, env, &inner)).await,
            Composite::AppendMessage(message) => self.append_message(message, env, place),
            Composite::Turn(turn) => Box::pin(self.run_turn(step, turn, env, &inner)).await,
            Composite::Tools(tools) => Box::pin(self.run_tools(step, tools, env, &inner)).await,
            Composite::Agent(agent) => Box::pin(self.run_agent(step, agent, env, &inner)).await,
            Composite::Assign(rows) => self.run_assign(rows, env, place),
        }
    }

    fn emit_event(&self, place: &StepContext, attempt: u32, event: Event) -> Result<(), Interrupt> {
        self.emit_or_adopt(place, attempt, event).map(drop)
    }

    /// Like [`Interpreter::emit_event`]; returns the recorded event if there is one.
    fn emit_or_adopt(&self, place: &StepContext, attempt: u32, event: Event) -> Result<Option<Arc<Record>>, Interrupt> {
        Ok(self.log.emit_event(&place.path, attempt, event)?)
    }

    /// Records that a composite has finished. Its output follows from its children and is not stored again.
    fn emit_finished(&self, place: &StepContext, output: Option<Value>) -> Result<(), Interrupt> {
        self.emit_event(
            place,
            0,
            Event::StepFinished { output, usage: None, memory: Vec::new(), reused: false, response: None },
        )
    }
}

/// The variables, conversations and transcript of a run when it ends or is dropped.
#[derive(Clone, Default)]
pub(crate) struct FinalEnv(Arc<Mutex<Env>>);

impl FinalEnv {
    pub(crate) fn take_env(&self) -> Env {
        std::mem::take(&mut *self.0.lock())
    }
}

/// A conversation that is stored when its run ends.
pub(crate) struct ThreadStorage {
    key: String,
    thread: Arc<str>,
    final_env: FinalEnv,
}

impl ThreadStorage {
    /// The thread to store for a run; `None` if there is none.
    pub(crate) fn new(created: &RunCreated, plan: &Plan, left: &FinalEnv) -> Option<ThreadStorage> {
        let (key, thread) = (created.thread_key.clone()?, plan.thread.clone()?);
        Some(ThreadStorage { key, thread, final_env: left.clone() })
    }

    /// The messages as a memory write. `None` if the run ended before it began to follow its record; the stored thread
    /// is then kept.
    pub(crate) fn to_memory_write(&self) -> Option<MemoryWrite> {
        let thread = self.final_env.0.lock().find_thread(&self.thread);
        let text = serde_json::to_string(thread.messages()).ok().filter(|_| !thread.messages().is_empty())?;
        Some(MemoryWrite { key: self.key.clone(), value: Some(parse_value(&text).ok()?) })
    }
}

/// The variables of a run in progress.
pub(crate) struct EnvGuard {
    env: Env,
    final_env: FinalEnv,
}

impl Drop for EnvGuard {
    fn drop(&mut self) {
        *self.final_env.0.lock() = std::mem::take(&mut self.env);
    }
}

/// The result of a step that was not interrupted.
enum StepFlow {
    Ran(Option<Value>),
    /// It has no output; with its failure, if it failed and the run continues.
    Skipped(Option<Box<StepFailure>>),
}

impl StepFlow {
    fn skip_failed(error: StepFailure) -> StepFlow {
        StepFlow::Skipped(Some(Box::new(error)))
    }
}
