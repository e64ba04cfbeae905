//! Recording a test: the requests and responses of a run become the steps of a test.

use std::collections::{BTreeMap, HashMap};
use std::path::Path as FilePath;
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_formats::render_result;
use flowloom_runtime::requests::{CollectedRequests, SentRequest};
use flowloom_runtime::{Response, list_responses};

use super::compare::request_to_test_json;
use super::expectation::Expectation;
use super::file::{Expectations, TestExpression, TestFile, TestStep};
use super::header_secrets::HeaderSecrets;
use crate::engines::{App, LoadedRun};
use crate::error::AppError;
use crate::runs::finished::read_outcome;

/// Fails with `TestInvalid` if a run ended, or has got as far as it has, for a reason that a test does not have: its clock
/// jumps, nobody stops it, and it has the limits of the configuration.
fn check_repeatable(app: &App, opened: &LoadedRun) -> Result<(), AppError> {
    let state = opened.state();
    let own_limits = state.created.as_ref().map(|created| &created.limits);
    let has_test_limits = own_limits == Some(&app.config.limits.narrow_to(&opened.plan.limits));
    let why = match state.status {
        Status::TimedOut => "its time was up, and the clock of a test does not run",
        Status::Cancelled => "it was cancelled",
        Status::BudgetExceeded if !has_test_limits => "it had limits of its own",
        Status::Queued | Status::Running | Status::Interrupted => "it has not ended",
        Status::Uncertain | Status::Quarantined => "it needs a decision",
        _ => return Ok(()),
    };
    Err(AppError::NotRepeatable { run: opened.id, why })
}

/// The test that expects of its definition what a run did. `definition` is the path that the test names. Fails with
/// `TestInvalid` if a test cannot repeat the run.
pub async fn record_test(app: &App, opened: &LoadedRun, definition: &FilePath) -> Result<TestFile, AppError> {
    check_repeatable(app, opened)?;
    let engine = app.engine_for_run(opened)?;
    let collected = engine.follow_requests(opened.records.clone(), opened.plan.clone()).await;
    let sent = collected.list_sent();
    let (steps, expressions) = build_steps(&opened.records, &collected);
    let outcome = read_outcome(app, opened).await?;
    let output = render_result(&opened.plan, &outcome.state, &outcome.env).output;
    let status = outcome.state.status;
    let bundle = opened.bundle();
    let steps_expected = expect_named_steps(&outcome.state);
    let test = TestFile {
        name: Some(opened.plan.name.clone()),
        definition: definition.display().to_string(),
        inputs: opened.state().inputs(),
        model: bundle.model.clone(),
        aliases: bundle.aliases.iter().cloned().collect(),
        tools: bundle.server_tools.clone(),
        steps,
        expressions,
        answers: Vec::new(),
        expect: Expectations {
            status: (status != Status::Succeeded).then(|| status.name().to_owned()),
            output: vec![Expectation::equal_to(output)],
            steps: steps_expected,
        },
    };
    Ok(HeaderSecrets::from_requests(&sent).mask_test(test))
}

/// That the steps with a name, outside of loops, have the outputs that they had.
fn expect_named_steps(state: &RunState) -> BTreeMap<String, Vec<Expectation>> {
    // Numbers of steps, iterations and visits.
    let is_named = |path: &Path| path.as_str() != "/" && !path.as_str().contains(['~', '[', '#']);
    let steps = state.steps().iter().filter(|step| is_named(&step.path));
    let expected = steps.filter_map(|step| {
        let output = step.output.clone()?;
        Some((step.path.to_string(), vec![Expectation::equal_to(output)]))
    });
    expected.collect()
}

/// The steps and expressions of a test, from the record of a run and the requests that it has sent.
pub(super) fn build_steps(
    records: &[Arc<Record>],
    collected: &CollectedRequests,
) -> (Vec<TestStep>, Vec<TestExpression>) {
    let sent = collected.take();
    let (responses, scripts) = list_responses(records, &collected.take_scripts());
    let mut requests: HashMap<(&Path, u32), &SentRequest> = HashMap::new();
    let mut last: HashMap<&Path, &SentRequest> = HashMap::new();
    for request in &sent {
        requests.insert((&request.path, request.attempt), request);
        last.insert(&request.path, request);
    }
    let step = |response: Response| {
        // The attempts of a run that was retried are counted from 1 again.
        let key = (&response.path, response.attempt);
        build_step(requests.get(&key).or_else(|| last.get(&response.path)).copied(), &response)
    };
    let expression = |script: flowloom_runtime::ScriptValue| {
        let (path, hash, value) = (script.path.to_string(), script.hash, script.value);
        TestExpression { path, hash, value }
    };
    (responses.into_iter().map(step).collect(), scripts.into_iter().map(expression).collect())
}

fn build_step(sent: Option<&SentRequest>, response: &Response) -> TestStep {
    let mut step = TestStep {
        path: response.path.to_string(),
        attempt: response.attempt,
        kind: sent.map(|sent| sent.request.kind_name().to_owned()),
        request: sent.map(|sent| request_to_test_json(&sent.request)),
        request_hash: response.hash,
        output: None,
        usage: None,
        memory: Vec::new(),
        error: None,
        then: None,
    };
    match &response.outcome {
        Event::StepFinished { output, usage, memory, .. } => {
            (step.output, step.usage, step.memory) = (output.clone(), *usage, memory.clone());
        }
        Event::StepFailed { error, then, .. } => {
            (step.error, step.then) = (Some(error.clone()), Some(then.clone()));
        }
        _ => {}
    }
    step
}
