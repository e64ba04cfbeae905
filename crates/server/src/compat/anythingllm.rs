//! AnythingLLM's API: `/api/agent-flows` (docs/formats/flow.md). Responses are `{success, …}` or `{success: false,
//! error}`. Flows are stored in the database, or as files in AnythingLLM's own folder if that is served.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flowloom_app::definitions::catalog::{Catalog, CatalogEntry};
use flowloom_app::definitions::flow_folder::FlowFolder;
use flowloom_app::definitions::stored::DefinitionContent;
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_core::code::Code;
use flowloom_core::json::{parse_value, read_lenient};
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::flow;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{ContentTags, DefinitionCondition, DefinitionKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::runs::{build_list, find_definition, list_definitions, run_and_wait};
use super::schemas::{FlowListSchema, FlowRunSchema, FlowSchema, SavedFlowSchema, SuccessSchema};
use crate::blocking::{parse_text, run_blocking};
use crate::body::{JsonObject, JsonText, parse_object};
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::definitions::change::{ChangeTarget, delete_definition, reject_folder_file, writable_key};
use crate::definitions::put;
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem};
use crate::runs::start::StartContext;
use crate::state::{RunHost, Server};

/// The routes of AnythingLLM's API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(save_flow))
        .routes(routes!(list_flows))
        .routes(routes!(get_flow, delete_flow))
        .routes(routes!(toggle_flow))
        .routes(routes!(run_flow))
        .layer(axum::middleware::map_response(convert_problem))
}

/// An error in AnythingLLM's form.
pub(crate) struct AnythingLlmError(Problem);

impl From<Problem> for AnythingLlmError {
    fn from(problem: Problem) -> AnythingLlmError {
        AnythingLlmError(problem)
    }
}

impl AnythingLlmError {
    /// Whether the flow of the request is refused, rather than the request.
    fn is_refusal(&self) -> bool {
        [StatusCode::BAD_REQUEST, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY].contains(&self.0.status())
    }

    /// The body. Of a flow with errors, the message contains them.
    fn to_body(&self) -> Value {
        let mut message = self.0.detail().to_owned();
        let errors = self.0.errors().iter().filter(|problem| problem["severity"] == "error");
        let errors: Vec<&str> = errors.filter_map(|problem| problem["message"].as_str()).collect();
        if !errors.is_empty() {
            message = format!("{message}: {}", errors.join("; "));
        }
        Value::map([
            ("success", Value::from(false)),
            ("flow", Value::Null),
            ("error", message.into()),
            ("code", self.0.code().to_string().into()),
        ])
    }
}

impl IntoResponse for AnythingLlmError {
    fn into_response(self) -> Response {
        (self.0.status(), Json(self.to_body())).into_response()
    }
}

/// Converts a problem document into AnythingLLM's form, for every error below these routes.
async fn convert_problem(mut response: Response) -> Response {
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) => AnythingLlmError(problem).into_response(),
        None => response,
    }
}

type FlowResult = Result<Json<Value>, AnythingLlmError>;

fn invalid_request(message: &str) -> AnythingLlmError {
    Problem::new(Code::RequestInvalid, message).into()
}

/// A flow to store.
#[derive(Deserialize, ToSchema)]
pub(crate) struct SaveFlowRequest {
    /// Name of the flow.
    #[serde(default)]
    name: Option<String>,
    /// Definition of the flow: `{description, active, steps}`.
    #[serde(default)]
    #[schema(value_type = Object)]
    config: Value,
    /// Id of the flow; a new one is generated if unset.
    #[serde(default)]
    uuid: Option<String>,
}

/// Stores a flow, even if it is incomplete; only unknown block types are rejected. If AnythingLLM's folder of flows is
/// served, the flow is a file in it.
#[utoipa::path(post, path = "/api/agent-flows/save", operation_id = "agent_flows_save", tag = "AnythingLLM", security(("key" = ["write"])), request_body = SaveFlowRequest,
    responses((status = 200, description = "`{success, flow: {success, uuid}}`, or `{success: false, flow: null, error}` if the flow is refused", body = SavedFlowSchema), (status = 400, description = "`{success: false, error}`")))]
