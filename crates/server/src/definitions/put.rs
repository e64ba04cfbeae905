//! `/api/v1/workflows/{id}`: stores, deletes and reads the source of one workflow.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::stored::{self, Content};
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_store::{Change, Changed, DefinitionKey, Kind, NewDefinition, Origin, Store, VersionRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::upload;
use crate::caller::Caller;
use crate::definitions::change::{Whose, change, changeable, delete, not_in_folder};
use crate::definitions::workflows::{Workflow, shown};
use crate::params::{At, Params};
use crate::problem::{Answer, Document, Problem};
use crate::state::Server;

/// Query parameters of storing a workflow.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct How {
    /// User who owns the workflow.
    #[serde(default)]
    user: Option<String>,
    /// Store the workflow even if `check` finds errors; it cannot be run until they are fixed.
    #[serde(default)]
    draft: bool,
}

/// A stored workflow.
#[derive(Serialize, ToSchema)]
pub(crate) struct Put {
    /// `created`, `updated` or `unchanged`.
    changed: &'static str,
    #[serde(flatten)]
    workflow: Workflow,
}

/// Creates or replaces the workflow with this id. The body is the definition as JSON or Markdown (`text/markdown`), an
/// object `{"entry", "files"}`, or a form with files.
#[utoipa::path(put, path = "/api/v1/workflows/{id}", tag = "workflows", security(("key" = ["write"])), operation_id = "put_workflow", params(("id" = String, Path), How),
    request_body(content((Object = "application/json"), (String = "text/markdown"), (Object = "multipart/form-data"))),
    responses((status = 200, description = "Updated or unchanged", body = Put), (status = 201, description = "It is new", body = Put),
        (status = 409, description = "The id belongs to a file of the served folder", body = Document), (status = 422, description = "It has errors", body = Document)))]
pub(crate) async fn put(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
    Params(how): Params<How>,
    request: Request,
) -> Answer<(StatusCode, Json<Put>)> {
    let key = changeable(&caller, how.user, Kind::Workflow, &id)?;
    let content = upload::read(request, &server, &id).await?;
    let (changed, workflow) = save(&server, key, content, how.draft).await?;
    let status = if changed == Changed::Created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Put { changed: changed.name(), workflow })))
}

/// Stores a workflow. One with errors is stored only as a draft.
pub(crate) async fn save(
    server: &Server,
    key: DefinitionKey,
    content: Content,
    is_draft: bool,
) -> Answer<(Changed, Workflow)> {
    not_in_folder(server, &key.id).await?;
    let (shared, whose) = (server.clone(), key.clone());
    let new = crate::blocking::blocking(move || checked(&shared, whose, &content, is_draft)).await??;
    let changed = change(server, Change::Put(new)).await?;
    let shared = server.clone();
    let found = crate::blocking::blocking(move || shared.catalog.find(&key.holder, &key.id)).await??;
    let found = found.ok_or_else(|| Problem::new(Code::StoreFailed, "the stored workflow is missing"))?;
    Ok((changed, shown(&found)))
}

fn checked(server: &Server, key: DefinitionKey, content: &Content, is_draft: bool) -> Answer<NewDefinition> {
    let loader = Loader { config: &server.app.config, format: None, lenient: false };
    let compiled = stored::compile_for(&server.app.store, &loader, &key.holder, content)?;
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
    Ok(stored::workflow(key, content, &compiled, Origin::Api)?)
}

/// Deletes a workflow. Its versions remain, and its runs continue.
#[utoipa::path(delete, path = "/api/v1/workflows/{id}", tag = "workflows", security(("key" = ["write"])), operation_id = "delete_workflow", params(("id" = String, Path), Whose),
    responses((status = 204, description = "Deleted"), (status = 404, body = Document),
        (status = 409, description = "The id belongs to a file of the served folder, or the workflow is in use", body = Document)))]
pub(crate) async fn remove(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
    Params(whose): Params<Whose>,
) -> Answer<StatusCode> {
    let key = changeable(&caller, whose.user, Kind::Workflow, &id)?;
    not_in_folder(&server, &id).await?;
    delete(&server, key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Selects a version of a definition.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// User who owns the definition.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// Version number [default: the current version].
    #[serde(default)]
    pub(crate) version: Option<u32>,
}

/// The source of a workflow.
#[derive(Serialize, ToSchema)]
pub(crate) struct Written {
    /// Path of the entry file in `files`.
    entry: String,
    /// File contents by path, including the entry file.
    files: BTreeMap<String, String>,
}

/// Returns the source of a workflow, in the form that `PUT` accepts.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/source", tag = "workflows", operation_id = "get_workflow_source", security(("key" = ["read"])), params(("id" = String, Path), Which),
    responses((status = 200, body = Written), (status = 404, body = Document)))]
pub(crate) async fn written(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    At(id): At<String>,
    Params(which): Params<Which>,
) -> Answer<Json<Written>> {
    caller.may(Scope::Read)?;
    let holder = caller.acts_for(which.user)?;
    let found = crate::blocking::blocking(move || catalog.written(&holder, &id, which.version)).await??;
    let Content { entry, files, .. } = found.ok_or_else(|| Problem::not_there("workflow", "of this id and version"))?;
    Ok(Json(Written { entry, files }))
}

/// A version of a definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct Version {
    /// Version number, starting at 1.
    version: u32,
    /// Hash of the content.
    hash: String,
    /// Time at which it was stored, in milliseconds since the Unix epoch.
    created_at: u64,
}

/// Every version of a definition, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct Versions {
    items: Vec<Version>,
}

impl Versions {
    pub(crate) fn of(rows: Vec<VersionRow>) -> Versions {
        let version = |row: VersionRow| Version { version: row.version, hash: row.hash, created_at: row.at };
        Versions { items: rows.into_iter().map(version).collect() }
    }
}

/// Lists the stored versions of a workflow, also of a deleted one.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/versions", tag = "workflows", operation_id = "list_workflow_versions", security(("key" = ["read"])), params(("id" = String, Path), Whose),
    responses((status = 200, body = Versions), (status = 404, body = Document)))]
pub(crate) async fn versions(
    State(store): State<Arc<Store>>,
    caller: Caller,
    At(id): At<String>,
    Params(whose): Params<Whose>,
) -> Answer<Json<Versions>> {
    caller.may(Scope::Read)?;
    let key = DefinitionKey { holder: caller.acts_for(whose.user)?, kind: Kind::Workflow, id: id.clone() };
    let rows = crate::blocking::blocking(move || store.versions(&key)).await??;
    if rows.is_empty() {
        return Err(Problem::not_there("workflow", &id));
    }
    Ok(Json(Versions::of(rows)))
}
