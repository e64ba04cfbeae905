//! `/v1/models`: the workflows that the caller can run.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::definitions::catalog::{Catalog, CatalogEntry};
use flowloom_app::keys::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use crate::caller::Caller;
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem};

/// A workflow as a model.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiModel)]
pub(crate) struct OpenAiModel {
    /// Id of the workflow.
    id: String,
    object: &'static str,
    /// Creation time in seconds since the Unix epoch; for a file, when it was last changed.
    created: u64,
    owned_by: &'static str,
    /// Name of the workflow.
    name: String,
    description: String,
}

/// The list of models.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiModels)]
pub(crate) struct OpenAiModelList {
    object: &'static str,
    data: Vec<OpenAiModel>,
}

/// Lists the workflows that the caller can run, as models.
#[utoipa::path(get, path = "/v1/models", tag = "OpenAI", operation_id = "openai_list_models", security(("key" = ["read"])), responses((status = 200, body = OpenAiModelList)))]
pub(crate) async fn list_models(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
) -> ApiResult<Json<OpenAiModelList>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.user_id().to_owned();
    let found = crate::blocking::run_blocking(move || catalog.list_definitions(&user)).await??;
    let data =
        found.iter().filter(|definition| !definition.is_refused).map(|definition| to_model(definition)).collect();
    Ok(Json(OpenAiModelList { object: "list", data }))
}

/// Returns a workflow as a model.
#[utoipa::path(get, path = "/v1/models/{id}", tag = "OpenAI", operation_id = "openai_get_model", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, body = OpenAiModel), (status = 404)))]
pub(crate) async fn get_model(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<Json<OpenAiModel>> {
    caller.require_scope(Scope::Read)?;
    let (user, wanted) = (caller.user_id().to_owned(), id.clone());
    let found = crate::blocking::run_blocking(move || catalog.find_definition(&user, &wanted)).await??;
    let found = found.filter(|definition| !definition.is_refused);
    found.map(|definition| Json(to_model(&definition))).ok_or_else(|| Problem::not_found("model", &id))
}

fn to_model(definition: &CatalogEntry) -> OpenAiModel {
    let plan = definition.prepared.as_ref().map(|prepared| &prepared.plan);
    let created_at = definition.stored_row().map(|row| row.created_at).or_else(|| definition.changed_at());
    OpenAiModel {
        id: definition.id.clone(),
        object: "model",
        created: created_at.unwrap_or_default() / 1000,
        owned_by: "flowloom",
        name: plan.map(|plan| plan.name.clone()).unwrap_or_default(),
        description: plan.map(|plan| plan.description.clone()).unwrap_or_default(),
    }
}
