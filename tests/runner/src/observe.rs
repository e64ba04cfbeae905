//! The observable behaviour of a run of a plan: everything that it sends, and its answer.

use std::sync::Arc;

use flowloom_core::effect::GenerateRequest;
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::{markdown, pipeline, render_result};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Effects;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};

use crate::engines::connect_engine;
use crate::flow::run_plan;
use crate::world::CaseWorld;

/// The observed effects and answer of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// How it ended.
    pub status: Status,
    /// Calls of models: messages, schema and options.
    pub model_calls: Vec<String>,
    /// Requests, pages and calls of functions.
    pub requests: Vec<String>,
    /// The answer: the last result of a Markdown workflow, the output of every other definition.
    pub answer: Value,
}

/// The requests of a run, each with its step.
#[derive(Clone, Debug)]
pub struct RequestList {
    /// How the run ended.
    pub status: Status,
    /// The requests in the order in which they started.
    pub requests: Vec<StepRequest>,
}

/// A request of a step.
#[derive(Clone, Debug)]
pub struct StepRequest {
    pub(crate) path: Path,
    /// Everything that is sent. Equal requests have equal texts.
    pub text: String,
}

impl StepRequest {
    /// The keys of its step and of the steps around that.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.path.as_str().split('/').map(|part| part.split(['[', '#']).next().unwrap_or(part))
    }
}

/// Runs a plan in the world of a case, and lists what its steps request. `None` as for [`observe_run`].
pub fn observe_requests(case: &Value, plan: &Plan, inputs: Value) -> Option<RequestList> {
    let world = CaseWorld::new(case);
    let outcome = run_observed(&world, &Arc::new(plan.clone()), inputs)?;
    Some(RequestList { status: outcome.state.status, requests: world.trace().sent })
}

fn run_observed(world: &Arc<CaseWorld>, plan: &Arc<Plan>, inputs: Value) -> Option<RunOutcome> {
    match needs_sandbox(plan) {
        true => run_with_sandbox(world, plan.clone(), inputs),
        false => run_plan(world, plan.clone(), inputs, None)?.ok(),
    }
}

/// Runs a plan in the world of a case. `None` if the run does not start or never ends.
pub fn observe_run(case: &Value, plan: &Plan, inputs: Value) -> Option<Observation> {
    let world = CaseWorld::new(case);
    let plan = Arc::new(plan.clone());
    let outcome = run_observed(&world, &plan, inputs)?;
    let trace = world.trace();
    let requests = trace.requests.iter().map(|request| format!("{request:?}"));
    let others = trace.scrapes.iter().chain(&trace.calls).map(flowloom_core::render::to_json);
    let rendered = render_result(&plan, &outcome.state, &outcome.env);
    let answer = match plan.format {
        markdown::FORMAT => {
            let results = rendered.result.get("results").and_then(Value::as_map).cloned().unwrap_or_default();
            let mut answers = results.values().filter_map(unwrap_answer);
            answers.next_back().unwrap_or_default()
        }
        pipeline::FORMAT => unwrap_text(&rendered.output),
        _ => rendered.output,
    };
    Some(Observation {
        status: outcome.state.status,
        model_calls: trace.asked.iter().map(describe_call).collect(),
        requests: requests.chain(others).collect(),
        answer,
    })
}

/// The answer in the result of an action: of a block, that of its own action. A block that did not run has none.
fn unwrap_answer(result: &Value) -> Option<Value> {
    match result {
        Value::Null => None,
        Value::List(items) => items.last().and_then(unwrap_answer),
        Value::Map(map) if map.len() == 1 => map.values().next().cloned(),
        other => Some(other.clone()),
    }
}

/// The answer in the output of a block that asks a model.
fn unwrap_text(output: &Value) -> Value {
    match output {
        Value::Map(map) if map.len() == 1 => map.get("text").unwrap_or(output).clone(),
        other => other.clone(),
    }
}

/// Whether a plan needs the sandbox, for expressions or blocks.
fn needs_sandbox(plan: &Plan) -> bool {
    let text = format!("{plan:?}");
    text.contains("Script {") || text.contains("Python {")
}

/// Runs a plan in the sandbox, on a real clock.
fn run_with_sandbox(world: &Arc<CaseWorld>, plan: Arc<Plan>, inputs: Value) -> Option<RunOutcome> {
    let effects = Effects { code: crate::shared_sandbox(), clock: Arc::new(SystemClock), ..world.to_effects() };
    let engine = connect_engine(Engine::new(effects, Arc::new(MemoryJournal::new())), &plan);
    let start = StartOptions::new(plan, Hash::of_bytes(b"case"), inputs, "local");
    crate::block_on(async { Some(engine.start_run(start).ok()?.drive_to_end().await) })
}

/// A call of a model without what differs between runs. A model that a definition does not name is the default one.
pub(crate) fn describe_call(request: &GenerateRequest) -> String {
    let model = Some(request.model.as_str()).filter(|model| !model.is_empty()).unwrap_or("scripted:case");
    let messages: Vec<String> =
        request.messages.iter().map(|message| format!("{:?}: {:?}", message.role, message.content)).collect();
    let schema = request.schema.as_ref().map(flowloom_core::render::to_json);
    format!("{model} {messages:?} {schema:?} {:?} {:?}", request.options, request.tools)
}
