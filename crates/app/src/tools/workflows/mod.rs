//! Workflows as functions: `workflow::create/run/list/runs`, and files that the configuration declares as functions.
//!
//! A workflow started by a step is a child run with its own journal. Its id is derived from the step's idempotency key,
//! so that a step repeated after a crash finds the run that it started.

mod child;
mod tool;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, Payload};
use flowloom_core::error::StepError;
use flowloom_core::plan::EffectClass;
use flowloom_core::render;
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};
use flowloom_formats::steps::runs::Bounds;
use flowloom_formats::{compile, present, steps};
use flowloom_runtime::Engine;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Clock as _, Context, Reply, Substeps};
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{
    Change, DefinitionKey, DefinitionRow, Kind, NewDefinition, NewNotification, Origin, RunFilter, Store,
};
use flowloom_tools::{FunctionConfig, NativeFunction};

use crate::definitions::bundle::{Bundle, plan_of};
use crate::definitions::stored::{self, Content};
pub use child::id_of;
pub(crate) use tool::of_flow;

/// State shared by the workflow functions.
pub struct Host {
    store: Arc<Store>,
    bundle: Bundle,
    engine: OnceLock<MakeEngine>,
}

/// Builds an engine with these functions for the runs of a bundle; `None` after the functions were dropped.
type MakeEngine = Box<dyn Fn(&Bundle) -> Option<Engine> + Send + Sync>;

impl Host {
    /// Functions over the workflows of a bundle. They need an engine before they are called.
    pub fn new(store: Arc<Store>, bundle: Bundle) -> Host {
        Host { store, bundle, engine: OnceLock::new() }
    }

    /// Sets the engine, which can only be built after the functions that it needs.
    pub(crate) fn set_engine(&self, make: impl Fn(&Bundle) -> Option<Engine> + Send + Sync + 'static) {
        // Set once, right after construction.
        let _ = self.engine.set(Box::new(make));
    }

    /// The bundle of another definition with the same settings.
    fn bundle_of(&self, entry: &str, files: BTreeMap<String, String>) -> Result<Bundle, StepError> {
        let bundle =
            Bundle { entry: entry.to_owned(), format: steps::FORMAT, files, flows: None, ..self.bundle.clone() };
        let compiled = compile(entry, &bundle.sources(), None);
        match (compiled.format, compiled.plan) {
            (Some(format), Some(_)) => Ok(Bundle { format, ..bundle }),
            _ => {
                let problems: Vec<_> = compiled.diagnostics.iter().filter(|problem| problem.is_error()).collect();
                let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
                let code = problems.first().map_or(Code::StepRefused, |problem| problem.code);
                Err(StepError::new(code, format!("invalid workflow definition: {}", messages.join("; "))))
            }
        }
    }

    fn find(&self, id: &str, owner: &str) -> Result<Content, StepError> {
        let row = stored::find(&self.store, owner, Kind::Workflow, id)?;
        let row = row.ok_or_else(|| StepError::new(Code::WorkflowNotFound, steps::not_found(id)))?;
        Content::parse(&row.content)
    }

    async fn create(&self, arguments: &Map, context: &Context) -> Result<Value, StepError> {
        let definition: Value = match arguments.get("workflow") {
            Some(definition) => definition.clone(),
            None => arguments.clone().into(),
        };
        let content = Content::single("workflow.json", render::json(&definition));
        let format = self.bundle_of("workflow.json", content.files.clone())?.format;
        let given = definition.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = given.unwrap_or_else(|| id_of(&context.key(), context.run.at_ms()).to_string());
        let new = NewDefinition {
            key: DefinitionKey { holder: context.owner.to_string(), kind: Kind::Workflow, id: id.clone() },
            format: Some(format.to_string()),
            content: content.text()?,
            origin: Origin::Function,
            uses: Vec::new(),
        };
        self.store.change_definitions(vec![Change::Put(new)], SystemClock.now_ms()).await?;
        Ok(Value::map([("id", Value::from(id))]))
    }

    async fn run_stored(&self, arguments: &Map, context: &Context) -> Result<Value, StepError> {
        let id = required(arguments, "workflowId")?;
        let content = self.find(&id, &context.owner)?;
        let bundle = self.bundle_of(&content.entry, content.files.clone())?;
        let agent = arguments.get("agentId").and_then(Value::as_str).map(str::to_owned);
        let agent = agent.or_else(|| context.agent.as_deref().map(str::to_owned));
        let input = arguments.get("input").cloned().unwrap_or_default();
        let ended = self.run(bundle, input, agent, context).await?;
        Ok(present(&ended.plan, &ended.state, &ended.env).result)
    }

    fn list(&self, context: &Context) -> Result<Value, StepError> {
        let rows = stored::list(&self.store, &context.owner, Kind::Workflow)?;
        let mut rows: Vec<_> = rows.into_iter().filter(|row| row.format.as_deref() == Some("steps")).collect();
        rows.sort_by_key(|row| row.updated_at);
        let entry = |row: &DefinitionRow| {
            let map = stored::as_steps(row)?;
            Ok(Value::map([("key", Value::from(row.key.id.as_str())), ("value", map)]))
        };
        Ok(Value::list(rows.iter().map(entry).collect::<Result<_, StepError>>()?))
    }

