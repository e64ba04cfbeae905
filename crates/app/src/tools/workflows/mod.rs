//! Workflows as functions: `workflow::create/run/list/runs`, and files that the configuration declares as functions.
//!
//! A workflow started by a step is a child run with its own journal. Its id is derived from the step's idempotency key,
//! so that a step repeated after a crash finds the run that it started.

mod called;
mod child;
mod places;
mod tool;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use flowloom_core::code::Code;
use flowloom_core::effect::CallRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::{EffectClass, Plan};
use flowloom_core::render;
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};
use flowloom_formats::steps::runs::PageBounds;
use flowloom_formats::{render_result, steps};
use flowloom_runtime::child_run::{CallingStep, derive_run_id};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{ChildEffects, Clock as _, EffectContext, EffectFuture};
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{
    Actor, DefinitionChange, DefinitionKey, DefinitionKind, DefinitionRow, NewDefinition, NewNotification, Origin,
    RunFilter, RunRow, Store,
};
use flowloom_tools::{FunctionConfig, NativeFunction};

use crate::definitions::bundle::{Bundle, compile_bundle};
use crate::definitions::stored::{self, DefinitionContent};
use crate::engine_factory::EngineFactory;
use crate::run_models::RunModels;
pub(crate) use called::CalledWorkflow;
use called::detect_format;
use child::NewChildRun;
pub(crate) use places::ChildPlaces;
pub(crate) use tool::tool_function;

/// The function that runs a definition in the database.
pub(crate) const RUN_STORED_FUNCTION: &str = "workflow::run";

/// The argument of that function which names the definition.
pub(crate) const STORED_ID_ARGUMENT: &str = "workflowId";

/// State shared by the workflow functions.
pub struct WorkflowHost {
    engines: Weak<EngineFactory>,
    store: Arc<Store>,
    /// The bundle of the runs that call the functions.
    bundle: Bundle,
    /// The models of those runs.
    models: Arc<RunModels>,
}

impl WorkflowHost {
    /// Functions over the workflows of a bundle. The factory builds the engines of child runs.
    pub(crate) fn new(
        engines: Weak<EngineFactory>,
        store: Arc<Store>,
        bundle: Bundle,
        models: Arc<RunModels>,
    ) -> WorkflowHost {
        WorkflowHost { engines, store, bundle, models }
    }

    fn engine_factory(&self) -> Result<Arc<EngineFactory>, StepFailure> {
        self.engines.upgrade().ok_or_else(|| StepFailure::new(Code::FunctionFailed, "the program is stopping"))
    }

    fn find_stored(&self, id: &str, user: &str) -> Result<DefinitionRow, StepFailure> {
        let row = stored::find_definition(&self.store, user, DefinitionKind::Workflow, id)?;
        row.ok_or_else(|| StepFailure::new(Code::WorkflowNotFound, steps::not_found_message(id)))
    }

    async fn create_workflow(&self, arguments: &Map, context: &EffectContext) -> Result<Value, StepFailure> {
        let definition: Value = match arguments.get("workflow") {
            Some(definition) => definition.clone(),
            None => arguments.clone().into(),
        };
        let content = DefinitionContent::single("workflow.json", render::to_json(&definition));
        let bundle =
            Bundle { entry: content.entry.clone(), files: content.files.clone(), ..self.bundle.copy_settings() };
        let format = detect_format(bundle)?.format;
        let given = definition.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = given.unwrap_or_else(|| derive_run_id(&context.idempotency_key(), context.run.at_ms()).to_string());
        let new = NewDefinition {
            key: DefinitionKey { user: context.user.to_string(), kind: DefinitionKind::Workflow, id: id.clone() },
            format: Some(format.to_string()),
            content: content.to_json()?,
            origin: Origin::Function,
            uses: Vec::new(),
        };
        let by = Actor::run(context.run, &context.user);
        self.store.change_definitions(vec![DefinitionChange::Put(new)], &by, SystemClock.now_ms()).await?;
        Ok(Value::map([("id", Value::from(id))]))
    }

