//! AnythingLLM's API: `/api/agent-flows` (docs/formats/flow.md). Responses are `{success, …}` or `{success: false,
//! error}`.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use flowloom_app::definitions::stored::Content;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::NewRun;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::flow;
use flowloom_store::Kind;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::runs::{definition, definitions, run};
use crate::body::Body;
use crate::caller::Caller;
use crate::definitions::change::{changeable, delete, not_in_folder};
use crate::definitions::put;
use crate::params::At;
use crate::problem::Problem;
use crate::runs::start::Call;
use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(save))
        .routes(routes!(list))
        .routes(routes!(get, remove))
        .routes(routes!(toggle))
        .routes(routes!(run_flow))
}

/// An error in AnythingLLM's form.
pub(crate) struct Refused(Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused(problem)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let entries = [
            ("success", Value::from(false)),
            ("flow", Value::Null),
            ("error", self.0.detail().into()),
            ("code", self.0.code().to_string().into()),
        ];
        (status, Json(Value::map(entries))).into_response()
    }
}

type Told = Result<Json<Value>, Refused>;

fn invalid(message: &str) -> Refused {
    Problem::new(Code::RequestInvalid, message).into()
}

/// A flow to store.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Save {
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

/// Stores a flow, even if it is incomplete; only unknown block types are rejected.
#[utoipa::path(post, path = "/api/agent-flows/save", operation_id = "agent_flows_save", tag = "AnythingLLM", security(("key" = ["write"])), request_body = Save,
    responses((status = 200, description = "`{success, flow: {success, uuid}}`"), (status = 400, description = "`{success: false, error}`")))]
pub(crate) async fn save(State(server): State<Server>, caller: Caller, Body(save, _): Body<Save>) -> Told {
    let (Some(name), Some(config)) = (save.name.filter(|name| !name.is_empty()), save.config.as_map()) else {
        caller.may(Scope::Write)?;
        return Err(invalid("Name and config are required"));
    };
    let uuid = save.uuid.filter(|uuid| !uuid.is_empty()).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let mut config = config.clone();
    config.insert("name".into(), name.into());
    keep(&server, &caller, &uuid, config).await?;
    let flow = Value::map([("success", Value::from(true)), ("uuid", uuid.into())]);
    Ok(Json(Value::map([("success", true.into()), ("flow", flow)])))
}

async fn keep(server: &Server, caller: &Caller, uuid: &str, config: Map) -> Result<(), Refused> {
    let key = changeable(caller, None, Kind::Workflow, uuid)?;
    let kind = |step: &Value| step.get("type").and_then(Value::as_str).map(str::to_owned);
    let Some(steps) = config.get("steps").and_then(Value::as_list) else {
        return Err(invalid("the config has no list of steps"));
    };
    if let Some(odd) = steps.iter().find(|step| kind(step).is_none_or(|kind| !flow::BLOCKS.contains(&kind.as_str()))) {
        let kind = kind(odd).unwrap_or_else(|| "none".into());
        let message = format!("blocks of the type {kind:?} are not supported; there are {}", flow::BLOCKS.join(", "));
        return Err(invalid(&message));
    }
    let text = render::json(&config.into());
    let content = Content { format: Some(flow::FORMAT), ..Content::single(&format!("{uuid}.json"), text) };
    put::save(server, key, content, true).await?;
    Ok(())
}

/// Lists flows, and whether each is available to agents.
#[utoipa::path(get, path = "/api/agent-flows/list", operation_id = "agent_flows_list", tag = "AnythingLLM", security(("key" = ["read"])),
    responses((status = 200, description = "`{success, flows: [{name, uuid, description, active}]}`")))]
pub(crate) async fn list(State(server): State<Server>, caller: Caller) -> Told {
    caller.may(Scope::Read)?;
    let flow = |(definition, content): &(Arc<flowloom_app::definitions::catalog::Definition>, Content)| {
        let config = config_of(content);
        let text = |key: &str| config.get(key).cloned().unwrap_or_default();
        Value::map([
            ("name", text("name")),
            ("uuid", definition.id.as_str().into()),
            ("description", text("description")),
            ("active", flow::is_active(&config.into()).into()),
            ("plugin", format!("@@flow_{}", definition.id).into()),
        ])
    };
    let found = definitions(&server, caller.acts_for(None)?, flow::FORMAT).await?;
    Ok(Json(Value::map([("success", true.into()), ("flows", Value::list(found.iter().map(flow).collect()))])))
}

