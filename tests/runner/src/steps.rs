//! Cases of the `steps` format.

use std::sync::Arc;

use flowloom_core::plan::Plan;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::steps::{run_record, runs};
use flowloom_formats::{Compiled, Sources, compile, present};

use crate::expectation::Judge;
use crate::flow::run;
use crate::world::World;

/// Fields of a result that differ from run to run.
const TIMES: [&str; 4] = ["durationMs", "startedAt", "completedAt", "failedAt"];

pub(crate) fn judge_run(case: &Value, expectation: &Map, judge: &mut Judge) {
    let compiled = check(case);
    if judge.check(expectation, &compiled.diagnostics) {
        return;
    }
    let Some(plan) = compiled.plan.map(Arc::new) else { return judge.fail("there is no plan") };
    let scenarios = ["allowed", "denied", "no_agent"];
    if expectation.keys().any(|key| scenarios.contains(&&**key)) {
        for (key, expected) in expectation {
            match (&**key, expected.as_map()) {
                ("warns" | "names", _) => {}
                (name, Some(expected)) if scenarios.contains(&name) => {
                    scenario(case, &plan, expected, agent_of(name, expected), judge);
                }
                (other, _) => judge.fail(format!("the key {other:?} is not known")),
            }
        }
        return;
    }
    scenario(case, &plan, expectation, None, judge);
}

fn check(case: &Value) -> Compiled {
    let definition = case.get("definition").cloned().unwrap_or_default();
    let steps = definition.get("steps").and_then(Value::as_list).unwrap_or_default();
    let functions: Vec<String> =
        steps.iter().filter_map(|step| step.get("functionId")?.as_str()).map(str::to_owned).collect();
    let files = [("steps.json".to_owned(), render::json(&definition).into_bytes())].into();
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
fn agent_of(name: &str, expected: &Map) -> Option<String> {
    if name == "no_agent" {
        return None;
    }
    let calls = expected.get("calls").and_then(Value::as_list).unwrap_or_default();
    let agent = calls.iter().find_map(|call| call.get("payload")?.get("agentId")?.as_str());
    Some(agent.unwrap_or("agent").to_owned())
}

fn scenario(case: &Value, plan: &Arc<Plan>, expected: &Map, agent: Option<String>, judge: &mut Judge) {
    let world = World::new(case);
    let throws = expected.get("throws").and_then(Value::as_str).unwrap_or_default();
    if let Some((_, function)) = throws.split_once(" denied: ") {
        world.deny(function);
    }
    let seen = match missing_workflow(throws, plan) {
        Some(error) => Seen { throws: Some(error), result: None, record: Value::Null },
        None => {
            let input = case.get("input").cloned().unwrap_or_default();
            match run(&world, plan.clone(), input, agent) {
                None => return judge.fail("the run never ends"),
                Some(Err(error)) => Seen { throws: Some(error.message), result: None, record: Value::Null },
                Some(Ok(outcome)) => {
                    let names: Vec<_> = outcome.records.iter().map(|record| record.event.name()).collect();
                    judge.events(expected, &names);
                    let throws = outcome.state.error.as_ref().map(|error| error.message.clone());
                    let result = present(plan, &outcome.state, &outcome.env).result;
                    let record = without_times(&run_record(plan, &outcome.state));
                    Seen { result: throws.is_none().then(|| without_times(&result)), throws, record }
                }
            }
        }
    };
    for (key, expected) in expected {
        match &**key {
            "result" => judge.compare(key, expected, seen.result.as_ref()),
            "throws" => judge.compare(key, expected, seen.throws.as_deref().map(Value::from).as_ref()),
            "calls" => judge.compare(key, expected, Some(&Value::list(world.trace().calls))),
            "run_record" => judge.compare(key, expected, Some(&seen.record)),
            "warns" | "names" | "includes" | "excludes" => {}
            other => judge.fail(format!("the key {other:?} is not known")),
        }
    }
    if !expected.contains_key("throws")
        && let Some(error) = seen.throws
    {
        judge.fail(format!("the run failed: {error}"));
    }
}

struct Seen {
    throws: Option<String>,
    result: Option<Value>,
    record: Value,
}

/// The error for a missing workflow, if the case asks for one. The expected text is its only trace, because such a case
/// has no run.
fn missing_workflow(throws: &str, plan: &Plan) -> Option<String> {
    let id = throws.strip_prefix("Workflow ")?.split(" not found").next()?;
    let known = plan.id.as_deref() == Some(id);
    (throws.contains(" not found") && !known).then(|| flowloom_formats::steps::not_found(id))
}

fn without_times(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(without_times).collect()),
        Value::Map(map) => {
            let kept = map.iter().filter(|(key, _)| !TIMES.contains(&&***key));
            let named = kept.map(|(key, value)| match &**key {
                "runId" => (key.clone(), "<run>".into()),
                _ => (key.clone(), without_times(value)),
            });
            named.collect::<Map>().into()
        }
        other => other.clone(),
    }
}

pub(crate) fn judge_page(case: &Value, expectation: &Map, judge: &mut Judge) {
    let stored = case.get("script").and_then(|script| script.get("stored_runs")).and_then(Value::as_str);
    let Some(stored) = stored.and_then(stored_runs) else {
        return judge.fail("the stored runs cannot be read");
    };
    let input = case.get("input").cloned().unwrap_or_default();
    let workflow = input.get("workflowId").and_then(Value::as_str).unwrap_or_default();
    for (key, expected) in expectation {
        match &**key {
            "page" => {
                let of_workflow = |run: &Value| run.get("workflowId").and_then(Value::as_str) == Some(workflow);
                let matching: Vec<_> = stored.iter().filter(|(_, run)| of_workflow(run)).collect();
                let bounds = runs::bounds(input.get("limit"), input.get("offset"));
                let total = matching.len() as u64;
                let range = bounds.range(total);
                let shown = &matching[range.start as usize..range.end as usize];
                let entry = |(key, run): &&(String, Value)| {
                    Value::map([("key", Value::from(key.as_str())), ("value", run.clone())])
                };
                let page = runs::page(shown.iter().map(entry).collect(), total, bounds);
                judge.compare(key, expected, Some(&page));
            }
            "limits" => {
                let actual = expected.as_map().into_iter().flatten().map(|(pair, _)| (pair.clone(), bounds_of(pair)));
                judge.compare(key, expected, Some(&actual.collect::<Map>().into()));
            }
            other => judge.fail(format!("the key {other:?} is not known")),
        }
    }
}

fn bounds_of(pair: &str) -> Value {
    let pair = flowloom_core::json::parse_value(pair).unwrap_or_default();
    let item = |index: usize| pair.as_list().and_then(|items| items.get(index));
    let bounds = runs::bounds(item(0), item(1));
    Value::map([("limit", Value::from(bounds.limit)), ("offset", bounds.offset.into())])
}

/// Parses `r0..r4, workflowId A for even, B for odd`.
fn stored_runs(text: &str) -> Option<Vec<(String, Value)>> {
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
