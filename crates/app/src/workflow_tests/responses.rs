//! The responses that the runs of a test receive instead of performing effects.

use flowloom_core::event::{AfterFailure, Event};
use flowloom_runtime::{Response, ScriptValue};

use super::file::{TestExpression, TestStep};
use super::offline::{is_recorded_block, is_undecided_failure};
use super::test_runs::RunPlace;

/// The responses for the steps of one run. `is_live`: a response counts for its own request only.
pub(super) fn list_step_responses(steps: &[TestStep], place: &RunPlace, is_live: bool) -> Vec<Response> {
    let response = |step: &TestStep| {
        let outcome = match &step.error {
            Some(error) => {
                let then = step.then.clone().unwrap_or(AfterFailure::Fail);
                Event::StepFailed { error: error.clone(), then, usage: None, reused: false }
            }
            None => Event::StepFinished {
                output: step.output.clone(),
                usage: step.usage,
                memory: step.memory.clone(),
                reused: false,
                response: None,
            },
        };
        let (path, hash) = (place.to_own_path(&step.path)?, step.request_hash);
        // A block that gets another request runs.
        let answers_any_request = hash.is_none() || !(is_live || is_recorded_block(step));
        Some(Response { path, attempt: step.attempt, hash, answers_any_request, outcome })
    };
    // The engine decides what follows on a failure that does not say it.
    let given = steps.iter().filter(|step| !step.runs_workflow && !is_undecided_failure(step));
    given.filter_map(response).collect()
}

/// The values of the scripts of one run.
pub(super) fn list_script_values(expressions: &[TestExpression], place: &RunPlace) -> Vec<ScriptValue> {
    let value = |expression: &TestExpression| {
        let path = place.to_own_path(&expression.path)?;
        Some(ScriptValue { path, hash: expression.hash, value: expression.value.clone() })
    };
    expressions.iter().filter_map(value).collect()
}
