//! `/api/v1/runs/{id}/test`: a run as a test, which is returned, or saved in the project.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::folders::name_folder;
use flowloom_app::keys::Scope;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::workflow_tests::file::{TEST_FOLDER, TestFile};
use flowloom_app::workflow_tests::{TestSubject, path_between, record_test};
use flowloom_core::code::Code;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{TestInfo, test_folder};
use crate::blocking::{run_blocking, run_reading};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::open_own_run;
use crate::runs::start::look_up_definition;
use crate::state::{RunHost, Server};

pub(super) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(get_run_test, save_run_test))
}

/// Where the test will find its definition.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunTestQuery {
    /// Path of the definition, relative to the file of the test. Default: where the file is in the project, or the id of a
    /// stored workflow. Required if the definition was sent with the run.
    #[serde(default)]
    definition: Option<String>,
}

/// Returns a test that expects what a run did: the content of a file in the folder `tests`.
#[utoipa::path(get, path = "/api/v1/runs/{id}/test", operation_id = "get_run_test", tag = "tests", params(("id" = String, Path), RunTestQuery), security(("key" = ["read"])),
    responses((status = 200, description = "The test", body = Object), (status = 404, description = "The run does not exist, or belongs to another user"), (status = 400, description = "A test cannot name the definition", body = ProblemDocument)))]
pub(crate) async fn get_run_test(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<RunTestQuery>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let opened = open_own_run(&host.app.runs, &caller, &id).await?;
    let subject = match query.definition {
        Some(path) => TestSubject::File(path),
        None => find_subject(&host, &opened, Path::new("")).await?,
    };
    Ok(Json(record_subject(&host, opened, subject).await?).into_response())
}

/// A test that is saved in the project.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveTestRequest {
    /// Path in the folder `tests` of the project, such as `greeting.json`.
    file: String,
    /// Whether the test replaces an existing one.
    #[serde(default)]
    replace: bool,
}

/// Saves a test that expects what a run did in the folder `tests` of the project.
#[utoipa::path(post, path = "/api/v1/runs/{id}/test", operation_id = "save_run_test", tag = "tests", params(("id" = String, Path)), security(("key" = ["write"])), request_body = SaveTestRequest,
    responses((status = 201, description = "The test", body = TestInfo), (status = 404, description = "The run does not exist, or belongs to another user"), (status = 400, description = "The path is not allowed, or a test cannot name the definition", body = ProblemDocument), (status = 403, body = ProblemDocument), (status = 409, description = "There is a file with this path", body = ProblemDocument)))]
pub(crate) async fn save_run_test(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    JsonObject(wanted, _): JsonObject<SaveTestRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Write)?;
    let opened = open_own_run(&host.app.runs, &caller, &id).await?;
    caller.require_scope_for_all(Scope::Write, "change the tests of the project")?;
    let below = Path::new(&wanted.file).parent().unwrap_or(Path::new(""));
    let subject = find_subject(&host, &opened, below).await?;
    let test = record_subject(&host, opened, subject).await?;
    let folder = test_folder(&host.app.config);
    let written = run_blocking(move || write_test(&folder, wanted, test)).await??;
    Ok((StatusCode::CREATED, Json(written)).into_response())
}

async fn record_subject(host: &Arc<RunHost>, opened: LoadedRun, subject: TestSubject) -> ApiResult<TestFile> {
    let runs = host.app.runs.clone();
    run_reading(async move || Ok(record_test(&runs, &opened, subject).await?)).await
}

fn write_test(folder: &Path, wanted: SaveTestRequest, test: TestFile) -> ApiResult<TestInfo> {
    let file = place_test(folder, &wanted.file)?;
    if !wanted.replace && file.symlink_metadata().is_ok() {
        let message = format!("there is already a file tests/{}; choose another name, or replace it", wanted.file);
        return Err(Problem::new(Code::FileExists, message));
    }
    test.write(&file).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    Ok(TestInfo::new(wanted.file, Some(test)))
}

/// The path of a file in the folder of tests. Fails with `RequestInvalid` if it would be outside, also through a link.
pub(super) fn place_test(folder: &Path, name: &str) -> ApiResult<PathBuf> {
    let path = Path::new(name);
    let is_plain =
        |part: Component<'_>| matches!(part, Component::Normal(part) if !part.to_string_lossy().starts_with('.'));
    let is_name = !name.chars().any(char::is_control) && path.extension().is_some_and(|end| end == "json");
    let file = folder.join(path);
    let nearest = file.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
    let root = if folder.exists() { folder } else { folder.parent().unwrap_or(folder) };
    let is_inside = nearest.is_none_or(|above| resolve_path(above).starts_with(resolve_path(root)));
    let is_link = file.symlink_metadata().is_ok_and(|found| !found.is_file());
    match is_name && path.components().all(is_plain) && is_inside && !is_link {
        true => Ok(file),
        false => {
            let message = format!("{name:?} is not a path in the folder tests; name a file such as greeting.json");
            Err(Problem::new(Code::RequestInvalid, message))
        }
    }
}

/// The subject of a test of a run: the file of its definition, as the folder `below` the folder `tests` sees it, or the
/// id of a stored workflow. Fails with `RequestInvalid` if it is neither.
async fn find_subject(host: &Arc<RunHost>, opened: &LoadedRun, below: &Path) -> ApiResult<TestSubject> {
    let entry = Path::new(opened.entry());
    let created = opened.state().created;
    let is_file = match created.as_ref().and_then(|created| Some((&created.user, created.workflow.as_ref()?))) {
        Some((user, id)) => {
            let found = look_up_definition(host, user, id).await?;
            if let Some(found) = found.clone() {
                let catalog = host.catalog.clone();
                if let Some(stored) = run_blocking(move || TestSubject::of_stored(&catalog, &found)).await?? {
                    return Ok(stored);
                }
            }
            found.is_some_and(|found| found.file_path().is_some())
        }
        None => !opened.is_from_tenant(),
    };
    if !is_file || !entry.is_file() {
        let message = "the definition of this run is neither a file of the project nor a stored workflow of the operator, \
                       and a test refers to one of them; save the definition in the project, and give its path from the \
                       folder tests, such as ?definition=../NAME.json";
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    let folder = resolve_path(name_folder(&host.app.config.project.root)).join(TEST_FOLDER).join(below);
    Ok(TestSubject::File(path_between(&folder, &resolve_path(entry)).display().to_string()))
}

/// The path without links, or at least an absolute one if there is nothing.
fn resolve_path(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
