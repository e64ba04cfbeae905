//! `GET /api/v1/models`: lists the models that steps can use.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::engines::App;
use flowloom_app::keys::Scope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::problem::ApiResult;
use crate::state::Server;

/// The route that lists the models.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_models))
}

/// Lists local models and providers, as printed by `flowloom models list --json`.
#[utoipa::path(get, path = "/api/v1/models", operation_id = "list_models", tag = "models", security(("key" = ["read"])), responses((status = 200, description = "`{default, local, providers}`")))]
pub(crate) async fn list_models(State(app): State<Arc<App>>, caller: Caller) -> ApiResult<Json<serde_json::Value>> {
    caller.require_scope(Scope::Read)?;
    let list = crate::blocking::run_blocking(move || flowloom_app::wiring::model_list(&app.config)).await?;
    Ok(Json(list))
}
