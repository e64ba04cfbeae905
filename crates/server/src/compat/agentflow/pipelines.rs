//! `/api/pipelines` and `/api/pipeline/run`: stores, lists and runs pipelines.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::definitions::stored::DefinitionContent;
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_store::{DefinitionKind, RunFilter, SHARED_USER, Store};
use serde::Deserialize;
use utoipa::ToSchema;

use super::executions::build_execution;
use super::owner::{UserQuery, find_owner, list_users};
use super::wire::format_time;
use crate::body::{JsonBody, JsonObject, OptionalJsonObject};
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::compat::runs::{CompatRun, build_list, ensure_id, find_definition, list_definitions, run_and_wait};
use crate::compat::schemas::{PipelineItemSchema, PipelineRunSchema, StoredPipelineSchema, UnstoredRunSchema};
use crate::definitions::change::{delete_definition, reject_folder_file, writable_key};
use crate::definitions::put;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::start::StartContext;
use crate::state::RunHost;

/// The pipeline in a JSON value: its field `pipeline`, or the value itself.
pub(crate) fn unwrap_pipeline(written: &Value) -> Map {
    let inner = ["pipeline", "pipeline_json"].iter().find_map(|key| written.get(key)).unwrap_or(written);
    inner.as_map().cloned().unwrap_or_default()
}

/// Lists pipelines, newest first.
#[utoipa::path(get, path = "/api/pipelines", operation_id = "agentflow_list_pipelines", tag = "AgentFlow", security(("key" = ["read"])), params(UserQuery),
    responses((status = 200, description = "`[{id, user_id, name, user_intent, user_prompt, status, trigger_type, node_count, created_at}]`", body = Vec<PipelineItemSchema>)))]
pub(crate) async fn list_pipelines(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    QueryParams(whose): QueryParams<UserQuery>,
) -> ApiResult<Json<BoundedList>> {
    caller.require_scope(Scope::Read)?;
    let users = list_users(&host.app.store, &caller, whose.user_id, DefinitionKind::Workflow).await?;
    let mut found = Vec::new();
    for (index, user) in users.into_iter().enumerate() {
        let mut items = list_definitions(&host.catalog, user.clone(), flowloom_formats::pipeline::FORMAT).await?;
        // Files and what everyone may use are in the first list.
        items.retain(|definition| index == 0 || definition.stored_row().is_some_and(|row| row.key.user == user));
        found.extend(items);
    }
    // Files of the folder have no creation time and come last.
    found.sort_by_key(|definition| std::cmp::Reverse(definition.stored_row().map(|row| row.created_at)));
    let store = host.app.store.clone();
    let item = move |definition: &CatalogEntry, content: &DefinitionContent| {
        let user = match definition.stored_row() {
            Some(row) if row.key.user != SHARED_USER => Some(row.key.user.clone()),
            _ => caller.user.clone(),
        };
        build_item(&store, user, definition, content).map(Some)
    };
    Ok(Json(build_list(&host.catalog, found, item).await?))
}

fn build_item(
    store: &Store,
    user: Option<String>,
    definition: &CatalogEntry,
    content: &DefinitionContent,
) -> Result<Value, AppError> {
    let pipeline = unwrap_pipeline(&parse_value(content.entry_text()).unwrap_or_default());
    let field = |name: &str| pipeline.get(name).cloned().unwrap_or_default();
    let filter = RunFilter { user, workflow: Some(definition.id.clone()), limit: 1, ..RunFilter::default() };
    let last = store.list_runs_matching(&filter)?.pop();
    let ran = last
        .and_then(|run| flowloom_core::status::Status::parse(run.current_status()))
        .map(|status| flowloom_formats::steps::status_word(status));
    let status = ran.map_or_else(|| pipeline.get("status").cloned().unwrap_or_else(|| "created".into()), Value::from);
    let trigger = pipeline.get("trigger_type").or_else(|| pipeline.get("trigger")?.get("type")).cloned();
    let nodes = pipeline.get("nodes").and_then(Value::as_list).map_or(0, <[Value]>::len);
    Ok(Value::map([
        ("id", definition.id.as_str().into()),
        ("user_id", definition.stored_row().map_or(Value::Null, |row| row.key.user.as_str().into())),
        ("name", field("name")),
        ("user_intent", field("user_intent")),
        ("user_prompt", field("user_prompt")),
        ("status", status),
        ("trigger_type", trigger.unwrap_or_else(|| "manual".into())),
        ("node_count", (nodes as i64).into()),
        ("created_at", definition.stored_row().map_or(Value::Null, |row| format_time(row.created_at).into())),
        ("is_refused", definition.is_refused.into()),
    ]))
}

