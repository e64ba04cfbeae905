//! `/api/pipelines` and `/api/pipeline/run`: stores, lists and runs pipelines.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::definitions::stored::Content;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::NewRun;
use flowloom_app::tools::workflows::KEEPING;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_store::{Kind, RunFilter};
use serde::Deserialize;
use utoipa::ToSchema;

use super::executions::execution;
use super::wire::time;
use crate::body::Body;
use crate::caller::Caller;
use crate::compat::runs::{Ended, definition, definitions, run, with_id};
use crate::definitions::change::{changeable, delete, not_in_folder};
use crate::definitions::put;
use crate::params::At;
use crate::problem::{Answer, Document, Problem};
use crate::runs::start::Call;
use crate::state::Server;

/// The pipeline in a JSON value: its field `pipeline`, or the value itself.
pub(crate) fn inner(written: &Value) -> Map {
    let inner = ["pipeline", "pipeline_json"].iter().find_map(|key| written.get(key)).unwrap_or(written);
    inner.as_map().cloned().unwrap_or_default()
}

/// Lists pipelines, newest first.
#[utoipa::path(get, path = "/api/pipelines", operation_id = "agentflow_list_pipelines", tag = "AgentFlow", security(("key" = ["read"])),
    responses((status = 200, description = "`[{id, name, user_intent, user_prompt, status, trigger_type, node_count, created_at}]`")))]
pub(crate) async fn list(State(server): State<Server>, caller: Caller) -> Answer<Json<Value>> {
    caller.may(Scope::Read)?;
    let mut found = definitions(&server, caller.acts_for(None)?, flowloom_formats::pipeline::FORMAT).await?;
    // Files of the folder have no creation time and come last.
    found.sort_by_key(|(definition, _)| std::cmp::Reverse(definition.row().map(|row| row.created_at)));
    let user = caller.user.clone();
    let items = crate::blocking::blocking(move || {
        found.iter().map(|(definition, content)| item(&server, user.clone(), definition, content)).collect()
    });
    let items: Result<Vec<Value>, flowloom_core::StepError> = items.await?;
    Ok(Json(Value::list(items?)))
}

fn item(
    server: &Server,
    holder: Option<String>,
    definition: &Definition,
    content: &Content,
) -> Result<Value, flowloom_core::StepError> {
    let pipeline = inner(&parse_value(content.main()).unwrap_or_default());
    let field = |name: &str| pipeline.get(name).cloned().unwrap_or_default();
    let filter = RunFilter { holder, workflow: Some(definition.id.clone()), limit: 1, ..RunFilter::default() };
    let last = server.app.store.runs_of(&filter)?.pop();
    let ran = last
        .and_then(|run| flowloom_core::status::Status::parse(&run.status))
        .map(|status| flowloom_formats::steps::status_word(status));
    let status = ran.map_or_else(|| pipeline.get("status").cloned().unwrap_or_else(|| "created".into()), Value::from);
    let trigger = pipeline.get("trigger_type").or_else(|| pipeline.get("trigger")?.get("type")).cloned();
    let nodes = pipeline.get("nodes").and_then(Value::as_list).map_or(0, <[Value]>::len);
    Ok(Value::map([
        ("id", definition.id.as_str().into()),
        ("name", field("name")),
        ("user_intent", field("user_intent")),
        ("user_prompt", field("user_prompt")),
        ("status", status),
        ("trigger_type", trigger.unwrap_or_else(|| "manual".into())),
        ("node_count", (nodes as i64).into()),
        ("created_at", definition.row().map_or(Value::Null, |row| time(row.created_at).into())),
        ("is_refused", definition.is_refused.into()),
    ]))
}

/// Returns a pipeline as it was stored.
#[utoipa::path(get, path = "/api/pipelines/{id}", operation_id = "agentflow_get_pipeline", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "The pipeline"), (status = 404, body = Document)))]
pub(crate) async fn get(State(server): State<Server>, caller: Caller, At(id): At<String>) -> Answer<Json<Value>> {
    caller.may(Scope::Read)?;
    let (_, content) = definition(&server, caller.acts_for(None)?, flowloom_formats::pipeline::FORMAT, &id).await?;
    let mut pipeline = inner(&parse_value(content.main()).unwrap_or_default());
    pipeline.insert("id".into(), id.into());
    Ok(Json(pipeline.into()))
}

