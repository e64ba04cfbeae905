//! `DELETE /api/v1/runs/{id}`: removes a run that has ended.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::extract::State;
use axum::http::StatusCode;
use flowloom_app::keys::Scope;
use flowloom_app::runs::stored::StoredRuns;

use super::answer::find_own_row;
use crate::caller::Caller;
use crate::params::PathParam;
use crate::problem::{ApiResult, ProblemDocument};

/// Deletes a run that has ended: its events, outputs, commands and child runs. Memory and conversations are kept.
#[utoipa::path(delete, path = "/api/v1/runs/{id}", operation_id = "delete_run", tag = "runs", security(("key" = ["run"])), params(("id" = String, Path)),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument), (status = 409, description = "The run has not ended, or is a child run", body = ProblemDocument)))]
pub(crate) async fn delete_run(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<StatusCode> {
    caller.require_scope(Scope::Run)?;
    let row = find_own_row(&runs.store, &caller, &id).await?;
    runs.delete_run(&row, &caller.to_actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}
