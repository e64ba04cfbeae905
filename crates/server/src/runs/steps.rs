//! `GET /api/v1/runs/{id}/steps`: the steps of a run in full.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::keys::Scope;
use flowloom_app::runs::details::{StepDetails, omit_requests_beyond, read_details};
use flowloom_app::runs::retry::parse_step_path;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::run_schema::StepFailure;
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem};
use crate::runs::answer::read_own_run;

/// Which steps are returned.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StepQuery {
    /// Only the step at this path, and the steps in it.
    #[serde(default)]
    path: Option<String>,
}

/// The steps of a run.
#[derive(Serialize)]
struct StepList {
    steps: Vec<StepDetails>,
}

/// The steps of a run with what they sent and received.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepListSchema {
    /// In the order in which they started.
    steps: Vec<StepDetailsSchema>,
}

/// A step with what it sent and received.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepDetailsSchema {
    path: String,
    /// `running`, `waiting`, `uncertain`, `finished`, `failed`, `skipped`, `aborted`, or `interrupted` if no worker drives the run.
    phase: String,
    /// Kind of its effect, such as `generate`, `http` or `call`; null if it has none of its own.
    kind: Option<String>,
    /// Model, address or function.
    target: Option<String>,
    /// The text that it sends, as the definition has it: with references. Only of the step that `path` selects.
    prompt: Option<String>,
    /// One for each attempt.
    requests: Vec<RequestSchema>,
    /// Whether the requests are left out, because those of the steps before have more than 16 MiB. `path` selects a step with
    /// its requests.
    #[schema(required = false)]
    requests_omitted: bool,
    /// The output of the step.
    output: Option<serde_json::Value>,
    error: Option<StepFailure>,
    /// Why it was skipped.
    reason: Option<String>,
    /// References of its requests that had no value, and answers that were cut off.
    warnings: Vec<String>,
    usage: Option<UsageSchema>,
    /// Milliseconds since the Unix epoch.
    started_at: u64,
    finished_at: Option<u64>,
}

/// A request of a step.
#[derive(Serialize, ToSchema)]
pub(crate) struct RequestSchema {
    /// The attempt, from 1.
    attempt: u32,
    /// Its fields depend on the kind of the effect. Secrets are names.
    request: serde_json::Value,
}

/// Tokens and cost of a step.
#[derive(Serialize, ToSchema)]
pub(crate) struct UsageSchema {
    input_tokens: u64,
    output_tokens: u64,
    /// Cost in millionths of a US dollar; null if the price is unknown.
    micro_usd: Option<u64>,
}

/// The bytes of all requests in a list of steps at most.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// Returns the steps of a run with what each sent and received. Nothing is performed: requests are built again from the
/// record.
#[utoipa::path(get, path = "/api/v1/runs/{id}/steps", tag = "runs", operation_id = "list_steps",
    params(("id" = String, Path), StepQuery), security(("key" = ["read"])),
    responses((status = 200, description = "The steps", body = StepListSchema), (status = 404, description = "The run or the step does not exist, or the run belongs to another user")))]
pub(crate) async fn list_steps(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<StepQuery>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let read = async move |runs: &StoredRuns, opened: LoadedRun| {
        let path = query.path.as_deref();
        let within = path.and_then(parse_step_path);
        let mut steps = read_details(runs, &opened, within.as_ref()).await?;
        omit_requests_beyond(&mut steps, MAX_REQUEST_BYTES);
        match path {
            Some(path) if within.is_none() || steps.is_empty() => Err(Problem::not_found("step", path)),
            _ => Ok(Json(StepList { steps }).into_response()),
        }
    };
    read_own_run(&runs, &caller, &id, read).await
}