    async fn run_stored_workflow(&self, arguments: &Map, step: &CallingStep<'_>) -> Result<Value, StepFailure> {
        let context = step.context;
        let new_child = || {
            let id = require_argument(arguments, STORED_ID_ARGUMENT)?;
            let row = self.find_stored(&id, &context.user)?;
            let content = DefinitionContent::parse(&row.content)?;
            let engines = self.engine_factory()?;
            let bundle = build_stored_bundle(&engines, &self.bundle, content, stored::find_tenant(&row))?;
            let agent = arguments.get("agentId").and_then(Value::as_str).filter(|agent| !agent.is_empty());
            let agent = agent.map(str::to_owned);
            let agent = agent.or_else(|| context.agent.as_deref().map(str::to_owned));
            let inputs = arguments.get("input").cloned().unwrap_or_default();
            Ok(NewChildRun { bundle, workflow: None, inputs, agent })
        };
        let ended = self.run_child(new_child, step).await?;
        Ok(render_result(&ended.plan, &ended.state, &ended.env).result)
    }

    fn list_workflows(&self, context: &EffectContext) -> Result<Value, StepFailure> {
        let rows = stored::list_definitions(&self.store, &context.user, DefinitionKind::Workflow)?;
        let mut rows: Vec<_> = rows.into_iter().filter(|row| row.format.as_deref() == Some("steps")).collect();
        rows.sort_by_key(|row| row.updated_at);
        let entry = |row: &DefinitionRow| {
            let map = stored::to_agentos_json(row)?;
            Ok(Value::map([("key", Value::from(row.key.id.as_str())), ("value", map)]))
        };
        Ok(Value::list(rows.iter().map(entry).collect::<Result<_, StepFailure>>()?))
    }

    async fn list_runs(&self, arguments: &Map, context: &EffectContext) -> Result<Value, StepFailure> {
        let workflow = require_argument(arguments, STORED_ID_ARGUMENT)?;
        let bounds = steps::runs::read_bounds(arguments.get("limit"), arguments.get("offset"));
        let (rows, total) = list_run_page(&self.store, Some(context.user.to_string()), workflow, bounds)?;
        let (mut reader, mut runs) = (RunRecordReader::default(), Vec::new());
        for row in rows {
            runs.extend(reader.read_record(&self.store, row.id).await?);
        }
        let entry =
            |run: Value| Value::map([("key", run.get("runId").cloned().unwrap_or_default()), ("value", run.clone())]);
        Ok(steps::runs::render_page(runs.into_iter().map(entry).collect(), total, bounds))
    }
}

/// The bundle of a stored definition of `tenant` that a run of `caller` starts. Fails if the definition has errors.
pub(crate) fn build_stored_bundle(
    engines: &EngineFactory,
    caller: &Bundle,
    content: DefinitionContent,
    tenant: Option<String>,
) -> Result<Bundle, StepFailure> {
    let settings = choose_settings(engines, caller, tenant.as_ref());
    let mut files = content.files;
    files.extend(engines.read_function_files(&settings.functions));
    detect_format(Bundle { entry: content.entry, files, tenant, ..settings })
}

/// The settings of a stored definition of `tenant` that a run of `caller` starts.
pub(crate) fn choose_settings(engines: &EngineFactory, caller: &Bundle, tenant: Option<&String>) -> Bundle {
    // A user may have changed the settings of a fork. The definitions of other users must not depend on that.
    let is_trusted = caller.tenant.is_none() || caller.tenant.as_ref() == tenant;
    if is_trusted { caller.copy_settings() } else { Bundle::from_config(&engines.config) }
}

/// A page of a step list's runs, oldest first, and the total number of runs. Fails if the store cannot be read.
pub fn list_run_page(
    store: &Store,
    user: Option<String>,
    workflow: String,
    bounds: PageBounds,
) -> Result<(Vec<RunRow>, u64), StepFailure> {
    let filter = RunFilter { user, workflow: Some(workflow), format: Some("steps".into()), ..RunFilter::default() };
    let total = store.count_runs(&filter)?;
    // The store lists runs newest first.
    let page = bounds.page_range(total);
    let filter = RunFilter { limit: (page.end - page.start) as u32, offset: (total - page.end) as u32, ..filter };
    let mut rows = store.list_runs_matching(&filter)?;
    rows.reverse();
    Ok((rows, total))
}

/// Reads runs of one step list in the form of `workflow::runs`.
#[derive(Default)]
pub struct RunRecordReader {
    /// The plans by bundle: the runs share few.
    plans: HashMap<Hash, Arc<Plan>>,
}

