//! `GET /api/v1/runs/{id}/graph`: the graph of the definition that a run executes.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::keys::Scope;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};

use crate::caller::Caller;
use crate::definitions::graph::Graph;
use crate::params::PathParam;
use crate::problem::ApiResult;
use crate::runs::answer::read_own_run;

/// Returns the graph of the definition that a run executes. It does not change when the definition does.
#[utoipa::path(get, path = "/api/v1/runs/{id}/graph", tag = "runs", operation_id = "get_run_graph", params(("id" = String, Path)),
    security(("key" = ["read"])), responses((status = 200, description = "The graph", body = Graph), (status = 404, description = "The run does not exist, or belongs to another user")))]
pub(crate) async fn get_run_graph(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let read = async |_: &StoredRuns, opened: LoadedRun| Ok(Json(Graph::from_plan(&opened.plan)).into_response());
    read_own_run(&runs, &caller, &id, read).await
}
