//! `/api/v1/tests`: the tests of the project, and a test from a run.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::config::Config;
use flowloom_app::engines::{App, LoadedRun};
use flowloom_app::keys::Scope;
use flowloom_app::workflow_tests::file::{TestFile, find_tests};
use flowloom_app::workflow_tests::{TestOutcome, TestRunner, record_test};
use flowloom_core::code::Code;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::{run_blocking, run_reading};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::open_own_run;
use crate::runs::start::look_up_definition;
use crate::state::{RunHost, Server};

/// The routes of tests.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_tests, run_tests)).routes(routes!(get_run_test))
}

/// The folder of tests in the project.
fn test_folder(config: &Config) -> PathBuf {
    config.project.root.join("tests")
}

/// The paths of the tests, relative to their folder, with their files.
fn list_files(config: &Config) -> ApiResult<Vec<(String, PathBuf)>> {
    let folder = test_folder(config);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let failed =
        |error: flowloom_app::workflow_tests::file::TestFileError| Problem::new(error.code(), error.to_string());
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
    /// What is tested; null if the file does not say it, or cannot be read.
    name: Option<String>,
    /// Path of the definition, relative to the file.
    definition: Option<String>,
}

/// Lists the tests in the folder `tests` of the project.
#[utoipa::path(get, path = "/api/v1/tests", operation_id = "list_tests", tag = "tests", security(("key" = ["read"])),
    responses((status = 200, description = "The tests", body = TestList), (status = 403, body = ProblemDocument)))]
pub(crate) async fn list_tests(State(app): State<Arc<App>>, caller: Caller) -> ApiResult<Json<TestList>> {
    caller.require_scope_for_all(Scope::Read, "see the tests of the project")?;
    let info = |(file, path): (String, PathBuf)| {
        let test = TestFile::read(&path).ok();
        let definition = test.as_ref().map(|test| test.definition.clone());
        TestInfo { file, name: test.and_then(|test| test.name), definition }
    };
    let items = run_blocking(move || Ok::<_, Problem>(list_files(&app.config)?.into_iter().map(info).collect()));
    Ok(Json(TestList { items: items.await?? }))
}

/// Which tests are run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTestsRequest {
    /// Paths in the folder `tests`; all tests if absent.
    #[serde(default)]
    files: Option<Vec<String>>,
}

/// What tests found.
#[derive(Serialize, ToSchema)]
pub(crate) struct TestReport {
    items: Vec<TestResult>,
}

/// What a test found.
#[derive(Serialize, ToSchema)]
pub(crate) struct TestResult {
    file: String,
    name: String,
    passed: bool,
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
        let passed = outcome.has_passed();
        let problem = |problem: flowloom_app::workflow_tests::TestProblem| TestProblemInfo {
            place: problem.place,
            message: problem.message,
            expected: problem.expected,
            found: problem.found,
        };
        let skipped = |skipped: flowloom_app::workflow_tests::SkippedQuestion| SkippedInfo {
            place: skipped.place,
            judge: skipped.question,
        };
        TestResult {
            file,
            passed,
            name: outcome.name,
            duration_ms: outcome.duration_ms,
            problems: outcome.problems.into_iter().map(problem).collect(),
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
            duration_ms: 0,
            problems: vec![problem],
            skipped: Vec::new(),
        }
    }
}

/// Runs tests of the project with their recorded responses: without models and without the network.
#[utoipa::path(post, path = "/api/v1/tests", operation_id = "run_tests", tag = "tests", security(("key" = ["run"])), request_body = RunTestsRequest,
    responses((status = 200, description = "What the tests found", body = TestReport), (status = 403, body = ProblemDocument)))]
pub(crate) async fn run_tests(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonObject(wanted, _): JsonObject<RunTestsRequest>,
) -> ApiResult<Json<TestReport>> {
    caller.require_scope_for_all(Scope::Run, "run the tests of the project")?;
    let config = app.clone();
    let files = run_blocking(move || list_files(&config.config)).await??;
    let is_wanted = move |file: &String| wanted.files.as_ref().is_none_or(|names| names.contains(file));
    let run_all = async move || {
        let runner = TestRunner::new(&app.config);
        let mut items = Vec::new();
        for (name, file) in files.into_iter().filter(|(name, _)| is_wanted(name)) {
            items.push(match runner.run_test(&file).await {
                Ok(outcome) => TestResult::from_outcome(name, outcome),
                Err(error) => TestResult::from_error(name, error.to_string()),
            });
        }
        Ok(Json(TestReport { items }))
    };
    run_reading(run_all).await
}

/// Where the test will find its definition.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunTestQuery {
    /// Path of the definition, relative to the file of the test. Default: where the file is in the project. Required if the
    /// definition is in the database or was sent with the run.
    #[serde(default)]
    definition: Option<String>,
}

/// Returns a test that expects what a run did: the content of a file in the folder `tests`.
#[utoipa::path(get, path = "/api/v1/runs/{id}/test", operation_id = "get_run_test", tag = "tests", params(("id" = String, Path), RunTestQuery), security(("key" = ["read"])),
    responses((status = 200, description = "The test", body = Object), (status = 404, description = "The run does not exist, or belongs to another user"), (status = 400, description = "The definition is no file of the project", body = ProblemDocument)))]
pub(crate) async fn get_run_test(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<RunTestQuery>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let app = &host.app;
    let opened = open_own_run(app, &caller, &id).await?;
    let definition = match query.definition {
        Some(path) => PathBuf::from(path),
        None => find_definition_file(&host, &opened).await?,
    };
    let app = app.clone();
    let record = async move || Ok(Json(record_test(&app, &opened, &definition).await?).into_response());
    run_reading(record).await
}

/// Where the folder `tests` finds the definition of a run. Fails with `RequestInvalid` if it is no file.
async fn find_definition_file(host: &Arc<RunHost>, opened: &LoadedRun) -> ApiResult<PathBuf> {
    let entry = Path::new(opened.entry());
    let created = opened.state().created;
    let is_file = match created.as_ref().and_then(|created| Some((&created.user, created.workflow.as_ref()?))) {
        Some((user, id)) => {
            let found = look_up_definition(host, user, id).await;
            found.ok().flatten().is_some_and(|found| found.file_path().is_some())
        }
        None => !opened.is_from_tenant(),
    };
    if !is_file || !entry.is_file() {
        let message = "the definition of this run is not a file of the project, and a test refers to a file; save the \
                       definition in the project, and give its path from the folder tests, such as \
                       ?definition=../NAME.json";
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    let root = match host.app.config.project.root.as_path() {
        root if root.as_os_str().is_empty() => Path::new("."),
        root => root,
    };
    Ok(path_from_tests(&resolve_path(root), &resolve_path(entry)))
}

/// The path without links, or at least an absolute one if there is nothing.
fn resolve_path(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// A file as it is seen from the folder `tests` below `root`. Both paths are absolute.
fn path_from_tests(root: &Path, file: &Path) -> PathBuf {
    let shared = root.components().zip(file.components()).take_while(|(left, right)| left == right).count();
    let up = root.components().skip(shared).map(|_| Component::ParentDir);
    [Component::ParentDir].into_iter().chain(up).chain(file.components().skip(shared)).collect()
}
