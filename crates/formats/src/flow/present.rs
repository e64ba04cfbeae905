//! A flow's own result: `{success, results, variables, directOutput}` (docs/formats/flow.md).

use flowloom_core::path::{Key, Path};
use flowloom_core::plan::bind;
use flowloom_core::plan::{Composite, Env, Kind, Plan, Step};
use flowloom_core::render;
use flowloom_core::state::{Phase, RunState};
use flowloom_core::value::{Map, Value};

use crate::front_end::Presented;

/// The outcome of the steps of a flow.
pub(super) struct Told {
    pub(super) success: bool,
    pub(super) results: Vec<Value>,
    pub(super) variables: Value,
    /// The output of a step with direct output, if one ended the run.
    pub(super) direct: Option<Value>,
    pub(super) last: Option<Value>,
}

/// The result of a run of a flow.
pub(super) fn present(plan: &Plan, state: &RunState) -> Presented {
    let told = tell(plan, state);
    let output = told.direct.clone().or(told.last.clone()).unwrap_or_default();
    Presented { result: told.into_value(), output: render::js_value(&output) }
}

impl Told {
    pub(super) fn into_value(self) -> Value {
        let whole = Value::map([
            ("success", self.success.into()),
            ("results", Value::list(self.results)),
            ("variables", self.variables),
            ("directOutput", self.direct.unwrap_or_default()),
        ]);
        render::js_value(&whole)
    }
}

/// Follows the steps in order, as far as the run got.
pub(super) fn tell(plan: &Plan, state: &RunState) -> Told {
    let mut env = Env::of(plan.initial(&state.inputs()));
    let mut told = Told { success: true, results: Vec::new(), variables: Value::Null, direct: None, last: None };
    // The entry of a start block holds the final variables.
    let mut starts = Vec::new();
    let Kind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { return told };
    for step in steps {
        let path = Path::root().child(&step.key);
        let (inner, is_direct) = match &step.kind {
            Kind::Composite(Composite::Return(inner)) => (&**inner, true),
            _ => (step, false),
        };
        // A failure to read the page is a failure of the step that requested it.
        let unread = || state.step(&page(&path)).filter(|page| page.phase == Phase::Failed);
        let Some(done) = state.step(&path).or_else(unread) else { break };
        if let (Phase::Failed, Some(error)) = (done.phase, &done.error) {
            told.success = false;
            told.results.push(Value::map([("success", false.into()), ("error", error.message.as_str().into())]));
            break;
        }
        if done.phase != Phase::Finished {
            break;
        }
        let output = take_effect(plan, inner, &path, state, &mut env);
        if is_direct {
            told.direct = output;
            break;
        }
        if matches!(inner.kind, Kind::Composite(Composite::Assign(_))) {
            starts.push(told.results.len());
        } else {
            told.last = output.clone();
        }
        let mut entry = Map::from_iter([("success".into(), true.into())]);
        if let Some(output) = output {
            entry.insert("result".into(), output);
        }
        told.results.push(entry.into());
    }
    told.variables = Value::Map(env.vars.shared());
    for index in starts {
        told.results[index] = Value::map([("success", true.into()), ("result", told.variables.clone())]);
    }
    told
}

/// Applies the output of a finished step to the variables, and returns it.
fn take_effect(plan: &Plan, step: &Step, path: &Path, state: &RunState, env: &mut Env) -> Option<Value> {
    if let Kind::Composite(Composite::Assign(rows)) = &step.kind {
        // Everything resolved in the run resolves here as well.
        let _ = bind::assign(rows, env, plan.text);
        return Some(Value::Map(env.vars.shared()));
    }
    let output = state.step(path).and_then(|step| step.output.clone());
    // An unsummarised page is stored only with the effect that read it.
    let output = output.or_else(|| state.step(&page(path)).and_then(|page| page.output.clone()));
    let names = bind::names(step, env, plan.text).unwrap_or_default();
    bind::write(step, names, output.as_ref(), env);
    output
}

fn page(path: &Path) -> Path {
    path.child(&Key::nth("page", 1))
}