/// Returns a pipeline as it was stored.
#[utoipa::path(get, path = "/api/pipelines/{id}", operation_id = "agentflow_get_pipeline", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path), UserQuery),
    responses((status = 200, description = "The pipeline", body = Object), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_pipeline(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
) -> ApiResult<Json<Value>> {
    caller.require_scope(Scope::Read)?;
    let user = find_owner(&host.app.store, &caller, whose.user_id, DefinitionKind::Workflow, &id).await?;
    let (_, content) = find_definition(&host.catalog, user, flowloom_formats::pipeline::FORMAT, &id).await?;
    let mut pipeline = unwrap_pipeline(&parse_value(content.entry_text()).unwrap_or_default());
    pipeline.insert("id".into(), id.into());
    Ok(Json(pipeline.into()))
}

/// Stores a pipeline, given directly or in the field `pipeline`, for the user in `user_id` or else for the one who has it
/// already. A pipeline with errors is stored, too, but cannot be
/// run; `problems` lists the errors.
#[utoipa::path(post, path = "/api/pipelines", operation_id = "agentflow_put_pipeline", tag = "AgentFlow", security(("key" = ["write"])), params(UserQuery), request_body = Object,
    responses((status = 200, description = "`{id, status, problems}`", body = StoredPipelineSchema), (status = 400, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn create_pipeline(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    QueryParams(whose): QueryParams<UserQuery>,
    JsonBody(written): JsonBody<Value>,
) -> ApiResult<Json<serde_json::Value>> {
    caller.require_scope(Scope::Write)?;
    let mut pipeline = unwrap_pipeline(&written);
    if pipeline.is_empty() {
        return Err(Problem::new(Code::RequestInvalid, "a pipeline must be an object with nodes and edges"));
    }
    let id = ensure_id(&mut pipeline);
    let in_body = written.get("user_id").and_then(Value::as_str).filter(|_| caller.user.is_none());
    let named = whose.user_id.or_else(|| in_body.map(str::to_owned));
    let user = find_owner(&host.app.store, &caller, named, DefinitionKind::Workflow, &id).await?;
    let key = writable_key(&caller, Some(user), DefinitionKind::Workflow, &id)?;
    let (_, workflow) =
        put::store_workflow(&host.catalog, &caller, key, build_content(&id, &written, pipeline), true).await?;
    Ok(Json(serde_json::json!({"id": id, "status": "created", "problems": workflow.problems})))
}

/// The content of a pipeline together with the blocks of the request.
fn build_content(id: &str, written: &Value, pipeline: Map) -> DefinitionContent {
    let whole = match written.get("blocks") {
        Some(blocks) => Value::map([("pipeline", pipeline.into()), ("blocks", blocks.clone())]),
        None => pipeline.into(),
    };
    DefinitionContent {
        format: Some(flowloom_formats::pipeline::FORMAT),
        ..DefinitionContent::single(&format!("{id}.json"), render::to_json(&whole))
    }
}

/// Deletes a pipeline.
#[utoipa::path(delete, path = "/api/pipelines/{id}", operation_id = "agentflow_delete_pipeline", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = String, Path), UserQuery),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn delete_pipeline(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
) -> ApiResult<StatusCode> {
    caller.require_scope(Scope::Write)?;
    let user = find_owner(&host.app.store, &caller, whose.user_id, DefinitionKind::Workflow, &id).await?;
    let key = writable_key(&caller, Some(user), DefinitionKind::Workflow, &id)?;
    reject_folder_file(&host.catalog, &id).await?;
    find_definition(&host.catalog, key.user.clone(), flowloom_formats::pipeline::FORMAT, &id).await?;
    delete_definition(&host.definition_store(), key, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The optional body of a run of a stored pipeline.
#[derive(Default, Deserialize, ToSchema)]
pub(crate) struct RunStoredRequest {
    /// Same as the query parameter `user_id`, which takes precedence.
    #[serde(default)]
    pub(crate) user_id: Option<String>,
}

/// Runs a stored pipeline and waits for its end.
#[utoipa::path(post, path = "/api/pipelines/{id}/run", operation_id = "agentflow_run_kept", tag = "AgentFlow", security(("key" = ["run"])), request_body = Option<RunStoredRequest>,
    params(("id" = String, Path), UserQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key start a single run")),
    responses((status = 200, description = "`{pipeline_id, run_id, status, shared_context, node_results, errors}`", body = PipelineRunSchema),
        (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument), (status = 422, body = ProblemDocument)))]
pub(crate) async fn run_workflow(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
    headers: HeaderMap,
    OptionalJsonObject(request, text): OptionalJsonObject<RunStoredRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Run)?;
    let named = whose.user_id.or(request.user_id);
    let user = find_owner(&host.app.store, &caller, named, DefinitionKind::Workflow, &id).await?;
    let call = StartContext::admit_caller(&host, &caller, Some(user), &headers)?.with_interface(TriggerKind::AgentFlow);
    let (definition, _) =
        find_definition(&host.catalog, call.user().to_owned(), flowloom_formats::pipeline::FORMAT, &id).await?;
    let ended = run_and_wait(&call, &definition, StartRunRequest::with_inputs(Map::new().into()), &text).await?;
    Ok(ended.to_response(stored_response(&ended)))
}

/// The response of a run of a stored pipeline.
pub(crate) fn stored_response(ended: &CompatRun) -> Map {
    let all = build_execution(ended);
    let keys = ["pipeline_id", "run_id", "status", "shared_context", "node_results", "errors"];
    keys.iter().filter_map(|key| Some(((*key).into(), all.get(*key)?.clone()))).collect()
}

/// A pipeline to run without storing it.
#[derive(Deserialize, ToSchema)]
pub(crate) struct RunPipelineRequest {
    /// The pipeline; may contain `blocks` that are not stored.
    #[schema(value_type = Object)]
    pipeline: Value,
    /// Blocks in addition to the stored ones.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    blocks: Option<Value>,
    /// User who owns the run; a key that belongs to a user determines it.
    #[serde(default)]
    pub(crate) user_id: Option<String>,
}

/// Runs a pipeline without storing it, and waits for its end.
#[utoipa::path(post, path = "/api/pipeline/run", operation_id = "agentflow_run", tag = "AgentFlow", security(("key" = ["run", "write"])), request_body = RunPipelineRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{run_id, pipeline_id, status, results, log, memory, errors}`", body = UnstoredRunSchema), (status = 404, body = ProblemDocument),
        (status = 409, body = ProblemDocument), (status = 422, description = "The pipeline has errors", body = ProblemDocument)))]
