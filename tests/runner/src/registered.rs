//! Cases that state the id of a format. They are judged in the same way for every registered format.

use std::sync::Arc;

use flowloom_core::value::{Map, Value};
use flowloom_formats::render_result;

use crate::definitions::CaseDefinition;
use crate::expectation::CaseJudge;
use crate::flow::run_plan;
use crate::world::CaseWorld;

pub(crate) fn judge_run(case: &Value, definition: CaseDefinition, expectation: &Map, judge: &mut CaseJudge) {
    let compiled = definition.compile();
    if judge.check_diagnostics(expectation, &compiled.diagnostics) {
        return;
    }
    let Some(plan) = compiled.plan.map(Arc::new) else { return judge.add_failure("there is no plan") };
    let world = CaseWorld::new(case);
    let outcome = match run_plan(&world, plan.clone(), definition.input, None) {
        None => return judge.add_failure("the run never ends"),
        Some(Err(error)) => return judge.add_failure(format!("the run does not start: {error}")),
        Some(Ok(outcome)) => outcome,
    };
    let names: Vec<_> = outcome.records.iter().map(|record| record.event.name()).collect();
    judge.compare_events(expectation, &names);
    let rendered = render_result(&plan, &outcome.state, &outcome.env);
    let error = outcome.state.error.as_ref().map(|error| Value::from(error.message.as_str()));
    let trace = world.trace();
    for (key, expected) in expectation {
        match &**key {
            "warns" | "names" | "includes" | "excludes" => {}
            "status" => judge.compare_key(key, expected, Some(&outcome.state.status.name().into())),
            "output" => judge.compare_key(key, expected, Some(&rendered.output)),
            "result" => judge.compare_key(key, expected, Some(&rendered.result)),
            "error" => judge.compare_key(key, expected, error.as_ref()),
            "llm_prompts" => judge.compare_key(key, expected, Some(&Value::list(trace.prompts.clone()))),
            "calls" => judge.compare_key(key, expected, Some(&Value::list(trace.calls.clone()))),
            other => judge.add_failure(format!("the key {other:?} is not known")),
        }
    }
    if let Some(error) = error.filter(|_| !expectation.contains_key("error")) {
        judge.add_failure(format!("the run failed: {}", error.as_str().unwrap_or_default()));
    }
}