/// Stores a pipeline, given directly or in the field `pipeline`. A pipeline with errors is stored, too, but cannot be
/// run; `problems` lists the errors.
#[utoipa::path(post, path = "/api/pipelines", operation_id = "agentflow_put_pipeline", tag = "AgentFlow", security(("key" = ["write"])), request_body = Object,
    responses((status = 200, description = "`{id, status, problems}`"), (status = 400, body = Document), (status = 409, body = Document)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Body(written, _): Body<Value>,
) -> Answer<Json<serde_json::Value>> {
    let mut pipeline = inner(&written);
    if pipeline.is_empty() {
        caller.may(Scope::Write)?;
        return Err(Problem::new(Code::RequestInvalid, "a pipeline must be an object with nodes and edges"));
    }
    let id = with_id(&mut pipeline);
    let key = changeable(&caller, None, Kind::Workflow, &id)?;
    let (_, workflow) = put::save(&server, key, content(&id, &written, pipeline), true).await?;
    Ok(Json(serde_json::json!({"id": id, "status": "created", "problems": workflow.problems})))
}

/// The content of a pipeline together with the blocks of the request.
fn content(id: &str, written: &Value, pipeline: Map) -> Content {
    let whole = match written.get("blocks") {
        Some(blocks) => Value::map([("pipeline", pipeline.into()), ("blocks", blocks.clone())]),
        None => pipeline.into(),
    };
    Content {
        format: Some(flowloom_formats::pipeline::FORMAT),
        ..Content::single(&format!("{id}.json"), render::json(&whole))
    }
}

/// Deletes a pipeline.
#[utoipa::path(delete, path = "/api/pipelines/{id}", operation_id = "agentflow_delete_pipeline", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = String, Path)),
    responses((status = 204, description = "Deleted"), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn remove(State(server): State<Server>, caller: Caller, At(id): At<String>) -> Answer<StatusCode> {
    let key = changeable(&caller, None, Kind::Workflow, &id)?;
    not_in_folder(&server, &id).await?;
    definition(&server, key.holder.clone(), flowloom_formats::pipeline::FORMAT, &id).await?;
    delete(&server, key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Runs a stored pipeline and waits for its end.
#[utoipa::path(post, path = "/api/pipelines/{id}/run", operation_id = "agentflow_run_kept", tag = "AgentFlow", security(("key" = ["run"])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key start a single run")),
    responses((status = 200, description = "`{pipeline_id, run_id, status, shared_context, node_results, errors}`"),
        (status = 404, body = Document), (status = 409, body = Document), (status = 422, body = Document)))]
pub(crate) async fn run_kept(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let call = Call::admitted(&server, &caller, None, &headers)?;
    let (definition, _) = definition(&server, call.user().to_owned(), flowloom_formats::pipeline::FORMAT, &id).await?;
    let ended = run(&call, &definition, NewRun::with(Map::new().into()), "").await?;
    Ok(ended.answer(told_kept(&ended)))
}

/// The response of a run of a stored pipeline.
pub(crate) fn told_kept(ended: &Ended) -> Map {
    let all = execution(ended);
    let keys = ["pipeline_id", "run_id", "status", "shared_context", "node_results", "errors"];
    keys.iter().filter_map(|key| Some(((*key).into(), all.get(*key)?.clone()))).collect()
}

/// A pipeline to run without storing it.
#[derive(Deserialize, ToSchema)]
pub(crate) struct RunOnce {
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
#[utoipa::path(post, path = "/api/pipeline/run", operation_id = "agentflow_run", tag = "AgentFlow", security(("key" = ["run"])), request_body = RunOnce,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{run_id, pipeline_id, status, results, log, memory, errors}`"), (status = 404, body = Document),
        (status = 409, body = Document), (status = 422, description = "The pipeline has errors", body = Document)))]
pub(crate) async fn run_once(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(wanted, text): Body<RunOnce>,
) -> Answer<Response> {
    let call = Call::admitted(&server, &caller, wanted.user_id.clone(), &headers)?;
    let definition = passing(&call, &caller, wanted).await?;
    let ended = run(&call, &definition, NewRun::with(Map::new().into()), &text).await?;
    Ok(ended.answer(told_once(&ended)))
}

/// Compiles a pipeline without storing it. If it stores definitions, the caller needs the scope `write`.
pub(crate) async fn passing(call: &Call<'_>, caller: &Caller, wanted: RunOnce) -> Answer<Definition> {
    let mut pipeline = inner(&wanted.pipeline);
    let id = with_id(&mut pipeline);
    let given = Value::map(wanted.blocks.map(|blocks| ("blocks", blocks)));
    let (shared, owner) = (call.server.clone(), call.user().to_owned());
    let found = crate::blocking::blocking(move || shared.catalog.passing(&owner, &id, content(&id, &given, pipeline)));
    let definition = found.await??;
    let mut functions = definition.prepared.iter().flat_map(|prepared| &prepared.plan.functions);
    if functions.any(|(name, _)| KEEPING.contains(&&**name)) {
        caller.may(Scope::Write)?;
    }
    Ok(definition)
}

/// The response of a run of a pipeline that is not stored.
pub(crate) fn told_once(ended: &Ended) -> Map {
    let mut told = ended.result();
    let all = execution(ended);
    for key in ["run_id", "status", "errors"] {
        told.insert(key.into(), all.get(key).cloned().unwrap_or_default());
    }
    told
}
