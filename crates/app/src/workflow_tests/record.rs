//! Recording a test: the requests and responses of a run become the steps of a test.

use std::collections::BTreeMap;

use flowloom_core::effect::Request;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;

use super::expectation::Expectation;
use super::file::{Expectations, TestFile};
use super::request_secrets::RequestSecrets;
use super::subject::TestSubject;
use super::test_runs::{RunPlace, TestRun, TestRuns};
use crate::error::AppError;
use crate::runs::finished::read_outcome;
use crate::runs::recorded_calls::ChildRunFinder;
use crate::runs::stored::{LoadedRun, StoredRuns};
use crate::tools::workflows::RUN_STORED_FUNCTION;

/// Fails with `TestInvalid` if a run ended, or has got as far as it has, for a reason that a test does not have: its clock
/// jumps, it is not stopped, and it has the limits of the configuration.
fn check_repeatable(runs: &StoredRuns, opened: &LoadedRun) -> Result<(), AppError> {
    let state = opened.state();
    let own_limits = state.created.as_ref().map(|created| &created.limits);
    let has_test_limits = own_limits == Some(&runs.config.limits.narrow_to(&opened.plan.limits));
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

/// The test that expects of its definition what a run did. `subject` is what the test names. Fails with
/// `TestInvalid` if a test cannot repeat the run.
pub async fn record_test(runs: &StoredRuns, opened: &LoadedRun, subject: TestSubject) -> Result<TestFile, AppError> {
    check_repeatable(runs, opened)?;
    let followed = follow_runs(runs, opened).await?;
    let sent = followed.list_sent();
    let (steps, expressions) = followed.build_steps();
    let outcome = read_outcome(runs, opened).await?;
    let output = render_result(&opened.plan, &outcome.state, &outcome.env).output;
    let status = outcome.state.status;
    let bundle = opened.bundle();
    let steps_expected = expect_named_steps(&outcome.state);
    let (definition, workflow) = match subject {
        TestSubject::File(path) => (Some(path), None),
        TestSubject::Workflow(id) => (None, Some(id)),
    };
    let test = TestFile {
        name: Some(opened.plan.name.clone()),
        definition,
        workflow,
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
    let user = opened.state().created.map(|created| created.user.clone()).unwrap_or_default();
    let received: Vec<&Value> =
        test.steps.iter().filter_map(|step| step.output.as_ref()).chain([&test.inputs]).collect();
    let secrets = RequestSecrets::new(&sent, &received, &runs.list_hidden_secrets(&user));
    Ok(secrets.mask_test(test))
}

/// The run and the runs of the workflows that its steps have called, followed with their requests.
async fn follow_runs(runs: &StoredRuns, opened: &LoadedRun) -> Result<TestRuns, AppError> {
    let mut finder = ChildRunFinder::new(&runs.store);
    let outermost = follow_run(runs, opened, RunPlace::default()).await?;
    let (mut children, mut pending) = (Vec::new(), find_child_runs(runs, &mut finder, opened.id, &outermost).await?);
    while let Some((place, child)) = pending.pop() {
        let run = follow_run(runs, &child, place).await?;
        pending.extend(find_child_runs(runs, &mut finder, child.id, &run).await?);
        children.push(run);
    }
    Ok(TestRuns::new(outermost, children))
}

async fn follow_run(runs: &StoredRuns, opened: &LoadedRun, place: RunPlace) -> Result<TestRun, AppError> {
    let engine = runs.engine_for_run(opened)?;
    let collected = engine.follow_requests(opened.records.clone(), opened.plan.clone()).await;
    Ok(TestRun::new(place, opened.records.clone(), opened.state(), &collected))
}

/// The child runs of a run that a test can repeat. A step whose child run it cannot repeat, or that ran a definition in the
/// database, receives the recorded result.
async fn find_child_runs(
    runs: &StoredRuns,
    finder: &mut ChildRunFinder<'_>,
    id: RunId,
    run: &TestRun,
) -> Result<Vec<(RunPlace, LoadedRun)>, AppError> {
    finder.add_caller(id, &run.records);
    let mut found = Vec::new();
    for sent in &run.sent {
        let Request::Call(call) = &sent.request else { continue };
        if &*call.function == RUN_STORED_FUNCTION {
            continue;
        }
        let attempt = run.recorded_attempt(sent);
        let Some(child) = finder.find_child(id, &sent.path, attempt)? else { continue };
        let child = runs.open_run_by_id(child).await?;
        if check_repeatable(runs, &child).is_ok() {
            found.push((run.place.place_child_run(&sent.path, sent.attempt), child));
        }
    }
    Ok(found)
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
