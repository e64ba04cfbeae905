//! A flow's own result: `{success, results, variables, directOutput}` (docs/formats/flow.md).

use flowloom_core::path::{Key, Path};
use flowloom_core::plan::bind;
use flowloom_core::plan::{Composite, Env, Plan, Step, StepKind};
use flowloom_core::render;
use flowloom_core::state::{Phase, RunState};
use flowloom_core::value::{Map, Value};

use crate::front_end::RenderedResult;

/// The outcome of the steps of a flow.
pub(super) struct FlowOutcome {
    pub(super) success: bool,
    pub(super) results: Vec<Value>,
    pub(super) variables: Value,
    /// The output of a step with direct output, if one ended the run.
    pub(super) direct: Option<Value>,
    pub(super) last: Option<Value>,
}

/// The result of a run of a flow.
pub(super) fn render_result(plan: &Plan, state: &RunState) -> RenderedResult {
    let outcome = summarize_run(plan, state);
    let output = outcome.direct.clone().or(outcome.last.clone()).unwrap_or_default();
    RenderedResult { result: outcome.into_value(), output: render::to_js_value(&output) }
}

impl FlowOutcome {
    pub(super) fn into_value(self) -> Value {
        let whole = Value::map([
            ("success", self.success.into()),
            ("results", Value::list(self.results)),
            ("variables", self.variables),
            ("directOutput", self.direct.unwrap_or_default()),
        ]);
        render::to_js_value(&whole)
    }
}

/// Follows the steps in order, as far as the run got.
pub(super) fn summarize_run(plan: &Plan, state: &RunState) -> FlowOutcome {
    let mut env = Env::from_vars(plan.initial_vars(&state.inputs()));
    let mut outcome =
        FlowOutcome { success: true, results: Vec::new(), variables: Value::Null, direct: None, last: None };
    // The entry of a start block holds the final variables.
    let mut starts = Vec::new();
    let StepKind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { return outcome };
    for step in steps {
        let path = Path::root().child_path(&step.key);
        let (inner, is_direct) = match &step.kind {
            StepKind::Composite(Composite::Return(inner)) => (&**inner, true),
            _ => (step, false),
        };
        // A failure to read the page is a failure of the step that requested it.
        let unread = || state.find_step(&page_path(&path)).filter(|page| page.phase == Phase::Failed);
        let Some(done) = state.find_step(&path).or_else(unread) else { break };
        if let (Phase::Failed, Some(error)) = (done.phase, &done.error) {
            outcome.success = false;
            outcome.results.push(Value::map([("success", false.into()), ("error", error.message.as_str().into())]));
            break;
        }
        if done.phase != Phase::Finished {
            break;
        }
        let output = apply_output(plan, inner, &path, state, &mut env);
        if is_direct {
            outcome.direct = output;
            break;
        }
        if matches!(inner.kind, StepKind::Composite(Composite::Assign(_))) {
            starts.push(outcome.results.len());
        } else {
            outcome.last = output.clone();
        }
        let mut entry = Map::from_iter([("success".into(), true.into())]);
        if let Some(output) = output {
            entry.insert("result".into(), output);
        }
        outcome.results.push(entry.into());
    }
    // What ended the run need not be a step: a limit, or a person who cancelled it.
    if let Some(error) = state.error.as_ref().filter(|_| outcome.success && state.status.is_final()) {
        outcome.success = false;
        outcome.results.push(Value::map([("success", false.into()), ("error", error.message.as_str().into())]));
    }
    outcome.variables = Value::Map(env.vars.shared_map());
    for index in starts {
        outcome.results[index] = Value::map([("success", true.into()), ("result", outcome.variables.clone())]);
    }
    outcome
}

/// Applies the output of a finished step to the variables, and returns it.
fn apply_output(plan: &Plan, step: &Step, path: &Path, state: &RunState, env: &mut Env) -> Option<Value> {
    if let StepKind::Composite(Composite::Assign(rows)) = &step.kind {
        // Everything resolved in the run resolves here as well.
        let _ = bind::assign_vars(rows, env, plan.text);
        return Some(Value::Map(env.vars.shared_map()));
    }
    let output = state.find_step(path).and_then(|step| step.output.clone());
    // An unsummarised page is stored only with the effect that read it.
    let output = output.or_else(|| state.find_step(&page_path(path)).and_then(|page| page.output.clone()));
    let names = bind::resolve_write_names(step, env, plan.text).unwrap_or_default();
    bind::write_output(step, names, output.as_ref(), env);
    output
}

fn page_path(path: &Path) -> Path {
    path.child_path(&Key::numbered_key("page", 1))
}
