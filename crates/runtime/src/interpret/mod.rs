//! The interpreter: composites schedule their children, and leaves perform effects.
//!
//! The semantics of a plan are written in direct style, as async code. Between effects nothing reads a clock or draws a
//! random number, so following a record reproduces the run.

mod agent;
mod below;
mod block;
mod composite;
mod effect;
mod gate;
mod leaf;
mod scoped;
mod script;
mod tool;
mod turn;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::budget::Ledger;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{AfterFailure, Event, MemoryWrite, RunCreated};
use flowloom_core::expr::TextRules;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::bind;
use flowloom_core::plan::{Composite, Env, Kind, OnError, Plan, Step};
use flowloom_core::value::Value;

use crate::effects::{Boxed, Effects};
use crate::log::RunLog;

/// The reason why a branch stops.
#[derive(Debug)]
pub(crate) enum Halt {
    /// A step failed; an enclosing step may continue.
    Failed(StepError, Path),
    /// A limit, a budget or the journal stopped the whole run.
    Fatal(StepError, Path),
    /// The run ends with this output.
    Return(Option<Value>),
}

/// The output of a step, or the interrupt that stopped it.
pub(crate) type Walked = Result<Option<Value>, Halt>;

/// One run of a plan.
pub(crate) struct Interpreter {
    pub(crate) effects: Effects,
    pub(crate) log: Arc<RunLog>,
    pub(crate) limits: Limits,
    pub(crate) owner: Arc<str>,
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) depth: u32,
    pub(crate) memory: Arc<dyn crate::journal::Journal>,
    pub(crate) ledger: effect::Budget,
    pub(crate) steps: AtomicU64,
    pub(crate) flying: gate::Gate,
    /// Memory writes of finished blocks that are not yet applied to the variables.
    pub(crate) learned: Mutex<HashMap<Path, Vec<MemoryWrite>>>,
}

/// The position of the interpreter in the plan, and the settings in force there.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) path: Path,
    pub(crate) text: TextRules,
    pub(crate) nesting: u32,
    pub(crate) depth: u32,
    /// Whether this is a child effect, which shares the permit of its step.
    pub(crate) inside: bool,
}

impl Place {
    fn at(&self, path: Path) -> Place {
        Place { path, ..self.clone() }
    }
}

impl Interpreter {
    pub(crate) fn new(
        effects: Effects,
        log: Arc<RunLog>,
        memory: Arc<dyn crate::journal::Journal>,
        created: &RunCreated,
    ) -> Interpreter {
        Interpreter {
            effects,
            log,
            memory,
            limits: created.limits.clone(),
            owner: created.owner.as_str().into(),
            agent: created.agent.as_deref().map(Into::into),
            depth: created.depth,
            ledger: effect::Budget::new(Ledger::default()),
            steps: AtomicU64::new(0),
            flying: gate::Gate::default(),
            learned: Mutex::default(),
        }
    }

    /// Runs the whole plan. Returns the output of the root, or of the step that returned. The final variables are moved
    /// into `left`, however the run ends.
    pub(crate) async fn run(&self, plan: &Plan, start: Env, left: &Left) -> Walked {
        let mut kept = Kept { env: start, left };
        let env = &mut kept.env;
        let place = Place { path: Path::root(), text: plan.text, nesting: 0, depth: self.depth, inside: false };
        match self.step_at(&plan.root, env, place).await {
            Err(Halt::Return(output)) => Ok(output),
            walked => walked,
        }
    }

    /// Runs a child of `place` and applies its output.
    fn child<'a>(&'a self, step: &'a Step, env: &'a mut Env, place: &'a Place) -> Boxed<'a, Walked> {
        self.step_at(step, env, place.at(place.path.child(&step.key)))
    }

