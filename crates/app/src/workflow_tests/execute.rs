//! Running a test: the definition runs as it is now, and receives what the test has.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use flowloom_core::chat::Usage;
use flowloom_core::event::{AfterFailure, Event};
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_models_local::LocalEngine;
use flowloom_runtime::effects::CodeRunner;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::requests::CollectedRequests;
use flowloom_runtime::{Engine, Response, RunOutcome, ScriptValue, StartOptions};
use tokio::sync::OnceCell;

use super::file::{TestFile, TestFileError, TestStep};
use super::judge::ask_judge;
use super::offline::OfflineEffects;
use super::record::build_steps;
use crate::config::Config;
use crate::definitions::bundle::AvailableTools;
use crate::definitions::source::{LoadedDefinition, Loader};
use crate::engines::App;
use crate::error::AppError;
use crate::runs::details::describe_request;
use crate::tools::agents::attach_workflows;
use crate::wiring::{ModelChoice, build_models, build_sandbox};

/// The user of the runs of tests.
const TEST_USER: &str = "local";

/// Runs tests under one configuration.
pub struct TestRunner<'a> {
    config: &'a Config,
    code: Arc<dyn CodeRunner>,
    local: Arc<LocalEngine>,
    live: Option<Limits>,
    /// Opened for the first agent, whose tools are the workflows beside it.
    app: OnceCell<Arc<App>>,
}

/// The result of a test.
pub struct TestOutcome {
    /// The file of the test.
    pub file: PathBuf,
    /// What is tested.
    pub name: String,
    /// Why the test failed; empty if it passed.
    pub problems: Vec<TestProblem>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What the models used that were asked.
    pub usage: Usage,
    /// The test that expects what has happened now.
    pub updated: TestFile,
    /// Whether the run reached its end, so that `updated` is complete.
    pub is_complete: bool,
}

/// Something that is not as a test expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestProblem {
    /// The step, or `output` or `status`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What the test has.
    pub expected: Option<String>,
    /// What there is.
    pub found: Option<String>,
}

impl TestProblem {
    fn new(place: &str, message: impl Into<String>) -> TestProblem {
        TestProblem { place: place.to_owned(), message: message.into(), expected: None, found: None }
    }

    fn with_texts(self, expected: String, found: String) -> TestProblem {
        TestProblem { expected: Some(expected), found: Some(found), ..self }
    }
}

impl<'a> TestRunner<'a> {
    /// A runner without models.
    pub fn new(config: &'a Config) -> TestRunner<'a> {
        let code = Arc::new(build_sandbox(config, None));
        TestRunner { config, code, local: Arc::default(), live: None, app: OnceCell::new() }
    }

    /// Asks models where a request has changed or has no response, within these limits for each test.
    pub fn with_live_models(mut self, limits: Limits) -> TestRunner<'a> {
        self.live = Some(limits);
        self
    }

    /// Runs the test in a file. Fails if the file is not a test, or if its definition has errors.
    pub async fn run_test(&self, file: &FilePath) -> Result<TestOutcome, TestFileError> {
        let started = Instant::now();
        let test = TestFile::read(file)?;
        let plan = Arc::new(self.compile(file, &test).await?);
        let models = ModelChoice {
            default: test.model.clone().or_else(|| self.config.default_model.value.clone()),
            aliases: &test.aliases.clone().into_iter().collect::<Vec<_>>(),
            allows_named_files: true,
        };
        let models = build_models(self.config, models, self.local.clone());
        let effects = OfflineEffects::build(models, self.live.is_some(), test.answers.clone(), self.code.clone());
        let engine = Engine::new(effects, Arc::new(MemoryJournal::new()));
        let name = test.name.clone().unwrap_or_else(|| plan.name.clone());
        let (run, collected) = match engine.start_with_responses(
            self.start_options(&plan, &test),
            list_test_responses(&test, self.live.is_some()),
            list_script_values(&test),
        ) {
            Ok(started) => started,
            Err(error) => {
                let problems = vec![TestProblem::new("inputs", error.to_string())];
                return Ok(TestOutcome::failed(file, name, problems, test));
            }
        };
        let outcome = run.drive_to_end().await;
        let mut problems = compare_requests(&test, &collected, self.live.is_some());
        check_expectations(&test, &plan, &outcome, &mut problems);
        let mut usage = outcome.state.usage;
        if self.live.is_some() {
            usage.add(&ask_judge(&engine, &test, &plan, &outcome, &mut problems).await);
        }
        Ok(TestOutcome {
            file: file.to_owned(),
            name,
            problems,
            duration_ms: started.elapsed().as_millis() as u64,
            usage,
            is_complete: is_complete(&outcome),
            updated: build_updated(test, &plan, &outcome, &collected),
        })
    }

