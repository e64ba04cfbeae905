//! `GET /api/v1/runs/{id}/variables`: the variables of a run at any of its events.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::keys::Scope;
use flowloom_app::runs::playback::read_variables;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::ApiResult;
use crate::runs::answer::read_own_run;

/// The moment whose variables are returned.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct MomentQuery {
    /// After the event with this number [default: after the last one].
    #[serde(default)]
    at: Option<usize>,
}

/// The variables of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunVariables {
    /// Their values by name, in the order in which they were first written.
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>)]
    variables: Value,
}

/// Returns the variables of a run after one of its events. Nothing is performed: they follow from the record.
#[utoipa::path(get, path = "/api/v1/runs/{id}/variables", tag = "runs", operation_id = "get_run_variables",
    params(("id" = String, Path), MomentQuery), security(("key" = ["read"])),
    responses((status = 200, description = "The variables", body = RunVariables), (status = 404, description = "The run does not exist, or belongs to another user")))]
pub(crate) async fn get_run_variables(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(moment): QueryParams<MomentQuery>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let read = async move |runs: &StoredRuns, opened: LoadedRun| {
        let variables: Map = read_variables(runs, &opened, moment.at).await?;
        Ok(Json(RunVariables { variables: variables.into() }).into_response())
    };
    read_own_run(&runs, &caller, &id, read).await
}