fn config_of(content: &Content) -> Map {
    parse_value(content.main()).unwrap_or_default().as_map().cloned().unwrap_or_default()
}

/// Returns a flow.
#[utoipa::path(get, path = "/api/agent-flows/{uuid}", operation_id = "agent_flows_get", tag = "AnythingLLM", security(("key" = ["read"])), params(("uuid" = String, Path)),
    responses((status = 200, description = "`{success, flow: {name, uuid, config}}`"), (status = 404, description = "`{success: false, error}`")))]
pub(crate) async fn get(State(server): State<Server>, caller: Caller, At(uuid): At<String>) -> Told {
    caller.may(Scope::Read)?;
    let (_, content) = definition(&server, caller.acts_for(None)?, flow::FORMAT, &uuid).await?;
    Ok(shown(&uuid, config_of(&content)))
}

fn shown(uuid: &str, config: Map) -> Json<Value> {
    let name = config.get("name").cloned().unwrap_or_default();
    let flow = Value::map([("name", name), ("uuid", uuid.into()), ("config", config.into())]);
    Json(Value::map([("success", true.into()), ("flow", flow)]))
}

/// Deletes a flow.
#[utoipa::path(delete, path = "/api/agent-flows/{uuid}", operation_id = "agent_flows_delete", tag = "AnythingLLM", security(("key" = ["write"])), params(("uuid" = String, Path)),
    responses((status = 200, description = "`{success}`"), (status = 404, description = "`{success: false, error}`"), (status = 409, description = "The id belongs to a file of the served folder")))]
pub(crate) async fn remove(State(server): State<Server>, caller: Caller, At(uuid): At<String>) -> Told {
    let key = changeable(&caller, None, Kind::Workflow, &uuid)?;
    not_in_folder(&server, &uuid).await?;
    definition(&server, key.holder.clone(), flow::FORMAT, &uuid).await?;
    delete(&server, key).await?;
    Ok(Json(Value::map([("success", true.into())])))
}

/// Whether a flow is available to agents.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Toggle {
    /// Default: true.
    #[serde(default)]
    active: Option<bool>,
}

/// Switches a flow on or off for agents.
#[utoipa::path(post, path = "/api/agent-flows/{uuid}/toggle", operation_id = "agent_flows_toggle", tag = "AnythingLLM", security(("key" = ["write"])), params(("uuid" = String, Path)), request_body = Toggle,
    responses((status = 200, description = "`{success, flow}`"), (status = 404, description = "`{success: false, error}`"), (status = 409, description = "The id belongs to a file of the served folder")))]
pub(crate) async fn toggle(
    State(server): State<Server>,
    caller: Caller,
    At(uuid): At<String>,
    Body(toggle, _): Body<Toggle>,
) -> Told {
    caller.may(Scope::Write)?;
    let (_, content) = definition(&server, caller.acts_for(None)?, flow::FORMAT, &uuid).await?;
    let mut config = config_of(&content);
    match toggle.active {
        Some(active) => drop(config.insert("active".into(), active.into())),
        None => drop(config.shift_remove("active")),
    }
    keep(&server, &caller, &uuid, config.clone()).await?;
    Ok(shown(&uuid, config))
}

/// Runs a flow and waits for its end. The body contains its variables, directly or in the field `variables`.
#[utoipa::path(post, path = "/api/agent-flows/{uuid}/run", operation_id = "agent_flows_run", tag = "AnythingLLM", security(("key" = ["run"])), request_body = Object,
    params(("uuid" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{success, results, variables, directOutput, run_id, status}`"), (status = 404, description = "`{success: false, error}`"),
        (status = 409, description = "The Idempotency-Key was used for another request"), (status = 422, description = "The flow has errors")))]
pub(crate) async fn run_flow(
    State(server): State<Server>,
    caller: Caller,
    At(uuid): At<String>,
    headers: HeaderMap,
    Body(body, text): Body<Value>,
) -> Result<Response, Refused> {
    let call = Call::admitted(&server, &caller, None, &headers)?;
    let (flow, _) = definition(&server, call.user().to_owned(), flow::FORMAT, &uuid).await?;
    let inputs = body.get("variables").filter(|given| given.as_map().is_some()).unwrap_or(&body).clone();
    if inputs.as_map().is_none() {
        return Err(invalid("the variables of a flow are an object"));
    }
    let ended = run(&call, &flow, NewRun::with(inputs), &text).await?;
    let mut told = ended.result();
    told.insert("run_id".into(), ended.id.to_string().into());
    told.insert("status".into(), ended.state.status.name().into());
    Ok(ended.answer(told))
}
