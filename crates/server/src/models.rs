//! `GET /api/v1/models`: lists the models that steps can use.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::engines::App;
use flowloom_app::keys::Scope;
use flowloom_app::models::ModelList;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::problem::ApiResult;
use crate::state::Server;

/// The route that lists the models.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_models))
}

/// Lists local models and providers, as printed by `flowloom models list --json`. Keys of a user do not
/// see the addresses of providers.
#[utoipa::path(get, path = "/api/v1/models", operation_id = "list_models", tag = "models", security(("key" = ["read"])), responses((status = 200, description = "`{default, local, files, providers}`")))]
pub(crate) async fn list_models(State(app): State<Arc<App>>, caller: Caller) -> ApiResult<Json<serde_json::Value>> {
    caller.require_scope(Scope::Read)?;
    let mut list = ModelList::collect(&app.config).await;
    if caller.user.is_some() {
        list.providers.iter_mut().for_each(|provider| provider.base_url = None);
    }
    Ok(Json(serde_json::to_value(&list).unwrap_or_default()))
}