pub(crate) async fn save_flow(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    JsonObject(save, _): JsonObject<SaveFlowRequest>,
) -> FlowResult {
    let (Some(name), Some(config)) = (save.name.filter(|name| !name.is_empty()), save.config.as_map()) else {
        caller.require_scope(Scope::Write)?;
        return Err(invalid_request("Name and config are required"));
    };
    let uuid = save.uuid.filter(|uuid| !uuid.is_empty()).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let mut config = config.clone();
    config.insert("name".into(), name.into());
    match store_flow(&host, &caller, &uuid, config, DefinitionCondition::default()).await {
        // AnythingLLM's builder shows the reason only if the request itself succeeds.
        Err(error) if error.is_refusal() => return Ok(Json(error.to_body())),
        stored => stored?,
    }
    let flow = Value::map([("success", Value::from(true)), ("uuid", uuid.into())]);
    Ok(Json(Value::map([("success", true.into()), ("flow", flow)])))
}

async fn store_flow(
    host: &Arc<RunHost>,
    caller: &Caller,
    uuid: &str,
    config: Map,
    condition: DefinitionCondition,
) -> Result<(), AnythingLlmError> {
    let key = writable_key(caller, None, DefinitionKind::Workflow, uuid)?;
    let kind = |step: &Value| step.get("type").and_then(Value::as_str).map(str::to_owned);
    let Some(steps) = config.get("steps").and_then(Value::as_list) else {
        return Err(invalid_request("the config has no list of steps"));
    };
    let is_known = |kind: String| kind == flow::FINISH_BLOCK || flow::BLOCK_TYPES.contains(&kind.as_str());
    if let Some(odd) = steps.iter().find(|step| !kind(step).is_some_and(is_known)) {
        let kind = kind(odd).unwrap_or_else(|| "none".into());
        let message = format!("the block type {kind:?} is not supported; use one of {}", flow::BLOCK_TYPES.join(", "));
        return Err(invalid_request(&message));
    }
    if let Some(folder) = find_flow_folder(host, caller, uuid).await? {
        record_file_change(host, caller, uuid, false).await?;
        return write_flow_file(host, folder, uuid, config.into()).await;
    }
    let text = render::to_json(&config.into());
    let content =
        DefinitionContent { format: Some(flow::FORMAT), ..DefinitionContent::single(&format!("{uuid}.json"), text) };
    put::store_workflow(&host.catalog, caller, ChangeTarget { key, condition }, content, true).await?;
    Ok(())
}

/// AnythingLLM's folder of flows, if the flow belongs there: it is served, the caller is not one of several users, and
/// no flow of this id is stored in the database.
async fn find_flow_folder(host: &Arc<RunHost>, caller: &Caller, uuid: &str) -> ApiResult<Option<FlowFolder>> {
    if caller.user.is_some() {
        return Ok(None);
    }
    let (catalog, user, id) = (host.catalog.clone(), caller.resolve_user(None)?, uuid.to_owned());
    let found = run_blocking(move || {
        let Some(folder) = catalog.flow_folder() else { return Ok(None) };
        // Another call may create the file in between, so the folder is asked again.
        let is_elsewhere =
            !folder.contains(&id) && catalog.find_definition(&user, &id)?.is_some() && !folder.contains(&id);
        Ok::<_, AppError>(Some(folder).filter(|_| !is_elsewhere))
    });
    Ok(found.await??)
}

/// Records in the audit log who changes the file of a flow.
async fn record_file_change(host: &Arc<RunHost>, caller: &Caller, uuid: &str, is_deleted: bool) -> ApiResult<()> {
    let now = SystemClock.now_ms();
    Ok(host.app.store.record_file_change(uuid, is_deleted, caller.to_actor(), now).await?)
}

