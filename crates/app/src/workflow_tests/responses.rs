//! The responses that the runs of a test receive instead of performing effects.

use std::sync::Arc;

use flowloom_core::event::{AfterFailure, Event};
use flowloom_core::path::Path;
use flowloom_runtime::requests::SentRequest;
use flowloom_runtime::{AnsweredRequests, Response, ScriptValue};
use flowloom_tools::HiddenSecret;

use super::compare::find_difference;
use super::file::{TestExpression, TestStep};
use super::offline::{is_recorded_block, is_undecided_failure};
use super::request_secrets::RequestSecrets;
use super::test_runs::RunPlace;

/// With live models a response counts for its own request only. A request that the test does not have as a whole is
/// compared without these secrets.
pub(super) type LiveMatch = Arc<[HiddenSecret]>;

/// The responses for the steps of one run.
pub(super) fn list_step_responses(steps: &[TestStep], place: &RunPlace, live: Option<&LiveMatch>) -> Vec<Response> {
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
        Some(Response { answers: find_answered(step, &path, live), path, attempt: step.attempt, hash, outcome })
    };
    // The engine decides what follows on a failure that does not say it.
    let given = steps.iter().filter(|step| !step.runs_workflow && !is_undecided_failure(step));
    given.filter_map(response).collect()
}

/// The requests that the response of a step answers.
fn find_answered(step: &TestStep, path: &Path, live: Option<&LiveMatch>) -> AnsweredRequests {
    match (step.request_hash, live) {
        // A block that gets another request runs.
        (Some(hash), live) if live.is_some() || is_recorded_block(step) => AnsweredRequests::Same(hash),
        (None, Some(secrets)) if step.request.is_some() => {
            let (step, path, secrets) = (step.clone(), path.clone(), secrets.clone());
            AnsweredRequests::Accepted(Arc::new(move |request| {
                let sent = SentRequest { path: path.clone(), attempt: step.attempt, request: request.clone() };
                let hidden = RequestSecrets::new(std::slice::from_ref(&sent), &[], &secrets);
                find_difference(&step, &sent, &hidden).is_none()
            }))
        }
        _ => AnsweredRequests::Any,
    }
}

/// The values of the scripts of one run.
pub(super) fn list_script_values(expressions: &[TestExpression], place: &RunPlace) -> Vec<ScriptValue> {
    let value = |expression: &TestExpression| {
        let path = place.to_own_path(&expression.path)?;
        Some(ScriptValue { path, hash: expression.hash, value: expression.value.clone() })
    };
    expressions.iter().filter_map(value).collect()
}
