//! Webhooks: `POST /hooks/{id}` starts a run, `/api/v1/hooks` manages the hooks.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use flowloom_app::hooks::NewHook;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use flowloom_store::{HookRow, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::{accept_request, parse_text};
use crate::body::{JsonObject, discard_body, read_json_text};
use crate::body_budget::BodySender;
use crate::caller::Caller;
use crate::definitions::change::{OwnerQuery, writable_user};
use crate::hook_credential::HookCredential;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::name_started_run;
use crate::runs::start::{StartContext, check_key_length, find_definition, header_text};
use crate::state::{RunHost, Server};

/// The routes of webhooks.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_hooks)).routes(routes!(put_hook, delete_hook)).routes(routes!(call_hook))
}

/// Headers that identify a delivery: a repeated delivery does not start another run.
pub(crate) const DELIVERY_HEADERS: [&str; 3] = ["idempotency-key", "webhook-id", "x-github-delivery"];

/// The settings of a webhook.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookRequest {
    /// Id of the workflow to run.
    workflow: String,
    /// Name of a secret (`FLOWLOOM_SECRET_<NAME>` on the server) with which callers sign the body. Without it, a secret
    /// is generated that callers send.
    #[serde(default)]
    secret_name: Option<String>,
}

/// A webhook.
#[derive(Serialize, ToSchema)]
pub struct HookInfo {
    id: String,
    user: String,
    workflow: String,
    /// URL path of the webhook on this server, with the user in the query unless it is `local`.
    path: String,
    /// Name of the secret with which callers sign the body; null if callers send a generated secret.
    secret_name: Option<String>,
    /// The generated secret, to be sent in `X-Hook-Secret`. It is returned only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl HookInfo {
    /// The hook of a row; `secret` if it was made just now.
    pub fn from_row(row: HookRow, secret: Option<String>) -> HookInfo {
        let path = row.address();
        HookInfo { id: row.id, user: row.user, workflow: row.workflow, path, secret_name: row.secret_name, secret }
    }
}

/// Webhooks, sorted by id.
#[derive(Serialize, ToSchema)]
pub(crate) struct HookList {
    items: Vec<HookInfo>,
}

/// Filter of the list of webhooks.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HookListQuery {
    /// Only webhooks of this user. A key that belongs to a user determines the user itself.
    #[serde(default)]
    user: Option<String>,
}

/// Lists webhooks.
#[utoipa::path(get, path = "/api/v1/hooks", operation_id = "list_hooks", tag = "hooks", security(("key" = ["read"])), params(HookListQuery), responses((status = 200, body = HookList)))]
pub(crate) async fn list_hooks(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(whose): QueryParams<HookListQuery>,
) -> ApiResult<Json<HookList>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.select_user(whose.user)?;
    let rows = crate::blocking::run_blocking(move || store.list_hooks(user.as_deref())).await??;
    Ok(Json(HookList { items: rows.into_iter().map(|row| HookInfo::from_row(row, None)).collect() }))
}

/// Creates or replaces the webhook with this id and generates a new secret.
#[utoipa::path(put, path = "/api/v1/hooks/{id}", operation_id = "put_hook", tag = "hooks", security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery), request_body = HookRequest,
    responses((status = 200, body = HookInfo), (status = 404, description = "The workflow does not exist", body = ProblemDocument)))]
pub(crate) async fn put_hook(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonObject(new, _): JsonObject<HookRequest>,
) -> ApiResult<Json<HookInfo>> {
    let user = writable_user(&caller, whose.user, &id)?;
    find_definition(&host, &user, &new.workflow).await?;
    let new = NewHook { user, id, workflow: new.workflow, secret_name: new.secret_name };
    let (row, secret) = new.into_row(&host.app.config)?;
    host.app.store.put_hook(row.clone(), &caller.to_actor()).await?;
    Ok(Json(HookInfo::from_row(row, secret)))
}

/// Deletes a webhook.
#[utoipa::path(delete, path = "/api/v1/hooks/{id}", operation_id = "delete_hook", tag = "hooks", security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument)))]
pub(crate) async fn delete_hook(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<StatusCode> {
    let user = writable_user(&caller, whose.user, &id)?;
    store.delete_hook(&user, &id, &caller.to_actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The run that a request started.
#[derive(Serialize, ToSchema)]
pub(crate) struct HookRun {
    run_id: String,
}

/// Query parameters of calling a webhook.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HookQuery {
    /// User who owns the webhook. Without it, the secret decides which of several webhooks with this id is meant.
    #[serde(default)]
    user: Option<String>,
}

/// Starts a run with the request body as its input. Requires the hook's secret instead of an API key: either in
/// `X-Hook-Secret`, or as the signature of the body in `X-Hub-Signature-256`.
#[utoipa::path(post, path = "/hooks/{id}", operation_id = "call_hook", tag = "hooks", params(("id" = String, Path), HookQuery,
    ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run; `Webhook-Id` and `X-GitHub-Delivery` work, too")),
    request_body = Object,
    responses((status = 202, description = "The run was started", body = HookRun), (status = 400, body = ProblemDocument), (status = 401, description = "The secret is missing or wrong, or the webhook does not exist", body = ProblemDocument),
        (status = 409, body = ProblemDocument), (status = 422, body = ProblemDocument), (status = 429, body = ProblemDocument),
        (status = 500, description = "The database failed"), (status = 503, description = "The database is locked or cannot be reached")))]
