//! `GET /api/v1/secrets`: the names of secrets, and where they may go. Values are never part of a response.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::keys::Scope;
use flowloom_app::secrets::list_secret_names;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::problem::{ApiResult, ProblemDocument};
use crate::state::Server;

/// The route of secrets.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_secrets))
}

/// The secrets that the caller may know of.
#[derive(Serialize, ToSchema)]
pub(crate) struct SecretList {
    items: Vec<SecretInfo>,
}

/// A secret, without its value.
#[derive(Serialize, ToSchema)]
pub(crate) struct SecretInfo {
    name: String,
    /// Whether the environment of the server has it.
    is_set: bool,
    /// The hosts to which it may be sent; empty for any.
    hosts: Vec<String>,
    /// The users whose definitions may use it. A key of a user sees only that user.
    users: Vec<String>,
    /// The only workflows that may use it; empty for all.
    workflows: Vec<String>,
    /// Whether webhooks may be signed with it.
    webhooks: bool,
}

/// Lists the names and bindings of secrets. A key of a user sees those that its definitions may use; a key without a user
/// sees all, and needs the scope `admin`.
#[utoipa::path(get, path = "/api/v1/secrets", operation_id = "list_secrets", tag = "secrets", security(("key" = ["read"])),
    responses((status = 200, description = "The secrets", body = SecretList), (status = 403, body = ProblemDocument)))]
pub(crate) async fn list_secrets(State(config): State<Arc<Config>>, caller: Caller) -> ApiResult<Json<SecretList>> {
    caller.require_scope(if caller.user.is_some() { Scope::Read } else { Scope::Admin })?;
    let set: BTreeSet<String> = list_secret_names().into_iter().collect();
    let names: BTreeSet<&String> = set.iter().chain(config.secrets.keys()).collect();
    let info = |name: &String| {
        let settings = config.secrets.get(name).cloned().unwrap_or_default();
        let is_visible = caller.user.as_ref().is_none_or(|user| settings.users.contains(user));
        let users = match &caller.user {
            Some(user) => vec![user.clone()],
            None => settings.users,
        };
        is_visible.then(|| SecretInfo {
            name: name.clone(),
            is_set: set.contains(name),
            hosts: settings.hosts,
            users,
            workflows: settings.workflows,
            webhooks: settings.webhooks,
        })
    };
    Ok(Json(SecretList { items: names.into_iter().filter_map(info).collect() }))
}
