//! `GET /api/v1/caller`: who makes a request, and what it permits. A page asks before it offers what would be refused.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use flowloom_app::keys::Scope;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::problem::{ApiResult, ProblemDocument};
use crate::state::Server;

/// The route of the caller.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(get_caller))
}

/// Who makes the request.
#[derive(Serialize, ToSchema)]
pub(crate) struct CallerInfo {
    /// Name of the key; null on a server that needs none.
    key: Option<String>,
    /// The user for whom the key acts; null for any.
    user: Option<String>,
    /// Everything that the key permits, also what another scope includes.
    scopes: Vec<&'static str>,
}

/// Returns the identity and the scopes of the caller.
#[utoipa::path(get, path = "/api/v1/caller", tag = "keys", operation_id = "get_caller", security(("key" = ["read"])),
    responses((status = 200, body = CallerInfo), (status = 403, body = ProblemDocument)))]
pub(crate) async fn get_caller(caller: Caller) -> ApiResult<Json<CallerInfo>> {
    caller.require_scope(Scope::Read)?;
    let permitted = Scope::ALL.into_iter().filter(|scope| caller.require_scope(*scope).is_ok());
    Ok(Json(CallerInfo {
        scopes: permitted.map(Scope::name).collect(),
        key: caller.key.as_ref().map(|key| key.name().to_owned()),
        user: caller.user,
    }))
}
