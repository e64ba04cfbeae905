//! `/v1/models`: the workflows that the caller can run.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::definitions::catalog::{Catalog, Definition};
use flowloom_app::keys::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use crate::caller::Caller;
use crate::params::At;
use crate::problem::{Answer, Problem};

/// A workflow as a model.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiModel)]
pub(crate) struct Model {
    /// Id of the workflow.
    id: String,
    object: &'static str,
    /// Creation time in seconds since the Unix epoch; 0 for a file.
    created: u64,
    owned_by: &'static str,
    /// Name of the workflow.
    name: String,
    description: String,
}

/// The list of models.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiModels)]
pub(crate) struct Models {
    object: &'static str,
    data: Vec<Model>,
}

/// Lists the workflows that the caller can run, as models.
#[utoipa::path(get, path = "/v1/models", tag = "OpenAI", operation_id = "openai_list_models", security(("key" = ["read"])), responses((status = 200, body = Models)))]
pub(crate) async fn list(State(catalog): State<Arc<Catalog>>, caller: Caller) -> Answer<Json<Models>> {
    caller.may(Scope::Read)?;
    let holder = caller.holder().to_owned();
    let found = crate::blocking::blocking(move || catalog.list(&holder)).await??;
    let data = found.iter().filter(|definition| !definition.is_refused).map(|definition| shown(definition)).collect();
    Ok(Json(Models { object: "list", data }))
}

/// Returns a workflow as a model.
#[utoipa::path(get, path = "/v1/models/{id}", tag = "OpenAI", operation_id = "openai_get_model", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, body = Model), (status = 404)))]
pub(crate) async fn get(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<Json<Model>> {
    caller.may(Scope::Read)?;
    let (holder, wanted) = (caller.holder().to_owned(), id.clone());
    let found = crate::blocking::blocking(move || catalog.find(&holder, &wanted)).await??;
    let found = found.filter(|definition| !definition.is_refused);
    found.map(|definition| Json(shown(&definition))).ok_or_else(|| Problem::not_there("model", &id))
}

fn shown(definition: &Definition) -> Model {
    let plan = definition.prepared.as_ref().map(|prepared| &prepared.plan);
    Model {
        id: definition.id.clone(),
        object: "model",
        created: definition.row().map_or(0, |row| row.created_at / 1000),
        owned_by: "flowloom",
        name: plan.map(|plan| plan.name.clone()).unwrap_or_default(),
        description: plan.map(|plan| plan.description.clone()).unwrap_or_default(),
    }
}
