//! `GET /api/v1/workflows/{id}/step`: what a step needs to run alone.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::definitions::alone::plan_step;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::keys::Scope;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use flowloom_core::path::Path;
use flowloom_core::value::{Map, Value};
use flowloom_store::RunFilter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::blocking::run_blocking;
use crate::caller::Caller;
use crate::definitions::workflows::{InputInfo, to_input_infos};
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::read_own_run;
use crate::runs::start::read_step_path;

/// The id that means the newest run.
const LAST_RUN: &str = "last";

fn root_path() -> String {
    Path::root().to_string()
}

/// Selects a step, and the run whose values are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StepAloneQuery {
    /// Path of the step [default: `/`, everything].
    #[serde(default = "root_path")]
    path: String,
    /// Id of a run whose values are wanted, or `last` for the newest run of the workflow.
    #[serde(default)]
    run: Option<String>,
    /// User who owns the definition.
    #[serde(default)]
    user: Option<String>,
}

/// The inputs of a step that runs alone.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepAlone {
    /// Why it cannot run alone; null if it can.
    problem: Option<String>,
    /// The variables that it reads. None is required.
    inputs: Vec<InputInfo>,
    /// The run whose values these are; null if no run has started the step.
    run: Option<String>,
    /// Their values when the run first started the step, by name.
    #[schema(value_type = serde_json::Value)]
    values: Value,
}

/// Returns the inputs that a step of a workflow needs to run alone: `POST /api/v1/runs` with `step` starts such a run.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/step", tag = "workflows", operation_id = "get_step_inputs", security(("key" = ["read"])), params(("id" = String, Path), StepAloneQuery),
    responses((status = 200, body = StepAlone), (status = 404, description = "The workflow or the run does not exist, or the workflow does not compile", body = ProblemDocument)))]
pub(crate) async fn get_step_inputs(
    State(runs): State<StoredRuns>,
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<StepAloneQuery>,
) -> ApiResult<Json<StepAlone>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(query.user)?;
    let step = read_step_path(&query.path)?;
    let wanted = id.clone();
    let found = run_blocking(move || catalog.find_definition(&user, &wanted)).await??;
    let found = found.ok_or_else(|| Problem::not_found("workflow", &id))?;
    let prepared = found.prepared.as_ref().ok_or_else(|| Problem::not_found("step of the workflow", &query.path))?;
    let alone = match plan_step(&prepared.plan, &step) {
        Ok(alone) => alone,
        Err(refused) => {
            let problem = Some(refused.to_string());
            return Ok(Json(StepAlone { problem, inputs: Vec::new(), run: None, values: Map::new().into() }));
        }
    };
    let inputs = to_input_infos(&alone.inputs, alone.reads_whole_input());
    let run = match query.run.as_deref() {
        Some(LAST_RUN) => find_newest_run(&runs, &caller, &id).await?,
        other => other.map(str::to_owned),
    };
    let values = match &run {
        None => Map::new(),
        Some(run) => {
            let read = async move |runs: &StoredRuns, opened: LoadedRun| {
                Ok(runs.find_step_inputs(&opened, &step, &alone).await?)
            };
            read_own_run(&runs, &caller, run, read).await?
        }
    };
    let run = run.filter(|_| !values.is_empty());
    Ok(Json(StepAlone { problem: None, inputs, run, values: values.into() }))
}

async fn find_newest_run(runs: &StoredRuns, caller: &Caller, workflow: &str) -> ApiResult<Option<String>> {
    let filter =
        RunFilter { user: caller.user.clone(), workflow: Some(workflow.to_owned()), limit: 1, ..RunFilter::default() };
    let store = runs.store.clone();
    let rows = run_blocking(move || store.list_runs_matching(&filter)).await??;
    Ok(rows.first().map(|row| row.id.to_string()))
}
