//! Cases of the `flow` format.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::hash::Hash;
use flowloom_core::plan::Plan;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Compiled, Sources, compile, flow, render_result};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};

use crate::bound_check::check_bound;
use crate::engines::{block_on_clock, connect_engine};
use crate::expectation::CaseJudge;
use crate::world::{CaseWorld, WorldTrace};

/// The id under which the recorded flows were stored.
const FLOW_UUID: &str = "00000000-0000-4000-8000-000000000001";

pub(crate) fn judge_flow(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let definition = case.get("flow").map(render::to_json).unwrap_or_default();
    let compiled = compile_flow(&definition);
    if judge.check_diagnostics(expectation, &compiled.diagnostics) {
        return;
    }
    let Some(plan) = compiled.plan.map(Arc::new) else { return judge.add_failure("there is no plan") };
    let world = CaseWorld::new(case);
    let inputs = case.get("args").cloned().unwrap_or_default();
    let Some(outcome) = run_plan(&world, plan.clone(), inputs, None) else {
        return judge.add_failure("the run never ends");
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return judge.add_failure(format!("the run does not start: {error}")),
    };
    let trace = world.trace();
    let saved = !compiled.diagnostics.iter().any(|diagnostic| diagnostic.code == Code::UnknownBlock);
    let facts = FlowFacts { plan: &plan, outcome: &outcome, trace: &trace, saved };
    for (key, expected) in expectation {
        match &**key {
            "introspections" | "warns" | "names" | "run_unserialisable" | "includes" | "excludes" => {}
            _ => match facts.actual_value(key, expected) {
                Ok(actual) => judge.compare_key(key, expected, actual.as_ref()),
                Err(why) => judge.add_failure(why),
            },
        }
    }
    let names: Vec<_> = outcome.records.iter().map(|record| record.event.name()).collect();
    judge.compare_events(expectation, &names);
}

pub(crate) fn compile_flow(definition: &str) -> Compiled {
    let files = [("flow.json".to_owned(), definition.as_bytes().to_vec())].into();
    let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
    compile("flow.json", &sources, Some(flow::FORMAT))
}

/// Runs a plan in a world to its end; `None` if it would wait forever.
pub(crate) fn run_plan(
    world: &Arc<CaseWorld>,
    plan: Arc<Plan>,
    inputs: Value,
    agent: Option<String>,
) -> Option<Result<RunOutcome, flowloom_core::StepFailure>> {
    let engine = Engine::new(world.to_effects(), Arc::new(MemoryJournal::new()));
    let engine = connect_engine(engine, &plan);
    let limits = flowloom_core::limits::Limits::default().narrow_to(&plan.limits);
    let start =
        StartOptions { agent, limits, ..StartOptions::new(plan.clone(), Hash::of_bytes(b"case"), inputs, "local") };
    match engine.start_run(start) {
        Err(error) => Some(Err(error.into())),
        Ok(run) => {
            world.mark_running();
            let outcome = block_on_clock(&world.clock, run.drive_to_end())?;
            check_bound(&plan, &outcome.state);
            Some(Ok(outcome))
        }
    }
}

struct FlowFacts<'a> {
    plan: &'a Plan,
    outcome: &'a RunOutcome,
    trace: &'a WorldTrace,
    saved: bool,
}

impl FlowFacts<'_> {
    /// The actual value for one key of the expectation.
    fn actual_value(&self, key: &str, expected: &Value) -> Result<Option<Value>, String> {
        let reply = || flow::tool_reply(self.plan, &self.outcome.state);
        Ok(Some(match key {
            "run" => render_result(self.plan, &self.outcome.state, &self.outcome.env).result,
            "tool_result" => reply().text.into(),
            "skip_handle_execution" => reply().is_final.into(),
            "llm_prompts" => Value::list(self.trace.prompts.clone()),
            "scrapes" => Value::list(self.trace.scrapes.clone()),
            "http_requests" => self.selected_requests(expected),
            "tool" => {
                let tool = flow::flow_tool(self.plan, FLOW_UUID);
                Value::map([
                    ("name", Value::from(tool.name)),
                    ("description", tool.description.into()),
                    ("parameters", tool.parameters),
                ])
            }
            "save_ok" => self.saved.into(),
            "save_error" | "tool_throws" if *expected == Value::Null => Value::Null,
            "save_error" | "tool_throws" => return Ok(None),
            other => return Err(format!("the key {other:?} is not known")),
        }))
    }

    /// The requests, with the headers that the expectation selects.
    fn selected_requests(&self, expected: &Value) -> Value {
        let expected = expected.as_list().unwrap_or_default();
        let written = self.trace.requests.iter().enumerate().map(|(index, request)| {
            let selected = expected.get(index).and_then(|request| request.get("headers")).and_then(Value::as_map);
            let headers = request
                .headers
                .iter()
                .filter(|(name, _)| selected.is_none_or(|selected| selected.contains_key(name.as_str())));
            let headers = headers.map(|(name, value)| (name.as_str(), Value::from(value.to_redacted_text())));
            Value::map([
                ("method", Value::from(request.method.as_str())),
                ("url", request.url.to_redacted_text().into()),
                ("headers", Value::map(headers)),
                ("body", request.body.as_ref().map(|body| body.to_redacted_text()).unwrap_or_default().into()),
            ])
        });
        Value::list(written.collect())
    }
}