pub(crate) async fn call_hook(
    State(server): State<Server>,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<HookQuery>,
    mut request: Request,
) -> ApiResult<(StatusCode, Json<HookRun>)> {
    let host = server.host.clone();
    let found = crate::blocking::run_blocking(move || host.app.store.find_hooks(&id, whose.user.as_deref())).await??;
    let (host, headers) = (&server.host, request.headers().clone());
    let credential = HookCredential::read(&headers);
    let refused = || Problem::new(Code::KeyUnknown, "the webhook does not exist, or its secret is missing or wrong");
    // A call that cannot be authenticated takes no memory for its body.
    let possible: Vec<HookRow> = found.into_iter().filter(|hook| credential.may_authenticate(hook)).collect();
    if possible.is_empty() {
        discard_body(&headers, request.into_body()).await;
        return Err(refused());
    }
    if let Some(hook) = possible.iter().find(|hook| credential.knows_secret(hook)) {
        request.extensions_mut().insert(BodySender::of_user(&hook.user));
    }
    let body = read_json_text(&server, request).await?;
    let hook = possible
        .into_iter()
        .find(|hook| credential.authenticates_call(hook, &host.app.config, &body))
        .ok_or_else(refused)?;
    let work = host.places.request_of(&hook.user);
    work.serve_handler(start_hooked_run(host, hook, &headers, body)).await
}

/// Starts a run of an authenticated request.
async fn start_hooked_run(
    host: &Arc<RunHost>,
    hook: HookRow,
    headers: &HeaderMap,
    body: String,
) -> ApiResult<(StatusCode, Json<HookRun>)> {
    let place = host.supervisor.reserve_place(&hook.user)?;
    accept_request();
    let (inputs, body) = parse_text(body, parse_inputs).await?;
    let trigger = TriggerKind::Webhook.to_trigger_of(&hook.id);
    let mut call = StartContext::for_user(host, &hook.user, trigger).with_key(name_delivery(&hook, headers)?);
    call.start.place = Some(Arc::new(place));
    let request = format!("{}\n{body}", hook.id);
    let run = call.start_once(&request, async |id| {
        let definition = call.find_definition(&hook.workflow).await?;
        let inputs = inputs.unwrap_or_else(|| definition.no_inputs());
        // The sender may put more into the body than the workflow takes.
        let inputs = match &definition.prepared {
            Some(prepared) => prepared.plan.inputs.keep_accepted(inputs),
            None => inputs,
        };
        call.start_run(&definition, StartRunRequest { id, ..StartRunRequest::with_inputs(inputs) }).await
    });
    let ActiveRun { id: run, completion, .. } = run.await?;
    // Respond only after the start of the run is stored.
    let stored = host.service.wait_until_stored(run, completion.clone()).await;
    name_started_run(host, run, completion.as_ref(), stored.map_err(Problem::from))?;
    Ok((StatusCode::ACCEPTED, Json(HookRun { run_id: run.to_string() })))
}

/// The inputs in a body; `None` if it is empty.
fn parse_inputs(body: &str) -> ApiResult<Option<Value>> {
    if body.trim().is_empty() {
        return Ok(None);
    }
    let parsed = parse_value(body).map(Some);
    parsed.map_err(|error| Problem::new(Code::RequestInvalid, format!("the body is not JSON: {}", error.message)))
}

/// The name of a delivery to a hook, which is the key under which it starts one run. Senders give one name to all deliveries
/// of an event, also if they go to several hooks. A sender that leaves it empty has named none.
fn name_delivery(hook: &HookRow, headers: &HeaderMap) -> ApiResult<Option<String>> {
    let mut names = DELIVERY_HEADERS.iter().filter_map(|name| headers.get(*name)).map(header_text);
    let Some(name) = names.find(|name| !name.is_empty()) else { return Ok(None) };
    check_key_length(&name)?;
    Ok(Some(format!("hook {} {name}", hook.id)))
}
