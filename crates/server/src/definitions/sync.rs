//! `PUT /api/v1/workflows`: synchronises a whole folder.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::sync::{self, SyncFolder, SyncItem, SyncOutcome};
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::blocking::compile_blocking;
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::definitions::change::{check_id, reject_folder_file};
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Query parameters of a synchronisation.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SyncQuery {
    /// User who owns the workflows.
    #[serde(default)]
    user: Option<String>,
    /// Delete workflows that an earlier synchronisation created and that are missing from this one.
    #[serde(default)]
    prune: bool,
    /// Only report what would be changed.
    #[serde(default)]
    dry_run: bool,
}

/// The workflows of a folder.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SyncRequest {
    #[schema(value_type = Vec<crate::openapi_types::SyncItemSchema>)]
    items: Vec<SyncItem>,
    /// Paths of the other files of the folder that may have been workflows. What was stored from one of them is not deleted:
    /// the call fails if it would have to be.
    #[serde(default)]
    others: Vec<String>,
}

/// Ids of the workflows by outcome.
#[derive(Serialize, ToSchema)]
pub(crate) struct SyncResult {
    created: Vec<String>,
    updated: Vec<String>,
    unchanged: Vec<String>,
    deleted: Vec<String>,
    /// Those of the updated ones that were stored through the API.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<String>,
}

/// Makes the stored workflows match a folder, or changes nothing if one of them has an error. Each item is `{"id",
/// "entry", "files"}`.
#[utoipa::path(put, path = "/api/v1/workflows", tag = "workflows", operation_id = "sync_workflows", security(("key" = ["write"])), params(SyncQuery), request_body = SyncRequest,
    responses((status = 200, body = SyncResult), (status = 409, body = ProblemDocument), (status = 422, body = ProblemDocument)))]
pub(crate) async fn sync_workflows(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(how): QueryParams<SyncQuery>,
    JsonObject(folder, _): JsonObject<SyncRequest>,
) -> ApiResult<Json<SyncResult>> {
    caller.require_scope(Scope::Write)?;
    let user = caller.resolve_user(how.user)?;
    for item in &folder.items {
        check_id(&item.id)?;
        reject_folder_file(&catalog, &item.id).await?;
    }
    let shared = catalog.clone();
    let planned = compile_blocking(move |stop| {
        let loader = Loader { stop: Some(stop), ..shared.new_loader() };
        let folder = SyncFolder { items: folder.items, others: folder.others };
        sync::plan_sync(shared.store(), &loader, &user, folder, how.prune)
    })
    .await??;
    let changes = planned.map_err(|problems| {
        Problem::new(Code::StepRefused, "workflows of the folder have errors; nothing was changed")
            .with_errors(problems)
    })?;
    let SyncOutcome { created, updated, unchanged, deleted, replaced } =
        sync::apply_plan(catalog.store(), changes, how.dry_run, &caller.to_actor()).await?;
    Ok(Json(SyncResult { created, updated, unchanged, deleted, replaced }))
}
