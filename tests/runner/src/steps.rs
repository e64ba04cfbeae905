//! Cases of the `steps` format.

use std::sync::Arc;

use flowloom_core::plan::Plan;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::steps::{run_record, runs};
use flowloom_formats::{Compiled, Sources, compile, render_result};

use crate::expectation::CaseJudge;
use crate::flow::run_plan;
use crate::world::CaseWorld;

/// Fields of a result that differ from run to run.
const TIME_FIELDS: [&str; 4] = ["durationMs", "startedAt", "completedAt", "failedAt"];

pub(crate) fn judge_run(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let compiled = compile_steps(case);
    if judge.check_diagnostics(expectation, &compiled.diagnostics) {
        return;
    }
    let Some(plan) = compiled.plan.map(Arc::new) else { return judge.add_failure("there is no plan") };
    let scenarios = ["allowed", "denied", "no_agent"];
    if expectation.keys().any(|key| scenarios.contains(&&**key)) {
        for (key, expected) in expectation {
            match (&**key, expected.as_map()) {
                ("warns" | "names", _) => {}
                (name, Some(expected)) if scenarios.contains(&name) => {
                    judge_scenario(case, &plan, expected, agent_of_scenario(name, expected), judge);
                }
                (other, _) => judge.add_failure(format!("the key {other:?} is not known")),
            }
        }
        return;
    }
    judge_scenario(case, &plan, expectation, None, judge);
}

fn compile_steps(case: &Value) -> Compiled {
    let definition = case.get("definition").cloned().unwrap_or_default();
    let steps = definition.get("steps").and_then(Value::as_list).unwrap_or_default();
    let functions: Vec<String> =
        steps.iter().filter_map(|step| step.get("functionId")?.as_str()).map(str::to_owned).collect();
    let files = [("steps.json".to_owned(), render::to_json(&definition).into_bytes())].into();
    let sources = Sources {
        files,
        functions: functions.clone(),
        configured: functions,
        source_bytes: 1 << 20,
        ..Sources::default()
    };
    compile("steps.json", &sources, Some(flowloom_formats::steps::FORMAT))
}

/// The agent on whose behalf a scenario runs: the one in its expected calls or error.
fn agent_of_scenario(name: &str, expected: &Map) -> Option<String> {
    if name == "no_agent" {
        return None;
    }
    let calls = expected.get("calls").and_then(Value::as_list).unwrap_or_default();
    let agent = calls.iter().find_map(|call| call.get("payload")?.get("agentId")?.as_str());
    Some(agent.unwrap_or("agent").to_owned())
}

fn judge_scenario(case: &Value, plan: &Arc<Plan>, expected: &Map, agent: Option<String>, judge: &mut CaseJudge) {
    let world = CaseWorld::new(case);
    let throws = expected.get("throws").and_then(Value::as_str).unwrap_or_default();
    if let Some((_, function)) = throws.split_once(" denied: ") {
        world.deny_function(function);
    }
    let seen = match missing_workflow_error(throws, plan) {
        Some(error) => ScenarioResult { throws: Some(error), result: None, record: Value::Null },
        None => {
            let input = case.get("input").cloned().unwrap_or_default();
            match run_plan(&world, plan.clone(), input, agent) {
                None => return judge.add_failure("the run never ends"),
                Some(Err(error)) => ScenarioResult { throws: Some(error.message), result: None, record: Value::Null },
                Some(Ok(outcome)) => {
                    let names: Vec<_> = outcome.records.iter().map(|record| record.event.name()).collect();
                    judge.compare_events(expected, &names);
                    let throws = outcome.state.error.as_ref().map(|error| error.message.clone());
                    let result = render_result(plan, &outcome.state, &outcome.env).result;
                    let record = remove_times(&run_record(plan, &outcome.state));
                    ScenarioResult { result: throws.is_none().then(|| remove_times(&result)), throws, record }
                }
            }
        }
    };
    for (key, expected) in expected {
        match &**key {
            "result" => judge.compare_key(key, expected, seen.result.as_ref()),
            "throws" => judge.compare_key(key, expected, seen.throws.as_deref().map(Value::from).as_ref()),
            "calls" => judge.compare_key(key, expected, Some(&Value::list(world.trace().calls))),
            "run_record" => judge.compare_key(key, expected, Some(&seen.record)),
            "warns" | "names" | "includes" | "excludes" => {}
            other => judge.add_failure(format!("the key {other:?} is not known")),
        }
    }
    if !expected.contains_key("throws")
        && let Some(error) = seen.throws
    {
        judge.add_failure(format!("the run failed: {error}"));
    }
}