    async fn history(&self, arguments: &Map, context: &Context) -> Result<Value, StepError> {
        let workflow = required(arguments, "workflowId")?;
        let bounds = steps::runs::bounds(arguments.get("limit"), arguments.get("offset"));
        let (runs, total) = history(&self.store, Some(context.owner.to_string()), workflow, bounds).await?;
        let entry =
            |run: Value| Value::map([("key", run.get("runId").cloned().unwrap_or_default()), ("value", run.clone())]);
        Ok(steps::runs::page(runs.into_iter().map(entry).collect(), total, bounds))
    }
}

/// The records of a page of a step list's runs, oldest first, and the total number of runs.
pub async fn history(
    store: &Store,
    holder: Option<String>,
    workflow: String,
    bounds: Bounds,
) -> Result<(Vec<Value>, u64), StepError> {
    let filter = RunFilter { holder, workflow: Some(workflow), format: Some("steps".into()), ..RunFilter::default() };
    let total = store.count_runs(&filter)?;
    // The store lists runs newest first.
    let page = bounds.range(total);
    let filter = RunFilter { limit: (page.end - page.start) as u32, offset: (total - page.end) as u32, ..filter };
    let mut runs = Vec::new();
    // Runs of one workflow share few bundles.
    let mut plans = HashMap::new();
    for row in store.runs_of(&filter)?.into_iter().rev() {
        let records = store.read(row.id, 0).await?;
        let state = RunState::of(records.iter().map(|record| &**record))?;
        let Some(created) = &state.created else { continue };
        let plan = match plans.entry(created.bundle) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(plan_of(&Bundle::parse(&store.bundle(created.bundle)?)?)?),
        };
        runs.push(steps::run_record(plan, &state));
    }
    Ok((runs, total))
}

fn required(arguments: &Map, name: &str) -> Result<String, StepError> {
    match arguments.get(name) {
        Some(value) => Ok(render::text(value, render::Style::Json)),
        None => Err(StepError::new(Code::ArgumentMissing, format!("the argument {name} is missing"))),
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Create,
    Run,
    List,
    Runs,
}

struct BuiltIn {
    host: Arc<Host>,
    operation: Operation,
}

impl NativeFunction for BuiltIn {
    fn class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async move {
            let arguments = request.payload.arguments("workflowId").names_only();
            match self.operation {
                Operation::Create => self.host.create(&arguments, context).await,
                Operation::Run => self.host.run_stored(&arguments, context).await,
                Operation::List => self.host.list(context),
                Operation::Runs => self.host.history(&arguments, context).await,
            }
        })
    }
}

/// The built-in functions that store definitions.
pub const KEEPING: [&str; 2] = ["workflow::create", "author::keep"];

/// The built-in workflow and notification functions.
pub fn built_in(host: &Arc<Host>) -> Vec<(&'static str, FunctionConfig)> {
    let function = |operation| FunctionConfig::Native(Arc::new(BuiltIn { host: host.clone(), operation }));
    vec![
        ("workflow::create", function(Operation::Create)),
        ("workflow::run", function(Operation::Run)),
        ("workflow::list", function(Operation::List)),
        ("workflow::runs", function(Operation::Runs)),
        ("notify::push", FunctionConfig::Native(Arc::new(Notify { store: host.store.clone() }))),
    ]
}

/// `notify::push`: stores `title` and `body` as a notification for the run's user. Repeated after a crash, it stores it
/// only once.
struct Notify {
    store: Arc<Store>,
}

impl NativeFunction for Notify {
    fn class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async move {
            let arguments = request.payload.arguments("title").names_only();
            let text = |name: &str| arguments.get(name).map(|value| render::text(value, render::Style::Json));
            let metadata = arguments.get("metadata").cloned().unwrap_or_else(|| Map::new().into());
            let new = NewNotification {
                key: context.key(),
                holder: context.owner.to_string(),
                title: required(&arguments, "title")?,
                body: text("body").unwrap_or_default(),
                metadata: render::json(&metadata),
                at: SystemClock.now_ms(),
            };
            self.store.notify(new).await?;
            Ok(Value::map([("delivered", true.into())]))
        })
    }
}

/// A definition file as a function: the payload is its input, the run's output its result.
struct FileFunction {
    host: Arc<Host>,
    file: String,
    effect: Option<EffectClass>,
}

/// Builds the function that runs a file of the bundle.
pub(crate) fn of_file(host: &Arc<Host>, file: &str, effect: Option<EffectClass>) -> FunctionConfig {
    FunctionConfig::Native(Arc::new(FileFunction { host: host.clone(), file: file.to_owned(), effect }))
}

impl NativeFunction for FileFunction {
    fn class(&self) -> EffectClass {
        self.effect.unwrap_or(EffectClass::AtLeastOnce)
    }

    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async move {
            let bundle = self.host.bundle_of(&self.file, self.host.bundle.files.clone())?;
            let inputs = input_of(&request.payload);
            let agent = context.agent.as_deref().map(str::to_owned);
            let ended = self.host.run(bundle, inputs, agent, context).await?;
            Ok(present(&ended.plan, &ended.state, &ended.env).output)
        })
    }
}

/// The input of a workflow: the arguments if there is no prompt; otherwise the caller's input if it is an object, or
/// else the prompt.
fn input_of(payload: &Payload) -> Value {
    if payload.prompt.is_none() {
        return payload.to_value();
    }
    match payload.get("input") {
        Some(input @ Value::Map(_)) => input,
        _ => payload.get("prompt").unwrap_or_default(),
    }
}
