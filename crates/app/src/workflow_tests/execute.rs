//! Running a test: the definition runs as it is now, and receives what the test has.

use std::collections::{BTreeMap, HashSet};
use std::path::Path as FilePath;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::state::StepState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_models::Models;
use flowloom_models_local::LocalEngine;
use flowloom_runtime::effects::{CodeRunner, Model as _};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use flowloom_tools::HiddenSecret;

use super::compare::{compare_requests, list_moved};
use super::expectation::Expectation;
use super::file::{StepAttempt, TestFile, TestFileError, TestStep};
use super::judge::{ask_judge, list_questions};
use super::offline::OfflineEffects;
use super::outcome::{TestOutcome, TestProblem};
use super::request_secrets::RequestSecrets;
use super::responses::{LiveMatch, list_script_values, list_step_responses};
use super::test_runs::{RunPlace, TestRun, TestRuns};
use crate::config::Config;
use crate::definitions::catalog::Catalog;
use crate::definitions::catalog_parts::CatalogParts;
use crate::definitions::function_files::FunctionFiles;
use crate::engines::App;
use crate::error::AppError;
use crate::listing::list_first;
use crate::redaction::UserRedactors;
use crate::wiring::{ModelChoice, build_models, build_sandbox};

/// Number of steps that a problem lists.
const MAX_LISTED_STEPS: usize = 5;

/// The user of the runs of tests.
pub(super) const TEST_USER: &str = "local";

/// Runs tests under one configuration.
pub struct TestRunner<'a> {
    pub(super) config: &'a Config,
    code: Arc<dyn CodeRunner>,
    local: Arc<LocalEngine>,
    live: Option<Limits>,
    /// Opened for the first agent, whose tools are the workflows next to it, or with the workflows of the project.
    parts: OnceLock<CatalogParts>,
    /// The workflows that tests name by their ids.
    catalog: OnceLock<Arc<Catalog>>,
    /// The files of the workflows that run as functions.
    pub(super) function_files: FunctionFiles,
    /// The secrets that are set, which tests do not contain.
    secrets: OnceLock<Vec<HiddenSecret>>,
}

