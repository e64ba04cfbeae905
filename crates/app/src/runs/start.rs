//! Starting runs. Commands, routes, schedules, hooks and the steps of other runs all start one with a [`StartRun`].

use std::sync::Arc;

use flowloom_core::event::ParentStep;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::plan::Plan;
use flowloom_core::trace::TraceContext;
use flowloom_core::trigger::RunTrigger;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::{Engine, ForkedRun, Run, StartOptions};
use flowloom_store::{START_QUOTAS, Store};

use crate::definitions::bundle::Bundle;
use crate::definitions::error::DefinitionError;
use crate::error::AppError;

/// A workflow that is ready to be run.
#[derive(Clone)]
pub struct PreparedDefinition {
    /// The compiled definition.
    pub plan: Arc<Plan>,
    /// The engine of its runs.
    pub engine: Engine,
    bundle: PreparedBundle,
}

/// The bundle of the runs of a definition.
#[derive(Clone)]
struct PreparedBundle {
    hash: Hash,
    json: Arc<str>,
}

impl PreparedDefinition {
    /// A plan with the engine that runs it and the bundle that it was compiled from. Fails if the bundle cannot be
    /// written as JSON.
    pub fn new(plan: Arc<Plan>, engine: Engine, bundle: &Bundle) -> Result<PreparedDefinition, AppError> {
        let json = bundle.to_json()?;
        Ok(PreparedDefinition {
            plan,
            engine,
            bundle: PreparedBundle { hash: Hash::of_bytes(json.as_bytes()), json: json.into() },
        })
    }

    /// A plan with its engine and the JSON of its bundle, whose hash is known.
    pub(crate) fn of_text(plan: Arc<Plan>, engine: Engine, hash: Hash, json: Arc<str>) -> PreparedDefinition {
        PreparedDefinition { plan, engine, bundle: PreparedBundle { hash, json } }
    }

    /// The bundle of its runs. Fails if it is damaged.
    pub fn parse_bundle(&self) -> Result<Bundle, DefinitionError> {
        Bundle::parse(&self.bundle.json)
    }

    /// Holds the bundle for a run that was started. The first events of the run release it, so a run that was refused must
    /// not hold it.
    fn hold_bundle(&self, store: &Store) {
        store.hold_hashed_bundle(self.bundle.hash, &self.bundle.json);
    }

    /// The hash of that bundle.
    pub(crate) fn hash(&self) -> Hash {
        self.bundle.hash
    }
}

/// A run to start.
///
/// # Examples
///
/// ```
/// use flowloom_app::engines::App;
/// use flowloom_app::error::AppError;
/// use flowloom_app::runs::start::{PreparedDefinition, StartRun};
/// use flowloom_core::RunId;
/// use flowloom_core::value::Value;
///
/// async fn start_greeting(app: &App, greeting: &PreparedDefinition) -> Result<RunId, AppError> {
///     let limits = app.config.limits.narrow_to(&greeting.plan.limits);
///     let inputs = Value::map([("name", "Ann".into())]);
///     let started = StartRun::new(greeting, inputs, "local", limits).start(&app.store)?;
///     Ok(started.run.drive_to_end().await.id)
/// }
/// ```
pub struct StartRun<'a> {
    /// Id of the workflow.
    pub workflow: &'a PreparedDefinition,
    /// The id under which the workflow is recorded, if it has one.
    pub workflow_id: Option<String>,
    /// Its inputs.
    pub inputs: Value,
    /// The user whose run it is.
    pub user: String,
    /// The agent as which the run acts.
    pub agent: Option<String>,
    /// Its limits.
    pub limits: Limits,
    /// The key of the conversation that it is a turn of: the messages are stored under it when the run ends.
    pub thread: Option<String>,
    /// The number of runs around it.
    pub depth: u32,
    /// The step that starts it, if it is a child run.
    pub parent: Option<ParentStep>,
    /// The id that was reserved for it, for example by an idempotency key; a new one if none was.
    pub id: Option<RunId>,
    /// The distributed trace that it belongs to.
    pub trace: Option<TraceContext>,
    /// Whether effects that may happen at most once wait for a person.
    pub asks_first: bool,
    /// The trigger of the run; `None` for child runs.
    pub trigger: Option<RunTrigger>,
}

/// A run that was started and is to be driven.
pub struct StartedRun {
    /// The run.
    pub run: Run,
    /// The plan that it follows.
    pub plan: Arc<Plan>,
}

impl<'a> StartRun<'a> {
    /// A run of a workflow with inputs, for a user, within limits.
    pub fn new(workflow: &'a PreparedDefinition, inputs: Value, user: &str, limits: Limits) -> StartRun<'a> {
        StartRun {
            workflow,
            workflow_id: None,
            inputs,
            user: user.to_owned(),
            agent: None,
            limits,
            thread: None,
            depth: 0,
            parent: None,
            id: None,
            trace: None,
            asks_first: false,
            trigger: None,
        }
    }

    /// Starts the run. Fails if the inputs do not fit the plan, or if a quota is used up.
    pub fn start(self, store: &Store) -> Result<StartedRun, AppError> {
        let workflow = self.workflow;
        let run = workflow.engine.start_run(self.into_options(store)?)?;
        workflow.hold_bundle(store);
        Ok(StartedRun { run, plan: workflow.plan.clone() })
    }

    /// Like [`StartRun::start`], for a run that begins with the record of another one. Fails if the other run cannot be
    /// replayed, too.
    pub async fn start_fork(self, store: &Store, from: ForkedRun) -> Result<StartedRun, AppError> {
        let workflow = self.workflow;
        let run = workflow.engine.fork_run(from, self.into_options(store)?).await?;
        workflow.hold_bundle(store);
        Ok(StartedRun { run, plan: workflow.plan.clone() })
    }

    /// The options of the run. Fails if a quota is used up.
    fn into_options(self, store: &Store) -> Result<StartOptions, AppError> {
        if self.parent.is_none() {
            let now = SystemClock.now_ms();
            store.check_quotas(&self.user, &START_QUOTAS, now)?;
            let bytes = self.workflow.bundle.json.len() + self.inputs.approximate_bytes();
            store.check_database_quota(&self.user, bytes, now)?;
        }
        let PreparedDefinition { plan, bundle, .. } = self.workflow;
        let memory_bytes = store.quotas().find_memory_limit(&self.user, self.limits.memory_bytes);
        Ok(StartOptions {
            agent: self.agent,
            limits: Limits { memory_bytes, ..self.limits },
            depth: self.depth,
            parent: self.parent,
            workflow: self.workflow_id,
            thread_key: self.thread,
            id: self.id,
            trace: self.trace,
            asks_first: self.asks_first,
            trigger: self.trigger,
            ..StartOptions::new(plan.clone(), bundle.hash, self.inputs, self.user)
        })
    }
}
