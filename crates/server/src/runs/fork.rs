//! `POST /api/v1/runs/{id}/fork`: a new run that begins with the record of another one.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::edit::StepEdit;
use flowloom_app::keys::Scope;
use flowloom_app::runs::fork::ForkChanges;
use flowloom_core::code::Code;
use flowloom_core::value::{Map, Value};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{WaitQuery, open_own_run, respond_with_run};
use super::run_schema::RunSchema;
use super::start::{StartContext, read_step_path};
use crate::blocking::run_reading;
use crate::body::OptionalJsonObject;
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem};
use crate::state::RunHost;

/// Maximum number of changes of steps in a fork: the definition is compiled for each.
const MAX_EDITS: usize = 100;

/// The changes of a fork.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkRequest {
    /// Path of the step from which everything is performed. Without it: the step that failed, or else the first step whose
    /// request differs.
    #[serde(default)]
    at: Option<String>,
    /// New values by name: of variables before the step `at`, or of inputs without `at`.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>)]
    set: Option<Value>,
    /// Changes of single steps. They require the scope `write`, and make the definition one of the key's user.
    #[serde(default)]
    edits: Vec<StepEditRequest>,
    /// Id of the workflow that the fork follows. Without it: the definition of the run, as it was.
    #[serde(default)]
    workflow: Option<String>,
    /// Models: `provider:model` for the default model, `name=provider:model` for the steps that name `name`.
    /// Like `edits`, they require `write`.
    #[serde(default)]
    models: Vec<String>,
    /// Limits that replace those of the run: `tokens=N,usd=N,steps=N,time=30s`, each of them optional. What is reused does
    /// not count.
    #[serde(default)]
    budget: Option<String>,
    /// Whether requests that must not be repeated automatically are performed without a decision. Without it, the run
    /// becomes `uncertain` before each, and `resolve` decides.
    #[serde(default)]
    repeat_effects: bool,
}

/// A change of a step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepEdit)]
pub(crate) struct StepEditRequest {
    /// Path of the step.
    path: String,
    /// `prompt`, or a key of the step in its definition; a dot leads into an object.
    field: String,
    /// The new text.
    text: String,
}

/// Starts a run that reuses the record of this one: the outcomes of steps whose path and request are the same, up to the
/// first one that differs. The rest is performed. The fork belongs to the same user.
#[utoipa::path(post, path = "/api/v1/runs/{id}/fork", tag = "runs", operation_id = "fork_run", request_body = Option<ForkRequest>, params(("id" = String, Path), WaitQuery,
    ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    security(("key" = ["run"])),
    responses((status = 200, description = "The fork has ended", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The fork is still running or waiting", body = RunSchema),
        (status = 403, description = "The request has `edits` or `models`, and the key has no scope `write`"),
        (status = 404, description = "The run or the workflow does not exist, or belongs to another user"),
        (status = 409, description = "Nothing would change, there is no such step, the outcome of the fork is uncertain, or the Idempotency-Key was used for another request"),
        (status = 422, description = "The definition does not compile with the changes")))]
pub(crate) async fn fork_run(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(waiting): QueryParams<WaitQuery>,
    headers: HeaderMap,
    OptionalJsonObject(request, text): OptionalJsonObject<ForkRequest>,
) -> ApiResult<Response> {
    if !(request.edits.is_empty() && request.models.is_empty()) {
        caller.require_scope(Scope::Write)?;
    }
    let opened = open_own_run(&host.app.runs, &caller, &id).await?;
    let user = opened.state().created.map(|created| created.user.clone());
    let call = StartContext::admit_caller(&host, &caller, user, &headers)?;
    let workflow = request.workflow.clone();
    let changes = build_changes(request, caller.tenant())?;
    let from = format!("{id} {text}");
    let run = call.start_once(&from, async |id| {
        let (service, start) = (host.service.clone(), call.start.clone());
        let fork = async move || Ok(service.fork_run(&start, opened, workflow.as_deref(), changes, id).await?);
        run_reading(fork).await
    });
    respond_with_run(&host, run.await?, waiting, &headers).await
}

fn build_changes(request: ForkRequest, tenant: Option<String>) -> ApiResult<ForkChanges> {
    let set = match request.set {
        None => Map::new(),
        Some(Value::Map(map)) => (*map).clone(),
        Some(_) => return Err(Problem::new(Code::RequestInvalid, "`set` must be an object")),
    };
    if request.edits.len() > MAX_EDITS {
        return Err(Problem::new(Code::RequestInvalid, format!("there are more than {MAX_EDITS} changes")));
    }
    let edits = request.edits.into_iter().map(|edit| {
        let path = read_step_path(&edit.path)?;
        Ok(StepEdit { path, field: edit.field, text: edit.text })
    });
    Ok(ForkChanges {
        at: request.at,
        set: set.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        edits: edits.collect::<ApiResult<_>>()?,
        definition: None,
        models: request.models,
        budget: request.budget,
        exceeds_limits: false,
        tenant,
        repeats_effects: request.repeat_effects,
    })
}
