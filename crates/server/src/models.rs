//! `GET /api/v1/models`: lists the models that steps can use.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::keys::Scope;
use flowloom_app::models::ModelList;
use serde::Serialize;
use utoipa::ToSchema;
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
#[utoipa::path(get, path = "/api/v1/models", operation_id = "list_models", tag = "models", security(("key" = ["read"])), responses((status = 200, description = "The models", body = ModelListSchema)))]
pub(crate) async fn list_models(
    State(config): State<Arc<Config>>,
    caller: Caller,
) -> ApiResult<Json<serde_json::Value>> {
    caller.require_scope(Scope::Read)?;
    let mut list = ModelList::collect(&config).await;
    if caller.user.is_some() {
        list.providers.iter_mut().for_each(|provider| provider.base_url = None);
    }
    Ok(Json(serde_json::to_value(&list).unwrap_or_default()))
}

/// The usable models.
#[derive(Serialize, ToSchema)]
#[schema(as = ModelList)]
pub(crate) struct ModelListSchema {
    /// Default model for steps without one; null if not set.
    default: Option<String>,
    /// Local models as `local:NAME`.
    local: Vec<String>,
    files: Vec<ModelFileSchema>,
    providers: Vec<ModelProviderSchema>,
}

/// The file of a local model.
#[derive(Serialize, ToSchema)]
#[schema(as = ModelFile)]
pub(crate) struct ModelFileSchema {
    /// The model as `local:NAME`.
    model: String,
    bytes: u64,
    /// Architecture that the file states.
    architecture: Option<String>,
    /// Number of weights.
    parameters: Option<u64>,
    /// Maximum number of tokens of prompt and answer together.
    window_tokens: Option<u64>,
    /// Why the file cannot be used.
    problem: Option<String>,
}

/// A provider of models.
#[derive(Serialize, ToSchema)]
#[schema(as = ModelProvider)]
pub(crate) struct ModelProviderSchema {
    /// The name before the colon.
    name: String,
    /// Absent for keys of users.
    base_url: Option<String>,
    /// Environment variable of the key.
    key_env: Option<String>,
    /// Why it cannot be used.
    problem: Option<String>,
    /// For local providers: the models that it serves; absent if it does not answer.
    models: Option<Vec<String>>,
    /// Whether the provider is nearby, and was asked for its models.
    probed: bool,
}