impl RunRecordReader {
    /// The record of a run; `None` if it has not started. Fails if there is no such run, or if its record or its bundle
    /// is damaged.
    pub async fn read_record(&mut self, store: &Store, run: RunId) -> Result<Option<Value>, StepFailure> {
        let records = store.read(run, 0).await?;
        let state = RunState::from_records(records.iter().map(|record| &**record))?;
        let Some(created) = &state.created else { return Ok(None) };
        let plan = match self.plans.entry(created.bundle) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(compile_bundle(&Bundle::parse(&store.read_bundle(created.bundle)?)?)?),
        };
        Ok(Some(steps::run_record(plan, &state)))
    }
}

fn require_argument(arguments: &Map, name: &str) -> Result<String, StepFailure> {
    match arguments.get(name) {
        Some(value) => Ok(render::render_text(value, render::TextStyle::Json)),
        None => Err(StepFailure::new(Code::ArgumentMissing, format!("the argument {name} is missing"))),
    }
}

#[derive(Clone, Copy)]
enum WorkflowOperation {
    Create,
    Run,
    List,
    Runs,
}

struct WorkflowFunction {
    host: Arc<WorkflowHost>,
    operation: WorkflowOperation,
}

impl NativeFunction for WorkflowFunction {
    fn effect_class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        effects: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let arguments = request.payload.read_arguments(STORED_ID_ARGUMENT).to_redacted_map();
            match self.operation {
                WorkflowOperation::Create => self.host.create_workflow(&arguments, context).await,
                WorkflowOperation::Run => {
                    self.host.run_stored_workflow(&arguments, &CallingStep { context, effects }).await
                }
                WorkflowOperation::List => self.host.list_workflows(context),
                WorkflowOperation::Runs => self.host.list_runs(&arguments, context).await,
            }
        })
    }
}

/// The built-in workflow and notification functions.
pub fn built_in_functions(host: &Arc<WorkflowHost>) -> Vec<(&'static str, FunctionConfig)> {
    let function = |operation| FunctionConfig::Native(Arc::new(WorkflowFunction { host: host.clone(), operation }));
    vec![
        ("workflow::create", function(WorkflowOperation::Create)),
        (RUN_STORED_FUNCTION, function(WorkflowOperation::Run)),
        ("workflow::list", function(WorkflowOperation::List)),
        ("workflow::runs", function(WorkflowOperation::Runs)),
        ("notify::push", FunctionConfig::Native(Arc::new(PushNotification { store: host.store.clone() }))),
    ]
}

/// `notify::push`: stores `title` and `body` as a notification for the run's user. Repeated after a crash, it stores it
/// only once.
struct PushNotification {
    store: Arc<Store>,
}

impl NativeFunction for PushNotification {
    fn effect_class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let arguments = request.payload.read_arguments("title").to_redacted_map();
            let text =
                |name: &str| arguments.get(name).map(|value| render::render_text(value, render::TextStyle::Json));
            let metadata = arguments.get("metadata").cloned().unwrap_or_else(|| Map::new().into());
            let new = NewNotification {
                key: context.idempotency_key(),
                user: context.user.to_string(),
                title: require_argument(&arguments, "title")?,
                body: text("body").unwrap_or_default(),
                metadata: render::to_json(&metadata),
                at: SystemClock.now_ms(),
            };
            self.store.create_notification(new).await?;
            Ok(Value::map([("delivered", true.into())]))
        })
    }
}

/// A definition file as a function: the payload is its input, the run's output its result.
struct FileFunction {
    host: Arc<WorkflowHost>,
    file: String,
}

/// Builds the function that runs a file of the bundle.
pub(crate) fn file_function(host: &Arc<WorkflowHost>, file: &str) -> FunctionConfig {
    FunctionConfig::Native(Arc::new(FileFunction { host: host.clone(), file: file.to_owned() }))
}

impl NativeFunction for FileFunction {
    /// A repeated call finds the child run of the first one, regardless of the configuration.
    fn effect_class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        effects: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let called = CalledWorkflow::File(&self.file);
            let new_child = || {
                let agent = context.agent.as_deref().map(str::to_owned);
                let (bundle, inputs) = (called.build_bundle(&self.host.bundle)?, called.build_inputs(request)?);
                Ok(NewChildRun { bundle, workflow: None, inputs, agent })
            };
            called.render_reply(self.host.run_child_to_end(new_child, &CallingStep { context, effects }).await?)
        })
    }
}