    async fn compile(&self, file: &FilePath, test: &TestFile) -> Result<Plan, TestFileError> {
        let loader = Loader::new(self.config);
        let tools = AvailableTools { servers: test.tools.clone(), flows: None };
        let mut source = loader.compile(&test.definition_path(file));
        if !test.tools.is_empty() {
            source = source.with_tools(tools).compile(&loader);
        }
        let fail = |messages| {
            let (file, definition) = (file.to_owned(), test.definition.clone());
            TestFileError::Definition { file, definition, messages }
        };
        if source.compiled.format == Some(flowloom_formats::agent::FORMAT) {
            let attached = self.attach_workflows(&test.definition_path(file), source).await;
            source = attached.map_err(|error| fail(vec![error.to_string()]))?;
        }
        let errors = source.compiled.diagnostics.iter().filter(|problem| problem.is_error());
        let messages: Vec<String> = errors.map(|problem| format!("{}: {}", problem.code, problem.message)).collect();
        source.compiled.plan.ok_or_else(|| fail(messages))
    }

    /// An agent with the workflows beside it as tools.
    async fn attach_workflows(
        &self,
        definition: &FilePath,
        source: LoadedDefinition,
    ) -> Result<LoadedDefinition, AppError> {
        let open = async || App::open(self.config.clone()).map(Arc::new);
        let app = self.app.get_or_try_init(open).await?;
        attach_workflows(app, definition, false, source, TEST_USER).await
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

impl TestOutcome {
    fn failed(file: &FilePath, name: String, problems: Vec<TestProblem>, test: TestFile) -> TestOutcome {
        TestOutcome {
            file: file.to_owned(),
            name,
            problems,
            duration_ms: 0,
            usage: Usage::none(),
            updated: test,
            is_complete: false,
        }
    }

    /// Whether everything was as expected.
    pub fn has_passed(&self) -> bool {
        self.problems.is_empty()
    }
}

/// What the steps of the test receive. `is_live`: a response counts for its own request only.
fn list_test_responses(test: &TestFile, is_live: bool) -> Vec<Response> {
    let response = |step: &TestStep| {
        let outcome = match &step.error {
            Some(error) => {
                let then = step.then.clone().unwrap_or(AfterFailure::Fail);
                Event::StepFailed { error: error.clone(), then, reused: false }
            }
            None => Event::StepFinished {
                output: step.output.clone(),
                usage: step.usage,
                memory: step.memory.clone(),
                reused: false,
            },
        };
        let hash = step.request_hash.filter(|_| is_live);
        Some(Response { path: Path::parse(&step.path)?, attempt: step.attempt, hash, outcome })
    };
    test.steps.iter().filter_map(response).collect()
}

fn list_script_values(test: &TestFile) -> Vec<ScriptValue> {
    let value = |expression: &super::file::TestExpression| {
        let path = Path::parse(&expression.path)?;
        Some(ScriptValue { path, hash: expression.hash, value: expression.value.clone() })
    };
    test.expressions.iter().filter_map(value).collect()
}

/// The requests that are not those of the test. `is_live`: a changed request was asked anew, so it is no problem.
fn compare_requests(test: &TestFile, collected: &CollectedRequests, is_live: bool) -> Vec<TestProblem> {
    let sent = collected.list_sent();
    let sent: HashMap<(&str, u32), &flowloom_runtime::requests::SentRequest> =
        sent.iter().map(|sent| ((sent.path.as_str(), sent.attempt), sent)).collect();
    let mut problems = Vec::new();
    for step in &test.steps {
        let Some(expected) = &step.request else { continue };
        let Some(sent) = sent.get(&(step.path.as_str(), step.attempt)) else {
            problems.push(TestProblem::new(&step.path, "the step no longer sends a request"));
            continue;
        };
        let found = crate::runs::details::request_to_json(&sent.request);
        if *expected == found || is_live {
            continue;
        }
        let kind = sent.request.kind_name();
        let (mut before, mut after) = (describe_request(kind, expected), describe_request(kind, &found));
        if before == after {
            let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).ok();
            (before, after) = (pretty(expected), pretty(&found));
        }
        let problem = TestProblem::new(&step.path, "the step sends another request");
        problems.push(problem.with_texts(before.unwrap_or_default(), after.unwrap_or_default()));
    }
    problems
}

fn check_expectations(test: &TestFile, plan: &Plan, outcome: &RunOutcome, problems: &mut Vec<TestProblem>) {
    let state = &outcome.state;
    let expected = test.expect.status.as_deref().unwrap_or(Status::Succeeded.name());
    if state.status.name() != expected {
        let error = outcome.find_error().map(|error| format!(": {}: {}", error.code, error.message));
        let message = format!("the run is {}{}", state.status.name(), error.unwrap_or_default());
        let problem = TestProblem::new("status", message);
        problems.push(problem.with_texts(expected.to_owned(), state.status.name().to_owned()));
    }
    for (place, value, expectations) in list_checked_values(test, plan, outcome) {
        let Some(value) = value else {
            problems.push(TestProblem::new(&place, "the step has no output"));
            continue;
        };
        for expectation in expectations {
            match expectation.find_mismatch(&value) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    problems.push(TestProblem::new(&place, found.message).with_texts(found.expected, found.found));
                }
                Err(message) => problems.push(TestProblem::new(&place, message)),
            }
        }
    }
}

