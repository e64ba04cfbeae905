//! `/api/v1/workflows/{id}`: stores, deletes and reads the source of one workflow.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::stored::{self, CompiledDefinition, DefinitionContent};
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_store::{
    ChangeResult, ChangedDefinition, DefinitionChange, DefinitionKey, DefinitionKind, NewDefinition, Origin, Store,
    VersionRow,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::upload::UploadedDefinition;
use crate::caller::Caller;
use crate::definitions::change::{
    ChangeTarget, DefinitionStore, OwnerQuery, apply_change, delete_definition, reject_folder_file, writable_key,
};
use crate::definitions::etag::{IfContent, Tagged};
use crate::definitions::workflows::{WorkflowInfo, to_workflow_info};
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Query parameters of storing a workflow.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PutQuery {
    /// User who owns the workflow.
    #[serde(default)]
    user: Option<String>,
    /// Store the workflow even if `check` finds errors; it cannot be run until they are fixed.
    #[serde(default)]
    draft: bool,
}

/// A stored workflow.
#[derive(Serialize, ToSchema)]
pub(crate) struct PutResult {
    /// `created`, `updated` or `unchanged`.
    changed: &'static str,
    #[serde(flatten)]
    workflow: WorkflowInfo,
}

/// Creates or replaces the workflow with this id. The body is the definition as JSON or Markdown (`text/markdown`), an
/// object `{"entry", "files"}`, or a form with files.
#[utoipa::path(put, path = "/api/v1/workflows/{id}", tag = "workflows", security(("key" = ["write"])), operation_id = "put_workflow", params(("id" = String, Path), PutQuery, ("If-Match" = Option<String>, Header, description = "Change it only if its `ETag` is one of these"), ("If-None-Match" = Option<String>, Header, description = "`*`: only if it does not exist")),
    request_body(content((Object = "application/json"), (String = "text/markdown"), (Object = "multipart/form-data"))),
    responses((status = 200, description = "Updated or unchanged", body = PutResult), (status = 201, description = "The definition was created", body = PutResult),
        (status = 409, description = "The id belongs to a file of the served folder", body = ProblemDocument), (status = 412, description = "It does not meet the condition", body = ProblemDocument), (status = 422, description = "It has errors", body = ProblemDocument)))]
pub(crate) async fn put_workflow(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(how): QueryParams<PutQuery>,
    IfContent(condition): IfContent,
    upload: UploadedDefinition,
) -> ApiResult<Tagged<PutResult>> {
    let key = writable_key(&caller, how.user, DefinitionKind::Workflow, &id)?;
    let content = upload.into_content(&id).await?;
    let target = ChangeTarget { key, condition };
    let (changed, workflow) = store_workflow(&catalog, &caller, target, content, how.draft).await?;
    let status = if changed == ChangeResult::Created { StatusCode::CREATED } else { StatusCode::OK };
    let tag = workflow.content_tag();
    Ok(Tagged::of_change(status, tag, PutResult { changed: changed.name(), workflow }))
}

/// Stores a workflow. One with errors is stored only as a draft.
pub(crate) async fn store_workflow(
    catalog: &Arc<Catalog>,
    caller: &Caller,
    target: impl Into<ChangeTarget>,
    content: DefinitionContent,
    is_draft: bool,
) -> ApiResult<(ChangeResult, WorkflowInfo)> {
    let ChangeTarget { key, condition } = target.into();
    reject_folder_file(catalog, &key.id).await?;
    let (shared, user) = (catalog.clone(), key.user.clone());
    let compiled = crate::blocking::compile_blocking(move |stop| {
        let loader = Loader { stop: Some(stop), ..shared.new_loader() };
        stored::compile_for_user(shared.store(), &loader, &user, &content).map(|compiled| (compiled, content))
    });
    let (mut compiled, content) = compiled.await??;
    compiled.source.add_python_errors(catalog.blocks().python_syntax()).await;
    let new = check_definition(key.clone(), &content, &compiled, is_draft)?;
    let ChangedDefinition { result, row } =
        apply_change(catalog.store(), DefinitionChange::Put(new), condition, caller).await?;
    let missing = || Problem::new(Code::StoreFailed, "the stored workflow is missing");
    let (catalog, row) = (catalog.clone(), row.ok_or_else(missing)?);
    let stored = crate::blocking::run_blocking(move || catalog.load_stored(row)).await??;
    let stored = stored.ok_or_else(missing)?;
    Ok((result, to_workflow_info(&stored)))
}

