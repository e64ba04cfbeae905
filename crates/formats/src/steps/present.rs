//! A step list's own result: `{runId, results, vars}`, and the record that AgentOS stores for a run.

use flowloom_core::path::Path;
use flowloom_core::plan::bind;
use flowloom_core::plan::{Composite, Env, OnError, Plan, Step, StepKind};
use flowloom_core::render;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};

use crate::front_end::RenderedResult;

/// AgentOS' word for the status of a run (docs/formats/steps.md).
pub fn status_word(status: Status) -> &'static str {
    match status {
        Status::Queued | Status::Running | Status::Interrupted | Status::Waiting | Status::Uncertain => "running",
        Status::Succeeded => "completed",
        Status::Cancelled => "cancelled",
        Status::Failed | Status::TimedOut | Status::BudgetExceeded | Status::Quarantined => "failed",
    }
}

/// The word for the status of a run of a step list. AgentOS has none for a run that waits for a person.
pub fn run_word(status: Status) -> &'static str {
    match status {
        Status::Waiting | Status::Uncertain => status.name(),
        status => status_word(status),
    }
}

/// The result of a run of a step list.
pub(super) fn render_result(plan: &Plan, state: &RunState) -> RenderedResult {
    let outcome = summarize_run(plan, state);
    let run = state.run.map(|run| run.to_string()).unwrap_or_default();
    let output = outcome.env.vars.get("input").cloned().unwrap_or_default();
    let result = Value::map([
        ("runId", Value::from(run)),
        ("results", Value::list(outcome.results)),
        ("vars", Value::Map(outcome.env.vars.shared_map())),
    ]);
    RenderedResult { result: render::to_js_value(&result), output: render::to_js_value(&output) }
}

/// The record that AgentOS stores for a run under `workflow_runs` (docs/formats/steps.md).
pub fn run_record(plan: &Plan, state: &RunState) -> Value {
    let outcome = summarize_run(plan, state);
    let mut record = Map::new();
    let run = state.run.map(|run| run.to_string()).unwrap_or_default();
    record.insert("runId".into(), run.into());
    record.insert("workflowId".into(), plan.id.as_deref().unwrap_or(&plan.name).into());
    record.insert("status".into(), run_word(state.status).into());
    record.insert("startedAt".into(), (state.created_at as i64).into());
    if let Some(at) = state.finished_at {
        let key = if state.status == Status::Succeeded { "completedAt" } else { "failedAt" };
        record.insert(key.into(), (at as i64).into());
    }
    if let Some(error) = &state.error {
        record.insert("error".into(), error.message.as_str().into());
    }
    record.insert("results".into(), Value::list(outcome.results));
    render::to_js_value(&record.into())
}

/// The message for an unknown workflow, in AgentOS' wording.
pub fn not_found_message(id: &str) -> String {
    format!("Workflow {id} not found")
}

/// Follows the steps in order, as far as the run got.
fn summarize_run<'a>(plan: &'a Plan, state: &'a RunState) -> StepsOutcome<'a> {
    let env = Env::from_vars(plan.initial_vars(&state.inputs()));
    let mut outcome = StepsOutcome { plan, state, env, results: Vec::new() };
    let StepKind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { return outcome };
    for step in steps {
        let path = Path::root().child_path(&step.key);
        let is_continued = match &step.kind {
            StepKind::Composite(Composite::Parallel(members)) => outcome.add_fanout(step, members, &path),
            StepKind::Composite(Composite::Loop(looped)) => outcome.add_loop(step, &looped.body, &path),
            _ => outcome.add_single(step, &path),
        };
        if !is_continued {
            break;
        }
    }
    outcome
}

/// One entry for each step, and the variables. Each method adds a step and returns whether the run continued after it.
struct StepsOutcome<'a> {
    plan: &'a Plan,
    state: &'a RunState,
    env: Env,
    results: Vec<Value>,
}

impl StepsOutcome<'_> {
    fn add_single(&mut self, step: &Step, path: &Path) -> bool {
        let Some(done) = self.state.find_step(path) else { return false };
        match done.phase {
            Phase::Finished => {
                self.results.push(result_entry(step, done, done.output.clone().unwrap_or_default(), false));
                self.apply_output(step, done.output.as_ref());
                true
            }
            Phase::Skipped => {
                self.results.push(result_entry(step, done, "skipped".into(), false));
                true
            }
            Phase::Failed if step.policy.on_error == OnError::Continue => {
                self.results.push(result_entry(step, done, Value::Null, true));
                true
            }
            Phase::Failed | Phase::Running | Phase::Aborted | Phase::Waiting | Phase::Uncertain | Phase::Reset => false,
        }
    }

    /// Every member has an entry, even if one of them failed the run.
    fn add_fanout(&mut self, step: &Step, members: &[Step], path: &Path) -> bool {
        let mut outputs = Vec::new();
        for member in members {
            let Some(done) = self.state.find_step(&path.child_path(&member.key)) else { return false };
            let failed = done.phase == Phase::Failed;
            outputs.push((member, done.output.clone()));
            if failed || done.phase == Phase::Finished {
                self.results.push(result_entry(member, done, done.output.clone().unwrap_or_default(), failed));
            }
        }
        if self.state.find_step(path).is_none_or(|done| done.phase != Phase::Finished) {
            return false;
        }
        let list = Value::list(outputs.iter().map(|(_, output)| output.clone().unwrap_or_default()).collect());
        self.apply_output(step, Some(&list));
        for (member, output) in outputs {
            if output.is_some() {
                self.apply_output(member, output.as_ref());
            }
        }
        true
    }

    /// One entry with the output of the last iteration. The output of every finished iteration is applied.
    fn add_loop(&mut self, step: &Step, body: &Step, path: &Path) -> bool {
        let mut last = None;
        let mut started = None;
        for index in 0.. {
            let Some(done) = self.state.find_step(&path.iteration_path(index)) else { break };
            started.get_or_insert(done.started_at);
            if done.phase == Phase::Finished {
                last = done.output.clone();
                self.apply_output(body, last.as_ref());
            }
        }
        let Some(done) = self.state.find_step(path) else { return false };
        let mut done = done.clone();
        done.started_at = started.unwrap_or(done.started_at);
        match done.phase {
            Phase::Finished => self.results.push(result_entry(step, &done, last.unwrap_or_default(), false)),
            Phase::Failed if step.policy.on_error == OnError::Continue => {
                self.results.push(result_entry(step, &done, Value::Null, true));
            }
            _ => return false,
        }
        true
    }

    fn apply_output(&mut self, step: &Step, output: Option<&Value>) {
        let names = bind::resolve_write_names(step, &self.env, self.plan.text).unwrap_or_default();
        bind::write_output(step, names, output, &mut self.env);
    }
}

fn result_entry(step: &Step, done: &StepState, output: Value, failed: bool) -> Value {
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
