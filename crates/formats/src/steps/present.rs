//! A step list's own result: `{runId, results, vars}`, and the record that AgentOS keeps of a run.

use flowloom_core::bind;
use flowloom_core::path::Path;
use flowloom_core::plan::{Kind, OnError, Plan, Step};
use flowloom_core::render;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_core::vars::Env;

use crate::Presented;

/// The result of a run of a step list.
pub fn present(plan: &Plan, state: &RunState) -> Presented {
    let (results, env) = tell(plan, state);
    let run = state.run.map(|run| run.to_string()).unwrap_or_default();
    let output = env.vars.get("input").cloned().unwrap_or_default();
    let result = Value::map([
        ("runId", Value::from(run)),
        ("results", Value::list(results)),
        ("vars", Value::Map(env.vars.shared())),
    ]);
    Presented { result: render::js_value(&result), output: render::js_value(&output) }
}

/// What AgentOS stores of a run under `workflow_runs` (spec/steps.md c.3).
pub fn run_record(plan: &Plan, state: &RunState) -> Value {
    let (results, _) = tell(plan, state);
    let mut record = Map::new();
    let run = state.run.map(|run| run.to_string()).unwrap_or_default();
    record.insert("runId".into(), run.into());
    record.insert("workflowId".into(), plan.id.as_deref().unwrap_or(&plan.name).into());
    record.insert("status".into(), state.status.row().steps.into());
    record.insert("startedAt".into(), (state.created_at as i64).into());
    if let Some(at) = state.finished_at {
        let key = if state.status == Status::Succeeded { "completedAt" } else { "failedAt" };
        record.insert(key.into(), (at as i64).into());
    }
    if let Some(error) = &state.error {
        record.insert("error".into(), error.message.as_str().into());
    }
    record.insert("results".into(), Value::list(results));
    render::js_value(&record.into())
}

/// Follows the steps in order, as far as the run came: one entry each, and the variables.
fn tell(plan: &Plan, state: &RunState) -> (Vec<Value>, Env) {
    let mut env = Env { vars: plan.initial(&state.inputs()), locals: Vec::new() };
    let mut results = Vec::new();
    let Kind::Sequence(steps) = &plan.root.kind else { return (results, env) };
    for step in steps {
        let path = Path::root().child(&step.key);
        let goes_on = match &step.kind {
            Kind::Parallel(members) => fanout(plan, step, members, &path, state, &mut env, &mut results),
            Kind::Loop(looped) => repeated(plan, step, &looped.body, &path, state, &mut env, &mut results),
            _ => single(plan, step, &path, state, &mut env, &mut results),
        };
        if !goes_on {
            break;
        }
    }
    (results, env)
}

fn single(plan: &Plan, step: &Step, path: &Path, state: &RunState, env: &mut Env, results: &mut Vec<Value>) -> bool {
    let Some(done) = state.step(path) else { return false };
    match done.phase {
        Phase::Finished => {
            results.push(entry(step, done, done.output.clone().unwrap_or_default(), false));
            take_effect(plan, step, done.output.as_ref(), env);
            true
        }
        Phase::Skipped => {
            results.push(entry(step, done, "skipped".into(), false));
            true
        }
        Phase::Failed if step.policy.on_error == OnError::Continue => {
            results.push(entry(step, done, Value::Null, true));
            true
        }
        Phase::Failed | Phase::Running | Phase::Aborted | Phase::Waiting | Phase::Uncertain => false,
    }
}

/// Every member has its entry, also where one of them failed the run.
fn fanout(
    plan: &Plan,
    step: &Step,
    members: &[Step],
    path: &Path,
    state: &RunState,
    env: &mut Env,
    results: &mut Vec<Value>,
) -> bool {
    let mut outputs = Vec::new();
    for member in members {
        let Some(done) = state.step(&path.child(&member.key)) else { return false };
        let failed = done.phase == Phase::Failed;
        outputs.push((member, done.output.clone()));
        if failed || done.phase == Phase::Finished {
            results.push(entry(member, done, done.output.clone().unwrap_or_default(), failed));
        }
    }
    if state.step(path).is_none_or(|done| done.phase != Phase::Finished) {
        return false;
    }
    let list = Value::list(outputs.iter().map(|(_, output)| output.clone().unwrap_or_default()).collect());
    take_effect(plan, step, Some(&list), env);
    for (member, output) in outputs {
        if output.is_some() {
            take_effect(plan, member, output.as_ref(), env);
        }
    }
    true
}

/// One entry with the last iteration's output; every finished iteration has had its effect.
fn repeated(
    plan: &Plan,
    step: &Step,
    body: &Step,
    path: &Path,
    state: &RunState,
    env: &mut Env,
    results: &mut Vec<Value>,
) -> bool {
    let mut last = None;
    let mut started = None;
    for index in 0.. {
        let Some(done) = state.step(&path.iteration(index)) else { break };
        started.get_or_insert(done.started_at);
        if done.phase == Phase::Finished {
            take_effect(plan, body, done.output.as_ref(), env);
            last = done.output.clone();
        }
    }
    let Some(done) = state.step(path) else { return false };
    let done = StepState { started_at: started.unwrap_or(done.started_at), ..done.clone() };
    match done.phase {
        Phase::Finished => {
            results.push(entry(step, &done, last.unwrap_or_default(), false));
            true
        }
        Phase::Failed if step.policy.on_error == OnError::Continue => {
            results.push(entry(step, &done, Value::Null, true));
            true
        }
        _ => false,
    }
}

fn take_effect(plan: &Plan, step: &Step, output: Option<&Value>, env: &mut Env) {
    let names = bind::names(step, env, plan.text).unwrap_or_default();
    bind::write(step, names, output, env);
}

fn entry(step: &Step, done: &StepState, output: Value, failed: bool) -> Value {
    let mut entry = Map::new();
    entry.insert("stepName".into(), step.title.as_str().into());
    entry.insert("output".into(), output);
    let duration = done.finished_at.map_or(0, |end| end.saturating_sub(done.started_at));
    entry.insert("durationMs".into(), (duration as i64).into());
    if let Some(error) = done.first_error.as_ref().or(done.error.as_ref()).filter(|_| failed) {
        entry.insert("error".into(), error.message.as_str().into());
    }
    entry.into()
}

/// The message when a workflow is asked for that is not there.
pub fn not_found(id: &str) -> String {
    format!("Workflow {id} not found")
}