    /// Runs the step whose path is `place` and applies its output.
    fn step_at<'a>(&'a self, step: &'a Step, env: &'a mut Env, place: Place) -> Boxed<'a, Walked> {
        Box::pin(async move {
            let (walked, names) = self.unwritten(step, env, place).await;
            let Walk::Ran(output) = walked? else { return Ok(None) };
            bind::write(step, names, output.as_ref(), env);
            Ok(output)
        })
    }

    /// Runs a step without applying its output. Also returns the variables that it will write; their names are resolved
    /// before the step runs.
    async fn unwritten(&self, step: &Step, env: &mut Env, place: Place) -> (Result<Walk, Halt>, Vec<Arc<str>>) {
        if !step.scripts.is_empty()
            && let Err(halt) = Box::pin(self.evaluate(&step.scripts, env, &place)).await
        {
            return (self.excused(step, halt), Vec::new());
        }
        match self.prepare(step, env, &place) {
            Err(halt) => (Err(halt), Vec::new()),
            Ok(None) => (Ok(Walk::Skipped), Vec::new()),
            Ok(Some(names)) => (self.guarded(step, env, place).await, names),
        }
    }

    /// Applies the error policy to a failure before the step itself, which is recorded already.
    fn excused(&self, step: &Step, halt: Halt) -> Result<Walk, Halt> {
        match halt {
            Halt::Failed(..) if step.policy.on_error == OnError::Continue => Ok(Walk::Skipped),
            halt => Err(halt),
        }
    }

    /// Checks the limits and the condition. Returns the names to write, or `None` if the step is skipped.
    fn prepare(&self, step: &Step, env: &Env, place: &Place) -> Result<Option<Vec<Arc<str>>>, Halt> {
        if place.nesting > self.limits.nesting {
            let message = format!("steps are nested more than {} levels deep", self.limits.nesting);
            return Err(Halt::Fatal(StepError::new(Code::LimitNesting, message), place.path.clone()));
        }
        let fail = |error| Halt::Failed(error, place.path.clone());
        if let Some(condition) = &step.condition
            && !condition.is_true(env, None).map_err(fail)?
        {
            self.emit(place, 0, Event::StepSkipped { reason: "its condition does not hold".into() })?;
            return Ok(None);
        }
        bind::names(step, env, place.text).map(Some).map_err(fail)
    }

    /// Runs a step and applies its error policy if it is a composite. Leaves apply theirs to each attempt.
    async fn guarded(&self, step: &Step, env: &mut Env, place: Place) -> Result<Walk, Halt> {
        let walked = self.walk(step, env, &place).await;
        match walked {
            Ok(output) => Ok(Walk::Ran(output)),
            Err(Halt::Failed(error, at)) if step.policy.on_error == OnError::Continue => {
                if at != place.path || !step.kind.is_leaf() {
                    self.emit(&place, 0, Event::StepFailed { error, then: AfterFailure::Continue })?;
                }
                Ok(Walk::Skipped)
            }
            Err(halt) => Err(halt),
        }
    }

    async fn walk(&self, step: &Step, env: &mut Env, place: &Place) -> Walked {
        let inner = Place { nesting: place.nesting + 1, ..place.clone() };
        // Boxed, so that the future of a leaf does not reserve space for that of a composite: small futures are
        // allocated faster.
        match &step.kind {
            Kind::Leaf(leaf) => self.leaf(step, leaf, env, place).await,
            Kind::Composite(Composite::Sequence(steps)) => Box::pin(self.sequence(steps, env, &inner)).await,
            Kind::Composite(Composite::Parallel(members)) => Box::pin(self.parallel(members, env, &inner)).await,
            Kind::Composite(Composite::Dag(dag)) => Box::pin(self.dag(dag, env, &inner)).await,
            Kind::Composite(Composite::Machine(machine)) => Box::pin(self.machine(machine, env, &inner)).await,
            Kind::Composite(Composite::Loop(looped)) => Box::pin(self.repeat(looped, env, &inner)).await,
            Kind::Composite(Composite::Branch { arms, otherwise }) => {
                self.branch(arms, otherwise.as_deref(), env, &inner).await
            }
            Kind::Composite(Composite::Return(step)) => {
                self.step_at(step, env, inner).await.and_then(|output| Err(Halt::Return(output)))
            }
            Kind::Composite(Composite::Subflow(subflow)) => Box::pin(self.subflow(subflow, env, &inner)).await,
            Kind::Composite(Composite::Scoped(scoped)) => Box::pin(self.scoped(scoped, env, &inner)).await,
            Kind::Composite(Composite::Say(say)) => self.say(say, env, place),
            Kind::Composite(Composite::Turn(turn)) => Box::pin(self.turn(step, turn, env, &inner)).await,
            Kind::Composite(Composite::Tools(tools)) => Box::pin(self.tools(step, tools, env, &inner)).await,
            Kind::Composite(Composite::Agent(agent)) => Box::pin(self.agent(step, agent, env, &inner)).await,
            Kind::Composite(Composite::Assign(rows)) => self.assign(rows, env, place),
        }
    }

    fn emit(&self, place: &Place, attempt: u32, event: Event) -> Result<(), Halt> {
        let emitted = self.log.emit(&place.path, attempt, event);
        emitted.map(|_| ()).map_err(|error| Halt::Fatal(error, place.path.clone()))
    }

    /// Records that a composite has finished. Its output follows from its children and is not stored again.
    fn finished(&self, place: &Place, output: Option<Value>) -> Result<(), Halt> {
        self.emit(place, 0, Event::StepFinished { output, usage: None, memory: Vec::new() })
    }
}

/// The variables, conversations and transcript of a run when it ends or is dropped.
#[derive(Clone, Default)]
pub(crate) struct Left(Arc<Mutex<Env>>);

impl Left {
    pub(crate) fn take(&self) -> Env {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A conversation that is stored when its run ends.
pub(crate) struct Keeping {
    key: String,
    thread: Arc<str>,
    left: Left,
}

impl Keeping {
    /// The thread to store for a run; `None` if there is none.
    pub(crate) fn new(created: &RunCreated, plan: &Plan, left: &Left) -> Option<Keeping> {
        let (key, thread) = (created.keep.clone()?, plan.thread.clone()?);
        Some(Keeping { key, thread, left: left.clone() })
    }

    /// The messages as a memory write. `None` if the run ended before it began to follow its record; the stored thread
    /// is then kept.
    pub(crate) fn said(&self) -> Option<MemoryWrite> {
        let thread = self.left.0.lock().unwrap_or_else(PoisonError::into_inner).thread(&self.thread);
        let text = serde_json::to_string(thread.messages()).ok().filter(|_| !thread.messages().is_empty())?;
        Some(MemoryWrite { key: self.key.clone(), value: Some(parse_value(&text).ok()?) })
    }
}

struct Kept<'a> {
    env: Env,
    left: &'a Left,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        *self.left.0.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.env);
    }
}

/// The result of a step that was not interrupted.
enum Walk {
    Ran(Option<Value>),
    Skipped,
}