/// The definition to store. Fails if it has another id than `key`, or errors and is no draft.
fn check_definition(
    key: DefinitionKey,
    content: &DefinitionContent,
    compiled: &CompiledDefinition,
    is_draft: bool,
) -> ApiResult<NewDefinition> {
    let plan = compiled.source.compiled.plan.as_ref();
    if let Some(own) = plan.and_then(|plan| plan.id.as_ref()).filter(|own| **own != key.id) {
        let message = format!("the definition has the id {own:?}; expected the id of the URL");
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    let is_known = compiled.source.compiled.format.is_some();
    if compiled.source.is_refused() && !(is_draft && is_known) {
        let message = format!("the workflow {} has errors", key.id);
        return Err(Problem::new(Code::StepRefused, message).with_errors(compiled.source.problems()));
    }
    Ok(stored::new_definition(key, content, compiled, Origin::Api)?)
}

/// Deletes a workflow. Its versions remain, and its runs continue.
#[utoipa::path(delete, path = "/api/v1/workflows/{id}", tag = "workflows", security(("key" = ["write"])), operation_id = "delete_workflow", params(("id" = String, Path), OwnerQuery, ("If-Match" = Option<String>, Header, description = "Delete it only if its `ETag` is one of these")),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument),
        (status = 409, description = "The id belongs to a file of the served folder, or the workflow is in use", body = ProblemDocument),
        (status = 412, description = "It does not meet the condition", body = ProblemDocument)))]
pub(crate) async fn delete_workflow(
    State(definitions): State<DefinitionStore>,
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
    IfContent(condition): IfContent,
) -> ApiResult<StatusCode> {
    let key = writable_key(&caller, whose.user, DefinitionKind::Workflow, &id)?;
    reject_folder_file(&catalog, &id).await?;
    delete_definition(&definitions, ChangeTarget { key, condition }, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Selects a version of a definition.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionQuery {
    /// User who owns the definition.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// Version number [default: the current version].
    #[serde(default)]
    pub(crate) version: Option<u32>,
}

/// The source of a workflow.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowSource {
    /// Path of the entry file in `files`.
    entry: String,
    /// File contents by path, including the entry file.
    files: BTreeMap<String, String>,
}

/// Returns the source of a workflow, in the form that `PUT` accepts.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/source", tag = "workflows", operation_id = "get_workflow_source", security(("key" = ["read"])), params(("id" = String, Path), VersionQuery, ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the content that the client has")),
    responses((status = 200, body = WorkflowSource), (status = 304, description = "The client has this content"), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_source(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(which): QueryParams<VersionQuery>,
    IfContent(condition): IfContent,
) -> ApiResult<Tagged<WorkflowSource>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(which.user)?;
    let found = crate::blocking::run_blocking(move || {
        let tag = match which.version {
            None => catalog.find_definition(&user, &id)?.and_then(|found| Some(found.stored_row()?.content_tag())),
            Some(_) => None,
        };
        Ok::<_, AppError>(catalog.read_source(&user, &id, which.version)?.map(|content| (tag, content)))
    });
    let (tag, DefinitionContent { entry, files, .. }) =
        found.await??.ok_or_else(|| Problem::not_found("workflow", "of this id and version"))?;
    Ok(Tagged::read(&condition, tag, WorkflowSource { entry, files }))
}

/// A version of a definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct VersionInfo {
    /// Version number, starting at 1.
    version: u32,
    /// Hash of the content.
    hash: String,
    /// Time at which it was stored, in milliseconds since the Unix epoch.
    created_at: u64,
}

/// Every version of a definition, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct VersionList {
    items: Vec<VersionInfo>,
}

impl VersionList {
    pub(crate) fn from_rows(rows: Vec<VersionRow>) -> VersionList {
        let version = |row: VersionRow| VersionInfo { version: row.version, hash: row.hash, created_at: row.at };
        VersionList { items: rows.into_iter().map(version).collect() }
    }
}

/// Lists the stored versions of a workflow, also of a deleted one.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/versions", tag = "workflows", operation_id = "list_workflow_versions", security(("key" = ["read"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 200, body = VersionList), (status = 404, body = ProblemDocument)))]
pub(crate) async fn list_versions(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<VersionList>> {
    caller.require_scope(Scope::Read)?;
    let key = DefinitionKey { user: caller.resolve_user(whose.user)?, kind: DefinitionKind::Workflow, id: id.clone() };
    let rows = crate::blocking::run_blocking(move || store.list_versions(&key)).await??;
    if rows.is_empty() {
        return Err(Problem::not_found("workflow", &id));
    }
    Ok(Json(VersionList::from_rows(rows)))
}