impl<'a> TestRunner<'a> {
    /// A runner without models.
    pub fn new(config: &'a Config) -> TestRunner<'a> {
        let code = Arc::new(build_sandbox(config, None));
        let (local, function_files) = (Arc::default(), FunctionFiles::default());
        let (parts, catalog, secrets) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        TestRunner { config, code, local, live: None, parts, catalog, function_files, secrets }
    }

    /// A runner without models, for the workflows of a server.
    pub fn for_server(config: &'a Config, catalog: &Arc<Catalog>) -> TestRunner<'a> {
        let parts = OnceLock::from(catalog.catalog_parts().clone());
        TestRunner { parts, catalog: OnceLock::from(catalog.clone()), ..TestRunner::new(config) }
    }

    /// The parts of the project with its database.
    pub(super) fn open_parts(&self) -> Result<&CatalogParts, AppError> {
        if let Some(opened) = self.parts.get() {
            return Ok(opened);
        }
        let opened = App::open(self.config.clone())?.catalog_parts();
        Ok(self.parts.get_or_init(|| opened))
    }

    /// The workflows that tests may name.
    pub(super) fn open_catalog(&self) -> Result<&Arc<Catalog>, AppError> {
        let parts = self.open_parts()?;
        let root = self.config.project.root.join(".");
        Ok(self.catalog.get_or_init(|| Arc::new(Catalog::new(root, parts.clone()))))
    }

    /// Asks models where a request has changed or has no response, within these limits for each test.
    pub fn with_live_models(mut self, limits: Limits) -> TestRunner<'a> {
        self.live = Some(limits);
        self
    }

    /// Runs the test in a file. Fails if the file is not a test, or if its definition has errors.
    pub async fn run_test(&self, file: &FilePath) -> Result<TestOutcome, TestFileError> {
        let started = Instant::now();
        let mut test = TestFile::read(file)?;
        let (plan, bundle) = self.compile_definition(file, &test).await?;
        let models = self.build_models(&test);
        let live: Option<LiveMatch> = self.live.as_ref().map(|_| self.list_configured_secrets().into());
        let offline = OfflineEffects::new(models, live.clone(), &test, self.code.clone(), bundle);
        let offline = Arc::new(offline);
        let engine = Engine::new(offline.clone().into_effects(), Arc::new(MemoryJournal::new()));
        let name = test.name.clone().unwrap_or_else(|| plan.name.clone());
        let (run, collected) = match engine.start_with_responses(
            self.start_options(&plan, &test),
            list_step_responses(&test.steps, &RunPlace::default(), live.as_ref()),
            list_script_values(&test.expressions, &RunPlace::default()),
        ) {
            Ok(started) => started,
            Err(error) => {
                let problem = TestProblem::new("inputs", error.to_string());
                return Ok(TestOutcome::from_start_problem(file, name, problem));
            }
        };
        let outcome = run.drive_to_end().await;
        let outermost = TestRun::new(RunPlace::default(), outcome.records.clone(), outcome.state.clone(), &collected);
        let runs = TestRuns::new(outermost, offline.take_child_runs());
        let is_complete = is_complete(&outcome, &runs, self.live.is_some());
        let default_model = offline.resolve(None).unwrap_or_default();
        let sent = runs.list_sent();
        let secrets = RequestSecrets::new(&sent, &[], self.list_configured_secrets());
        let mut problems = compare_requests(&test, &sent, &secrets, self.live.is_some());
        for (before, now) in list_moved(&test, &sent) {
            if let Some(expectations) = test.expect.steps.remove(&before) {
                test.expect.steps.insert(now, expectations);
            }
        }
        let checked = list_checked_values(&test, &plan, &outcome, &runs);
        check_status(&test, &outcome, &mut problems);
        check_responses(&outcome, &runs, &mut problems);
        check_expectations(&checked, &runs, &secrets, &mut problems);
        check_answers(&offline, is_complete, &mut problems);
        let is_expected = test.expect.status.as_deref() == Some(outcome.state.status.name());
        if let Some(problem) = find_early_end(&outcome).filter(|_| self.live.is_some() && !is_expected) {
            // Everything else follows from it.
            problems = vec![problem];
        }
        let has_checks = !test.steps.is_empty() || checked.iter().any(CheckedValue::has_checks);
        let mut usage = outcome.state.usage;
        let skipped = if self.live.is_none() { list_questions(&checked) } else { Vec::new() };
        usage.add(&self.ask_judge(&test, &plan, &usage, &checked, &mut problems).await);
        Ok(TestOutcome {
            file: file.to_owned(),
            name,
            problems,
            skipped,
            has_checks,
            duration_ms: started.elapsed().as_millis() as u64,
            usage,
            updated: is_complete
                .then(|| secrets.mask_test(build_updated(test, &plan, &outcome, &runs, &default_model))),
            is_updated: false,
            still_fails: false,
            invalid: None,
        })
    }

    /// Replaces the file of a test by what has happened now, if the test failed, or if models were asked again and something
    /// is new. Problems that are left then remain: an update does not change what a person expects. Fails if the file
    /// or what it names cannot be read, or if the file cannot be written.
    pub async fn update_test(&self, outcome: &mut TestOutcome) -> Result<(), TestFileError> {
        outcome.update_file(self.live.is_some())?;
        if outcome.is_updated {
            let (parts, catalog) = (self.parts.clone(), self.catalog.clone());
            let (code, local, secrets) = (self.code.clone(), self.local.clone(), self.secrets.clone());
            let function_files = FunctionFiles::default();
            let config = self.config;
            let offline = TestRunner { config, code, local, live: None, parts, catalog, function_files, secrets };
            let again = offline.run_test(&outcome.file).await?;
            if !again.has_passed() {
                outcome.problems = again.problems;
                outcome.still_fails = true;
            }
        }
        Ok(())
    }

    /// Asks models what the test wants to be judged, if they are live. `used` is what the run has used of the limits.
    async fn ask_judge(
        &self,
        test: &TestFile,
        plan: &Arc<Plan>,
        used: &Usage,
        checked: &[CheckedValue<'_>],
        problems: &mut Vec<TestProblem>,
    ) -> Usage {
        let Some(limits) = &self.live else { return Usage::none() };
        let models = Arc::new(OfflineEffects::only_models(self.build_models(test), self.code.clone()));
        let engine = Engine::new(models.into_effects(), Arc::new(MemoryJournal::new()));
        ask_judge(&engine, limits.without(used), plan, checked, problems).await
    }

    fn list_configured_secrets(&self) -> &[HiddenSecret] {
        self.secrets.get_or_init(|| UserRedactors::new(self.config).list_hidden(TEST_USER))
    }

    fn build_models(&self, test: &TestFile) -> Models {
        let choice = ModelChoice {
            default: test.model.clone().or_else(|| self.config.default_model.value.clone()),
            aliases: &test.aliases.clone().into_iter().collect::<Vec<_>>(),
            allows_named_files: true,
        };
        build_models(self.config, choice, self.local.clone())
    }

    fn start_options(&self, plan: &Arc<Plan>, test: &TestFile) -> StartOptions {
        let limits = self.live.clone().unwrap_or_else(|| self.config.limits.clone()).narrow_to(&plan.limits);
        StartOptions {
            // The clock of a test jumps from one wait to the next.
            limits: Limits { time_ms: self.live.as_ref().and_then(|limits| limits.time_ms), ..limits },
            ..StartOptions::new(plan.clone(), Hash::of_bytes(b"test"), test.inputs.clone(), TEST_USER)
        }
    }
}

/// The place of a problem with the status of the run.
const STATUS_PLACE: &str = "status";

fn check_status(test: &TestFile, outcome: &RunOutcome, problems: &mut Vec<TestProblem>) {
    let status = outcome.state.status;
    let expected = test.expect.status.as_deref().unwrap_or(Status::Succeeded.name());
    if status.name() != expected {
        let error = outcome.find_error().map(|error| format!(": {}: {}", error.code, error.message));
        let message = format!("the run is {}{}", status.name(), error.unwrap_or_default());
        let problem = TestProblem::new(STATUS_PLACE, message);
        problems.push(problem.with_texts(expected.to_owned(), status.name().to_owned()));
    }
}

/// That the limits of a test with live models ended its run.
fn find_early_end(outcome: &RunOutcome) -> Option<TestProblem> {
    let error = outcome.find_error().filter(|_| outcome.state.status == Status::BudgetExceeded)?;
    let message = format!("the limits of the test ended the run: {}: {}", error.code, error.message);
    Some(TestProblem::new(STATUS_PLACE, message))
}

/// Reports missing responses that the status does not: the run may continue without one, and a test may expect a run that
/// fails.
fn check_responses(outcome: &RunOutcome, runs: &TestRuns, problems: &mut Vec<TestProblem>) {
    let is_reported = problems.iter().any(|problem| problem.place == STATUS_PLACE);
    let ended_by = outcome.find_error().filter(|error| is_reported && error.code == Code::ResponseMissing);
    let mut reported: HashSet<String> = ended_by.into_iter().map(|error| error.message).collect();
    for (path, step) in runs.list_steps() {
        // A step whose child run has failed has the error of that run.
        if let Some(error) = find_missing_response(step).filter(|error| reported.insert(error.message.clone())) {
            problems.push(TestProblem::new(path.as_str(), error.message.clone()));
        }
    }
}

/// The error of a step for which the test has no response.
fn find_missing_response(step: &StepState) -> Option<&StepFailure> {
    step.error.as_ref().filter(|error| error.code == Code::ResponseMissing)
}

fn check_expectations(
    checked: &[CheckedValue<'_>],
    runs: &TestRuns,
    secrets: &RequestSecrets,
    problems: &mut Vec<TestProblem>,
) {
    for checked in checked {
        let place = &checked.place;
        let Some(value) = &checked.value else {
            let message = match runs.find_step(place) {
                Some(_) => "the step has no output".to_owned(),
                None => describe_unknown_step(place, runs),
            };
            problems.push(TestProblem::new(place, message));
            continue;
        };
        for expectation in checked.expectations {
            // A recorded test expects masked values, and one written by hand may expect the values themselves.
            let mismatch = match expectation.find_mismatch(value) {
                Ok(None) => Ok(None),
                _ => expectation.find_mismatch(&secrets.mask_value(value)),
            };
            match mismatch {
                Ok(None) => {}
                Ok(Some(found)) => {
                    problems.push(TestProblem::new(place, found.message).with_texts(found.expected, found.found));
                }
                Err(message) => problems.push(TestProblem::new(place, message)),
            }
        }
    }
}

fn describe_unknown_step(place: &str, runs: &TestRuns) -> String {
    let named = runs.list_steps_at_end(place);
    if named.len() > 1 {
        let listed = list_first(named.iter().map(|(path, _)| path), MAX_LISTED_STEPS);
        return format!("several steps of the run have this name; give the path of one: {listed}");
    }
    let paths: Vec<Path> = runs.list_steps().map(|(path, _)| path).collect();
    let similar = find_similar_name(place, paths.iter().map(Path::as_str))
        .map(|path| format!("; did you mean {path}?"))
        .unwrap_or_default();
    format!("the run has no such step{similar}")
}

/// Reports answers that were not used. A run that stopped before its end reports why, which is enough.
fn check_answers(offline: &OfflineEffects, is_complete: bool, problems: &mut Vec<TestProblem>) {
    let unused = offline.count_unused_answers();
    if is_complete && unused > 0 {
        let noun = if unused == 1 { "answer is" } else { "answers are" };
        problems.push(TestProblem::new("answers", format!("the last {unused} {noun} not used")));
    }
}

/// A value with what a test expects of it.
pub(super) struct CheckedValue<'t> {
    /// The step, or `output`.
    pub(super) place: String,
    /// The value; `None` if there is none.
    pub(super) value: Option<Value>,
    /// The expectation.
    pub(super) expectations: &'t [Expectation],
}

impl CheckedValue<'_> {
    fn has_checks(&self) -> bool {
        self.expectations.iter().any(Expectation::is_checked_offline)
    }
}

/// The values that a test has expectations of: the output of the run, and those of steps.
fn list_checked_values<'t>(
    test: &'t TestFile,
    plan: &Plan,
    outcome: &RunOutcome,
    runs: &TestRuns,
) -> Vec<CheckedValue<'t>> {
    let output = render_result(plan, &outcome.state, &outcome.env).output;
    let place = "output".to_owned();
    let mut all = vec![CheckedValue { place, value: Some(output), expectations: &test.expect.output }];
    for (path, expectations) in &test.expect.steps {
        let value = runs.find_step(path).and_then(|step| step.output.clone());
        all.push(CheckedValue { place: path.clone(), value, expectations });
    }
    all
}

