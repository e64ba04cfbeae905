//! `GET /api/v1/models`: lists the models that steps can use.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::keys::Scope;

use crate::caller::Caller;
use crate::problem::Answer;
use crate::state::Server;

/// Lists local models and providers, as printed by `flowloom models list --json`.
#[utoipa::path(get, path = "/api/v1/models", operation_id = "list_models", tag = "models", security(("key" = ["read"])), responses((status = 200, description = "`{default, local, providers}`")))]
pub(crate) async fn list(State(server): State<Arc<Server>>, caller: Caller) -> Answer<Json<serde_json::Value>> {
    caller.may(Scope::Read)?;
    let shown = crate::blocking::blocking(move || flowloom_app::wiring::model_list(&server.app.config)).await?;
    Ok(Json(shown))
}
