//! The observable behaviour of a run of a plan: everything that it sends, and its answer.

use std::sync::Arc;

use flowloom_core::effect::GenerateRequest;
use flowloom_core::hash::Hash;
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::{markdown, render_result};
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

/// Runs a plan in the world of a case. `None` if the run does not start or never ends.
pub fn observe_run(case: &Value, plan: &Plan, inputs: Value) -> Option<Observation> {
    let world = CaseWorld::new(case);
    let plan = Arc::new(plan.clone());
    let outcome = match has_scripts(&plan) {
        true => run_with_sandbox(&world, plan.clone(), inputs)?,
        false => run_plan(&world, plan.clone(), inputs, None)?.ok()?,
    };
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

/// Whether a plan needs the sandbox for expressions.
fn has_scripts(plan: &Plan) -> bool {
    format!("{plan:?}").contains("Script {")
}

/// Runs a plan whose expressions the sandbox evaluates, on a real clock.
fn run_with_sandbox(world: &Arc<CaseWorld>, plan: Arc<Plan>, inputs: Value) -> Option<RunOutcome> {
    let effects = Effects { code: crate::shared_sandbox(), clock: Arc::new(SystemClock), ..world.to_effects() };
    let engine = connect_engine(Engine::new(effects, Arc::new(MemoryJournal::new())), &plan);
    let start = StartOptions::new(plan, Hash::of_bytes(b"case"), inputs, "local");
    crate::block_on(async { Some(engine.start_run(start).ok()?.drive_to_end().await) })
}

/// A call of a model without what differs between runs. A model that a definition does not name is the default one.
fn describe_call(request: &GenerateRequest) -> String {
    let model = Some(request.model.as_str()).filter(|model| !model.is_empty()).unwrap_or("scripted:case");
    let messages: Vec<String> =
        request.messages.iter().map(|message| format!("{:?}: {:?}", message.role, message.content)).collect();
    let schema = request.schema.as_ref().map(flowloom_core::render::to_json);
    format!("{model} {messages:?} {schema:?} {:?} {:?}", request.options, request.tools)
}