/// Whether the run ended or waits, and no step lacked a response or, with live models, the budget of the test.
fn is_complete(outcome: &RunOutcome, runs: &TestRuns, is_live: bool) -> bool {
    let status = outcome.state.status;
    outcome.broken.is_none()
        && (status.is_final() || status == Status::Waiting)
        && !(is_live && status == Status::BudgetExceeded)
        && !runs.list_steps().any(|(_, step)| find_missing_response(step).is_some())
}

/// The same test with the requests, responses and the output of this run.
fn build_updated(test: TestFile, plan: &Plan, outcome: &RunOutcome, runs: &TestRuns, default_model: &str) -> TestFile {
    let (steps, expressions) = runs.build_steps();
    let output = render_result(plan, &outcome.state, &outcome.env).output;
    let mut expect = test.expect.clone();
    expect.output.iter_mut().for_each(|expectation| expectation.accept_value(&output));
    for (path, expectations) in &mut expect.steps {
        if let Some(output) = runs.find_step(path).and_then(|step| step.output.as_ref()) {
            expectations.iter_mut().for_each(|expectation| expectation.accept_value(output));
        }
    }
    let status = outcome.state.status;
    expect.status = (status != Status::Succeeded).then(|| status.name().to_owned());
    // Steps without a request were written by hand and stay as they are.
    let by_hand: BTreeMap<StepAttempt, &TestStep> =
        test.steps.iter().filter(|step| step.request.is_none()).map(|step| (step.to_attempt(), step)).collect();
    let steps = steps.into_iter().map(|step| by_hand.get(&step.to_attempt()).map_or(step, |step| (*step).clone()));
    // The others receive the answers.
    let listed: HashSet<&str> = test.steps.iter().map(|step| step.path.as_str()).collect();
    let steps = steps.filter(|step| test.answers.is_empty() || listed.contains(step.path.as_str())).collect();
    let mut updated = TestFile { steps, expressions, expect, ..test };
    updated.model = updated.model.take().or_else(|| find_default_model(&updated.steps, default_model));
    updated
}

/// The default model, if requests of the steps name it: on a machine with another one they would differ.
fn find_default_model(steps: &[TestStep], default: &str) -> Option<String> {
    let names_it = |step: &TestStep| step.request.as_ref().is_some_and(|request| request["model"] == *default);
    steps.iter().any(names_it).then(|| default.to_owned())
}