/// Writes a flow as AnythingLLM does.
async fn write_flow_file(
    host: &Arc<RunHost>,
    folder: FlowFolder,
    uuid: &str,
    config: Value,
) -> Result<(), AnythingLlmError> {
    let text = serde_json::to_string_pretty(&config).unwrap_or_default();
    let limit = host.app.config.limits.source_bytes;
    if text.len() as u64 > limit {
        let message = format!("the flow has {} bytes, and the limit is {limit}", text.len());
        return Err(Problem::new(Code::SourceTooLarge, message).into());
    }
    let id = uuid.to_owned();
    let written = run_blocking(move || folder.write_flow(&id, &text)).await?;
    Ok(written.map_err(|error| file_problem(uuid, &error))?)
}

fn file_problem(uuid: &str, error: &std::io::Error) -> Problem {
    let message = format!("the file of the flow {uuid} cannot be written: {error}");
    Problem::new(Code::FileFailed, message).with_status(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The list of flows.
#[derive(Serialize)]
pub(crate) struct FlowList {
    success: bool,
    flows: BoundedList,
}

/// Lists flows, and whether each is available to agents.
#[utoipa::path(get, path = "/api/agent-flows/list", operation_id = "agent_flows_list", tag = "AnythingLLM", security(("key" = ["read"])),
    responses((status = 200, description = "`{success, flows: [{name, uuid, description, active}]}`", body = FlowListSchema)))]
pub(crate) async fn list_flows(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
) -> Result<Json<FlowList>, AnythingLlmError> {
    caller.require_scope(Scope::Read)?;
    let flow = |definition: &CatalogEntry, content: &DefinitionContent| {
        // AnythingLLM lists only valid JSON, and opens files that can be repaired.
        let Some(config) = parse_value(content.entry_text()).ok().and_then(|config| config.as_map().cloned()) else {
            return Ok(None);
        };
        let text = |key: &str| config.get(key).cloned().unwrap_or_default();
        Ok(Some(Value::map([
            ("name", text("name")),
            ("uuid", definition.id.as_str().into()),
            ("description", text("description")),
            ("active", flow::is_active(&config.into()).into()),
            ("plugin", format!("@@flow_{}", definition.id).into()),
        ])))
    };
    let found = list_definitions(&catalog, caller.resolve_user(None)?, flow::FORMAT).await?;
    Ok(Json(FlowList { success: true, flows: build_list(&catalog, found, flow).await? }))
}

/// The stored flow, repaired if it is not quite JSON. Fails with `JsonSyntax` if it cannot be repaired: an empty
/// flow in its place would be saved over the file.
fn read_config(content: &DefinitionContent) -> ApiResult<Map> {
    let config = read_lenient(content.entry_text()).as_ref().and_then(Value::as_map).cloned();
    config.ok_or_else(|| Problem::new(Code::JsonSyntax, "the file is not JSON and cannot be repaired"))
}

/// Returns a flow.
#[utoipa::path(get, path = "/api/agent-flows/{uuid}", operation_id = "agent_flows_get", tag = "AnythingLLM", security(("key" = ["read"])), params(("uuid" = String, Path)),
    responses((status = 200, description = "`{success, flow: {name, uuid, config}}`", body = FlowSchema), (status = 404, description = "`{success: false, error}`"),
        (status = 422, description = "The file is not JSON")))]
pub(crate) async fn get_flow(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(uuid): PathParam<String>,
) -> FlowResult {
    caller.require_scope(Scope::Read)?;
    let (_, content) = find_definition(&catalog, caller.resolve_user(None)?, flow::FORMAT, &uuid).await?;
    Ok(flow_response(&uuid, read_config(&content)?))
}

fn flow_response(uuid: &str, config: Map) -> Json<Value> {
    let name = config.get("name").cloned().unwrap_or_default();
    let flow = Value::map([("name", name), ("uuid", uuid.into()), ("config", config.into())]);
    Json(Value::map([("success", true.into()), ("flow", flow)]))
}

/// Deletes a flow.
#[utoipa::path(delete, path = "/api/agent-flows/{uuid}", operation_id = "agent_flows_delete", tag = "AnythingLLM", security(("key" = ["write"])), params(("uuid" = String, Path)),
    responses((status = 200, description = "`{success}`", body = SuccessSchema), (status = 404, description = "`{success: false, error}`"), (status = 409, description = "The id belongs to a file of the served folder")))]