pub(crate) async fn run_unstored(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(wanted, text): JsonObject<RunPipelineRequest>,
) -> ApiResult<Response> {
    let call = StartContext::admit_caller(&host, &caller, wanted.user_id.clone(), &headers)?
        .with_interface(TriggerKind::AgentFlow);
    let definition = compile_unstored(&call, &caller, wanted).await?;
    let ended = run_and_wait(&call, &definition, StartRunRequest::with_inputs(Map::new().into()), &text).await?;
    Ok(ended.to_response(unstored_response(&ended)))
}

/// Compiles a pipeline without storing it. The caller needs the scope `write`, because the pipeline may contain code.
pub(crate) async fn compile_unstored(
    call: &StartContext<'_>,
    caller: &Caller,
    wanted: RunPipelineRequest,
) -> ApiResult<CatalogEntry> {
    caller.require_scope(Scope::Write)?;
    let mut pipeline = unwrap_pipeline(&wanted.pipeline);
    let id = ensure_id(&mut pipeline);
    let given = Value::map(wanted.blocks.map(|blocks| ("blocks", blocks)));
    let (shared, user) = (call.host.clone(), call.user().to_owned());
    let found = crate::blocking::compile_blocking(move |stop| {
        shared.catalog.compile_unstored(&user, &id, build_content(&id, &given, pipeline), stop)
    });
    Ok(found.await??)
}

/// The response of a run of a pipeline that is not stored.
pub(crate) fn unstored_response(ended: &CompatRun) -> Map {
    let mut result = ended.to_result();
    let all = build_execution(ended);
    for key in ["run_id", "status", "errors"] {
        result.insert(key.into(), all.get(key).cloned().unwrap_or_default());
    }
    result
}