/// The values that a test has expectations of: the output of the run, and those of steps.
pub(super) fn list_checked_values<'t>(
    test: &'t TestFile,
    plan: &Plan,
    outcome: &RunOutcome,
) -> Vec<(String, Option<Value>, &'t [super::expectation::Expectation])> {
    let output = render_result(plan, &outcome.state, &outcome.env).output;
    let mut all = vec![("output".to_owned(), Some(output), test.expect.output.as_slice())];
    for (path, expectations) in &test.expect.steps {
        let step = Path::parse(path).and_then(|path| outcome.state.find_step(&path).cloned());
        all.push((path.clone(), step.and_then(|step| step.output), expectations.as_slice()));
    }
    all
}

/// Whether no step stopped the run because the test has nothing for it.
fn is_complete(outcome: &RunOutcome) -> bool {
    let is_missing = |error: &flowloom_core::StepFailure| error.code == flowloom_core::code::Code::ResponseMissing;
    outcome.broken.is_none()
        && outcome.state.status.is_final()
        && !outcome.state.steps().iter().any(|step| step.error.as_ref().is_some_and(is_missing))
}

/// The same test with the requests, responses and the output of this run.
fn build_updated(test: TestFile, plan: &Plan, outcome: &RunOutcome, collected: &CollectedRequests) -> TestFile {
    let (steps, expressions) = build_steps(&outcome.records, collected);
    let output = render_result(plan, &outcome.state, &outcome.env).output;
    let mut expect = test.expect.clone();
    for expectation in expect.output.iter_mut().filter(|expectation| expectation.jsonpath.is_none()) {
        if expectation.equals.is_some() {
            expectation.equals = Some(output.clone());
        }
    }
    let status = outcome.state.status;
    expect.status = (status != Status::Succeeded).then(|| status.name().to_owned());
    // Steps without a request were written by hand and stay as they are.
    let by_hand: BTreeMap<&str, &TestStep> =
        test.steps.iter().filter(|step| step.request.is_none()).map(|step| (step.path.as_str(), step)).collect();
    let steps = steps.into_iter().map(|step| by_hand.get(step.path.as_str()).map_or(step, |step| (*step).clone()));
    let steps: Vec<TestStep> = steps.collect();
    TestFile { steps: if test.answers.is_empty() { steps } else { test.steps.clone() }, expressions, expect, ..test }
}
