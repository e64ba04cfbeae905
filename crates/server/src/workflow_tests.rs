//! `/api/v1/tests`: the tests of the project.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

mod save;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::definitions::folder::leaves_folder;
use flowloom_app::keys::Scope;
use flowloom_app::workflow_tests::file::{TEST_FOLDER, TestFile, TestFileError, find_tests};
use flowloom_app::workflow_tests::{SkippedQuestion, TestOutcome, TestProblem, TestRunner};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::{run_blocking, run_reading};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::state::{RunHost, Server};

/// The routes of tests.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_tests, run_tests)).merge(save::routes())
}

/// The folder of tests in the project.
fn test_folder(config: &Config) -> PathBuf {
    config.project.root.join(TEST_FOLDER)
}

/// The paths of the tests, relative to their folder, with their files. None if the folder is a link to somewhere else.
fn list_files(config: &Config) -> ApiResult<Vec<(String, PathBuf)>> {
    let folder = test_folder(config);
    // A link in the served folder must not show files elsewhere.
    if !folder.is_dir() || leaves_folder(&folder, &config.project.root) {
        return Ok(Vec::new());
    }
    let failed = |error: TestFileError| Problem::new(error.code(), error.to_string());
    let name = |file: PathBuf| (file.strip_prefix(&folder).unwrap_or(&file).display().to_string(), file.clone());
    Ok(find_tests(&folder).map_err(failed)?.tests.into_iter().map(name).collect())
}

/// The tests of the project.
#[derive(Serialize, ToSchema)]
pub(crate) struct TestList {
    items: Vec<TestInfo>,
}

/// A test.
#[derive(Serialize, ToSchema)]
pub(crate) struct TestInfo {
    /// Path of its file in the folder `tests`.
    file: String,
    /// The workflow that is tested; null if the file does not name one, or cannot be read.
    name: Option<String>,
    /// Path of the definition, relative to the file; null if the test names a `workflow`.
    definition: Option<String>,
    /// Id of the workflow; null if the test names the file of a `definition`.
    workflow: Option<String>,
}

impl TestInfo {
    /// The test in a file; `None` if it cannot be read.
    fn new(file: String, test: Option<TestFile>) -> TestInfo {
        let (name, definition, workflow) =
            test.map(|test| (test.name, test.definition, test.workflow)).unwrap_or_default();
        TestInfo { file, name, definition, workflow }
    }
}

/// Lists the tests in the folder `tests` of the project.
#[utoipa::path(get, path = "/api/v1/tests", operation_id = "list_tests", tag = "tests", security(("key" = ["read"])),
    responses((status = 200, description = "The tests", body = TestList), (status = 403, body = ProblemDocument)))]
pub(crate) async fn list_tests(State(config): State<Arc<Config>>, caller: Caller) -> ApiResult<Json<TestList>> {
    caller.require_scope_for_all(Scope::Read, "see the tests of the project")?;
    let info = |(file, path): (String, PathBuf)| TestInfo::new(file, TestFile::read(&path).ok());
    let items = run_blocking(move || Ok::<_, Problem>(list_files(&config)?.into_iter().map(info).collect()));
    Ok(Json(TestList { items: items.await?? }))
}

/// Which tests are run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTestsRequest {
    /// Paths in the folder `tests`; all tests if absent.
    #[serde(default)]
    files: Option<Vec<String>>,
    /// Whether the files of tests that fail are replaced by what happens now, with the responses that they have. Needs a key
    /// that may write.
    #[serde(default)]
    update: bool,
}

/// The results of tests.
#[derive(Serialize, ToSchema)]
pub(crate) struct TestReport {
    items: Vec<TestResult>,
}

/// The result of a test.
#[derive(Serialize, ToSchema)]
pub(crate) struct TestResult {
    file: String,
    name: String,
    passed: bool,
    /// Whether the file was replaced. What is still wrong then is among the problems.
    updated: bool,
    duration_ms: u64,
    /// Empty if it passed.
    problems: Vec<TestProblemInfo>,
    /// Questions that a model must judge: no model was asked.
    skipped: Vec<SkippedInfo>,
}

/// An expectation that was not checked.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkippedInfo {
    /// The step, or `output`.
    place: String,
    /// The question.
    judge: String,
}

/// Something that is not as a test expects.
#[derive(Serialize, ToSchema)]
pub(crate) struct TestProblemInfo {
    /// The step, or `output`, `status`, `inputs` or `file`.
    place: String,
    message: String,
    expected: Option<String>,
    found: Option<String>,
}

impl TestResult {
    fn from_outcome(file: String, outcome: TestOutcome) -> TestResult {
        let (passed, updated) = (outcome.is_accepted(), outcome.is_updated);
        let problem = |problem: TestProblem| TestProblemInfo {
            place: problem.place,
            message: problem.message,
            expected: problem.expected,
            found: problem.found,
        };
        let skipped = |skipped: SkippedQuestion| SkippedInfo { place: skipped.place, judge: skipped.question };
        TestResult {
            file,
            passed,
            updated,
            name: outcome.name,
            duration_ms: outcome.duration_ms,
            problems: outcome.problems.into_iter().filter(|_| !passed).map(problem).collect(),
            skipped: outcome.skipped.into_iter().map(skipped).collect(),
        }
    }

    /// The result of a file that is no test, or whose definition has errors.
    fn from_error(file: String, message: String) -> TestResult {
        let problem = TestProblemInfo { place: "file".to_owned(), message, expected: None, found: None };
        TestResult {
            name: file.clone(),
            file,
            passed: false,
            updated: false,
            duration_ms: 0,
            problems: vec![problem],
            skipped: Vec::new(),
        }
    }
}

/// Runs tests of the project with their recorded responses: without models and without the network.
#[utoipa::path(post, path = "/api/v1/tests", operation_id = "run_tests", tag = "tests", security(("key" = ["run"])), request_body = RunTestsRequest,
    responses((status = 200, description = "The results of the tests", body = TestReport), (status = 403, body = ProblemDocument)))]
pub(crate) async fn run_tests(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    JsonObject(wanted, _): JsonObject<RunTestsRequest>,
) -> ApiResult<Json<TestReport>> {
    match wanted.update {
        true => caller.require_scope_for_all(Scope::Write, "change the tests of the project")?,
        false => caller.require_scope_for_all(Scope::Run, "run the tests of the project")?,
    }
    let app = host.app.clone();
    let files = run_blocking(move || list_files(&app.config)).await??;
    let run_all = async move || {
        let runner = TestRunner::for_server(&host.app.config, &host.catalog);
        let is_wanted = |file: &String| wanted.files.as_ref().is_none_or(|names| names.contains(file));
        let mut items = Vec::new();
        let folder = test_folder(&host.app.config);
        for (name, file) in files.into_iter().filter(|(name, _)| is_wanted(name)) {
            if wanted.update {
                // A link may lead out of the folder.
                save::place_test(&folder, &name)?;
            }
            items.push(match run_test(&runner, &file, wanted.update).await {
                Ok(outcome) => TestResult::from_outcome(name, outcome),
                Err(error) => TestResult::from_error(name, error.to_string()),
            });
        }
        Ok(Json(TestReport { items }))
    };
    run_reading(run_all).await
}

async fn run_test(runner: &TestRunner<'_>, file: &Path, is_update: bool) -> Result<TestOutcome, TestFileError> {
    let mut outcome = runner.run_test(file).await?;
    if is_update {
        runner.update_test(&mut outcome).await?;
    }
    Ok(outcome)
}
