//! AgentOS' API: `/api/workflows` (docs/formats/steps.md).

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::stored::{Content, as_steps};
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::NewRun;
use flowloom_app::tools::workflows::history;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::steps;
use flowloom_store::{Kind, Store};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::runs::{definitions, run, with_id};
use crate::body::Body;
use crate::caller::Caller;
use crate::definitions::change::changeable;
use crate::definitions::put;
use crate::params::Params;
use crate::problem::{Answer, Document, Problem};
use crate::runs::start::Call;
use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(run_stored)).routes(routes!(runs))
}

/// `workflow::create`: stores a step list, given directly or in the field `workflow`.
#[utoipa::path(post, path = "/api/workflows", operation_id = "agentos_create", tag = "AgentOS", security(("key" = ["write"])), request_body = Object,
    responses((status = 200, description = "`{id}`"), (status = 400, body = Document), (status = 422, body = Document)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Body(definition, _): Body<Value>,
) -> Answer<Json<Value>> {
    let inner = definition.get("workflow").filter(|inner| inner.as_map().is_some()).unwrap_or(&definition);
    let Some(mut map) = inner.as_map().cloned() else {
        return Err(Problem::new(Code::RequestInvalid, "a workflow must be an object"));
    };
    let id = with_id(&mut map);
    let key = changeable(&caller, None, Kind::Workflow, &id)?;
    let entry = format!("{id}.json");
    let content = Content { format: Some(steps::FORMAT), ..Content::single(&entry, render::json(&map.into())) };
    put::save(&server, key, content, false).await?;
    Ok(Json(Value::map([("id", id.into())])))
}

/// `workflow::list`: lists the step lists with their source.
#[utoipa::path(get, path = "/api/workflows", operation_id = "agentos_list", tag = "AgentOS", security(("key" = ["read"])),
    responses((status = 200, description = "A list of definitions")))]
pub(crate) async fn list(State(server): State<Server>, caller: Caller) -> Answer<Json<Value>> {
    caller.may(Scope::Read)?;
    let found = definitions(&server, caller.acts_for(None)?, steps::FORMAT).await?;
    let written = found.iter().map(|(definition, content)| match definition.row() {
        Some(row) => as_steps(row),
        None => {
            let mut map = parse_value(content.main()).unwrap_or_default().as_map().cloned().unwrap_or_default();
            map.insert("id".into(), definition.id.as_str().into());
            Ok(map.into())
        }
    });
    Ok(Json(Value::list(written.collect::<Result<_, _>>()?)))
}

/// A step list to run.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunStored {
    /// Id of the step list.
    workflow_id: String,
    /// Input of the run.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input: Value,
    /// The agent whose capabilities apply.
    #[serde(default)]
    agent_id: Option<String>,
}

/// `workflow::run`: runs a step list and waits for its end. In addition to AgentOS' `{runId, results, vars}`, the
/// response contains `status`, and `error` if the run failed.
#[utoipa::path(post, path = "/api/workflows/run", operation_id = "agentos_run", tag = "AgentOS", security(("key" = ["run"])), request_body = RunStored,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "The run has ended"), (status = 202, description = "The run is waiting for an answer"),
        (status = 403, body = Document), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn run_stored(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(wanted, text): Body<RunStored>,
) -> Answer<Response> {
    let call = Call::admitted(&server, &caller, None, &headers)?;
    let missing = |_| Problem::new(Code::NotThere, steps::not_found(&wanted.workflow_id));
    let definition = call.definition(&wanted.workflow_id).await.map_err(missing)?;
    let starting = NewRun { agent: wanted.agent_id, ..NewRun::with(wanted.input) };
    let ended = run(&call, &definition, starting, &text).await?;
    let mut told = ended.result();
    told.insert("runId".into(), ended.id.to_string().into());
    told.insert("status".into(), flowloom_formats::steps::status_word(ended.state.status).into());
    if let Some(error) = &ended.state.error {
        told.insert("error".into(), error.message.as_str().into());
    }
    Ok(ended.answer(told))
}

/// Filter of a list of runs.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Id of the step list.
    workflow_id: String,
    /// Maximum number of runs (1 to 1000; default 100).
    #[serde(default)]
    limit: Option<i64>,
    /// Number of runs to skip.
    #[serde(default)]
    offset: Option<i64>,
}

/// `workflow::runs`: returns a page of a step list's runs, oldest first.
#[utoipa::path(get, path = "/api/workflows/runs", operation_id = "agentos_runs", tag = "AgentOS", security(("key" = ["read"])), params(Page),
    responses((status = 200, description = "`{runs, total, limit, offset}`")))]
pub(crate) async fn runs(
    State(store): State<Arc<Store>>,
    caller: Caller,
    Params(page): Params<Page>,
) -> Answer<Json<Value>> {
    caller.may(Scope::Read)?;
    let number = |number: Option<i64>| number.map(Value::from);
    let bounds = steps::runs::bounds(number(page.limit).as_ref(), number(page.offset).as_ref());
    let (runs, total) = history(&store, caller.user.clone(), page.workflow_id, bounds).await?;
    Ok(Json(steps::runs::page(runs, total, bounds)))
}