struct ScenarioResult {
    throws: Option<String>,
    result: Option<Value>,
    record: Value,
}

/// The error for a missing workflow, if the case asks for one. The expected text is its only trace, because such a case
/// has no run.
fn missing_workflow_error(throws: &str, plan: &Plan) -> Option<String> {
    let id = throws.strip_prefix("Workflow ")?.split(" not found").next()?;
    let known = plan.id.as_deref() == Some(id);
    (throws.contains(" not found") && !known).then(|| flowloom_formats::steps::not_found_message(id))
}

fn remove_times(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(remove_times).collect()),
        Value::Map(map) => {
            let kept = map.iter().filter(|(key, _)| !TIME_FIELDS.contains(&&***key));
            let named = kept.map(|(key, value)| match &**key {
                "runId" => (key.clone(), "<run>".into()),
                _ => (key.clone(), remove_times(value)),
            });
            named.collect::<Map>().into()
        }
        other => other.clone(),
    }
}

pub(crate) fn judge_page(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let stored = case.get("script").and_then(|script| script.get("stored_runs")).and_then(Value::as_str);
    let Some(stored) = stored.and_then(parse_stored_runs) else {
        return judge.add_failure("the stored runs cannot be read");
    };
    let input = case.get("input").cloned().unwrap_or_default();
    let workflow = input.get("workflowId").and_then(Value::as_str).unwrap_or_default();
    for (key, expected) in expectation {
        match &**key {
            "page" => {
                let of_workflow = |run: &Value| run.get("workflowId").and_then(Value::as_str) == Some(workflow);
                let matching: Vec<_> = stored.iter().filter(|(_, run)| of_workflow(run)).collect();
                let bounds = runs::read_bounds(input.get("limit"), input.get("offset"));
                let total = matching.len() as u64;
                let range = bounds.page_range(total);
                let shown = &matching[range.start as usize..range.end as usize];
                let entry = |(key, run): &&(String, Value)| {
                    Value::map([("key", Value::from(key.as_str())), ("value", run.clone())])
                };
                let page = runs::render_page(shown.iter().map(entry).collect(), total, bounds);
                judge.compare_key(key, expected, Some(&page));
            }
            "limits" => {
                let actual = expected.as_map().into_iter().flatten().map(|(pair, _)| (pair.clone(), page_bounds(pair)));
                judge.compare_key(key, expected, Some(&actual.collect::<Map>().into()));
            }
            other => judge.add_failure(format!("the key {other:?} is not known")),
        }
    }
}

fn page_bounds(pair: &str) -> Value {
    let pair = flowloom_core::json::parse_value(pair).unwrap_or_default();
    let item = |index: usize| pair.as_list().and_then(|items| items.get(index));
    let bounds = runs::read_bounds(item(0), item(1));
    Value::map([("limit", Value::from(bounds.limit)), ("offset", bounds.offset.into())])
}

/// Parses `r0..r4, workflowId A for even, B for odd`.
fn parse_stored_runs(text: &str) -> Option<Vec<(String, Value)>> {
    let (range, owners) = text.split_once(", workflowId ")?;
    let (first, last) = range.split_once("..")?;
    let number = |text: &str| text.trim_start_matches('r').parse::<u64>().ok();
    let even = owners.split(" for even").next()?;
    let odd = owners.split(", ").nth(1)?.split(" for odd").next()?;
    let run = |index: u64| {
        let id = format!("r{index}");
        let owner = if index.is_multiple_of(2) { even } else { odd };
        let record =
            [("runId", id.as_str().into()), ("workflowId", owner.into()), ("status", Value::from("completed"))];
        (id.clone(), Value::map(record))
    };
    Some((number(first)?..=number(last)?).map(run).collect())
}