pub(crate) async fn delete_flow(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(uuid): PathParam<String>,
) -> FlowResult {
    let key = writable_key(&caller, None, DefinitionKind::Workflow, &uuid)?;
    if let Some(folder) = find_flow_folder(&host, &caller, &uuid).await?.filter(|folder| folder.contains(&uuid)) {
        record_file_change(&host, &caller, &uuid, true).await?;
        let id = uuid.clone();
        run_blocking(move || folder.delete_flow(&id)).await?.map_err(|error| file_problem(&uuid, &error))?;
        return Ok(Json(Value::map([("success", Value::from(true))])));
    }
    reject_folder_file(&host.catalog, &uuid).await?;
    find_definition(&host.catalog, key.user.clone(), flow::FORMAT, &uuid).await?;
    delete_definition(&host.definition_store(), key, &caller).await?;
    Ok(Json(Value::map([("success", true.into())])))
}

/// Whether a flow is available to agents.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ToggleRequest {
    /// Default: true.
    // As in AnythingLLM any value is stored, and only `false` switches the flow off.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    active: Option<Value>,
}

/// Switches a flow on or off for agents.
#[utoipa::path(post, path = "/api/agent-flows/{uuid}/toggle", operation_id = "agent_flows_toggle", tag = "AnythingLLM", security(("key" = ["write"])), params(("uuid" = String, Path)), request_body = ToggleRequest,
    responses((status = 200, description = "`{success, flow}`", body = FlowSchema), (status = 404, description = "`{success: false, error}`"), (status = 409, description = "The id belongs to a file of the served folder")))]
pub(crate) async fn toggle_flow(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(uuid): PathParam<String>,
    JsonObject(toggle, _): JsonObject<ToggleRequest>,
) -> FlowResult {
    caller.require_scope(Scope::Write)?;
    let (flow, content) = find_definition(&host.catalog, caller.resolve_user(None)?, flow::FORMAT, &uuid).await?;
    let mut config = read_config(&content)?;
    match toggle.active {
        Some(active) => drop(config.insert("active".into(), active)),
        None => drop(config.shift_remove("active")),
    }
    // A change that another client stored since then is not overwritten.
    let read = flow.stored_row().map(|row| ContentTags::OneOf(vec![row.content_tag()]));
    let condition = DefinitionCondition { required: read, excluded: None };
    store_flow(&host, &caller, &uuid, config.clone(), condition).await?;
    Ok(flow_response(&uuid, config))
}

/// Runs a flow and waits for its end. The body contains its variables, directly or in the field `variables`.
#[utoipa::path(post, path = "/api/agent-flows/{uuid}/run", operation_id = "agent_flows_run", tag = "AnythingLLM", security(("key" = ["run"])), request_body = Object,
    params(("uuid" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{success, results, variables, directOutput, run_id, status}`", body = FlowRunSchema), (status = 404, description = "`{success: false, error}`"),
        (status = 409, description = "The Idempotency-Key was used for another request"), (status = 422, description = "The flow has errors")))]
pub(crate) async fn run_flow(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(uuid): PathParam<String>,
    headers: HeaderMap,
    JsonText(text): JsonText,
) -> Result<Response, AnythingLlmError> {
    // Without a body there are no variables.
    let parse = |text: &str| if text.trim().is_empty() { Ok(Map::new().into()) } else { parse_object::<Value>(text) };
    let (body, text) = parse_text(text, parse).await?;
    let call = StartContext::admit_caller(&host, &caller, None, &headers)?.with_interface(TriggerKind::AnythingLlm);
    let (flow, _) = find_definition(&host.catalog, call.user().to_owned(), flow::FORMAT, &uuid).await?;
    let inputs = body.get("variables").filter(|given| given.as_map().is_some()).unwrap_or(&body).clone();
    if inputs.as_map().is_none() {
        return Err(invalid_request("the variables of a flow are an object"));
    }
    let ended = run_and_wait(&call, &flow, StartRunRequest::with_inputs(inputs), &text).await?;
    let mut result = ended.to_result();
    result.insert("run_id".into(), ended.id.to_string().into());
    result.insert("status".into(), ended.state.status.name().into());
    Ok(ended.to_response(result))
}
