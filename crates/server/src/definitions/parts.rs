//! Routes of `/api/v1/blocks`, `/api/v1/agents` and `/api/v1/tools`, which workflows share.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::http::StatusCode;
use flowloom_app::blocks::{built_in_blocks, find_built_in, id_of};
use flowloom_app::definitions::stored;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::hash::Hash;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_store::{
    ChangeResult, ChangedDefinition, DefinitionChange, DefinitionKey, DefinitionKind, DefinitionRow, NewDefinition,
    Origin, Store, VersionRow, content_tag,
};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::put::VersionQuery;
use crate::blocking::run_blocking;
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::definitions::change::{ChangeTarget, DefinitionStore, apply_change};
use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// A block, agent or tool.
#[derive(Serialize, ToSchema)]
pub(crate) struct SharedDefinition {
    /// Id of the definition.
    id: String,
    /// Version number, starting at 1.
    version: u32,
    /// Hash of the content.
    hash: String,
    /// Whether it is shared with everyone.
    is_shared: bool,
    /// Whether it is built in.
    is_built_in: bool,
    /// Time of the last change, in milliseconds since the Unix epoch.
    updated_at: u64,
    /// The definition as it was uploaded.
    #[schema(value_type = Object)]
    definition: Value,
    /// The stored workflows that use it, of the user and of everyone; only of a single definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<Vec<String>>,
}

impl SharedDefinition {
    fn from_row(row: DefinitionRow) -> SharedDefinition {
        SharedDefinition {
            version: row.version,
            is_shared: row.key.user == flowloom_store::SHARED_USER,
            is_built_in: false,
            updated_at: row.updated_at,
            definition: parse_value(&row.content).unwrap_or_default(),
            used_by: None,
            id: row.key.id,
            hash: row.hash,
        }
    }
}

impl SharedDefinition {
    /// The tag of its content.
    fn content_tag(&self) -> Option<String> {
        Some(content_tag(&self.hash, self.version))
    }

    /// A built-in definition; its version and time are 0.
    fn from_built_in(block: &Value) -> SharedDefinition {
        SharedDefinition {
            id: id_of(block).to_owned(),
            version: 0,
            hash: Hash::of_bytes(render::to_json(block).as_bytes()).to_string(),
            is_shared: true,
            is_built_in: true,
            updated_at: 0,
            definition: block.clone(),
            used_by: None,
        }
    }

    /// A version of a definition.
    fn from_version(id: &str, is_shared: bool, row: VersionRow) -> SharedDefinition {
        SharedDefinition {
            id: id.to_owned(),
            version: row.version,
            hash: row.hash,
            is_shared,
            is_built_in: false,
            updated_at: row.at,
            definition: parse_value(&row.content).unwrap_or_default(),
            used_by: None,
        }
    }
}

/// Blocks, agents or tools, sorted by id.
#[derive(Serialize, ToSchema)]
pub(crate) struct SharedDefinitionList {
    /// Large values are shortened; the route of a single definition has them whole.
    #[schema(value_type = Vec<SharedDefinition>)]
    items: BoundedList,
}

async fn list_all(store: Arc<Store>, user: String, kind: DefinitionKind) -> ApiResult<SharedDefinitionList> {
    let rows = run_blocking(move || stored::list_definitions(&store, &user, kind)).await??;
    let mut items: Vec<SharedDefinition> = rows.into_iter().map(SharedDefinition::from_row).collect();
    if kind == DefinitionKind::Block {
        let brought = built_in_blocks().iter().filter(|block| !items.iter().any(|item| item.id == id_of(block)));
        let brought: Vec<SharedDefinition> = brought.map(SharedDefinition::from_built_in).collect();
        items.extend(brought);
        items.sort_by(|a, b| a.id.cmp(&b.id));
    }
    Ok(SharedDefinitionList { items: run_blocking(move || BoundedList::of_items(items.into_iter())).await? })
}

/// The definition that is effective for a user: the current content or the requested version.
async fn find_one(
    store: &Arc<Store>,
    which: VersionQuery,
    caller: &Caller,
    kind: DefinitionKind,
    id: String,
) -> ApiResult<SharedDefinition> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(which.user)?;
    if let Some(version) = which.version {
        let (key, rows) = find_versions(store, user, kind, &id).await?;
        let row = rows.into_iter().find(|row| row.version == version);
        let is_shared = key.user == flowloom_store::SHARED_USER;
        return row
            .map(|row| SharedDefinition::from_version(&id, is_shared, row))
            .ok_or_else(|| Problem::not_found(kind.name(), &id));
    }
    let row = find_row(store, user.clone(), kind, &id).await;
    let found = match find_built_in(&id).filter(|_| kind == DefinitionKind::Block) {
        Some(block) => row.map_or_else(|_| SharedDefinition::from_built_in(block), SharedDefinition::from_row),
        None => SharedDefinition::from_row(row?),
    };
    let store = store.clone();
    let uses = run_blocking(move || store.list_uses(&user, kind, &id)).await??;
    Ok(SharedDefinition { used_by: Some(uses), ..found })
}

/// Every version of a definition of the user, or else of everyone.
async fn find_versions(
    store: &Arc<Store>,
    user: String,
    kind: DefinitionKind,
    id: &str,
) -> ApiResult<(DefinitionKey, Vec<VersionRow>)> {
    let (store, id) = (store.clone(), id.to_owned());
    let found = run_blocking(move || {
        for user in [user, flowloom_store::SHARED_USER.to_owned()] {
            let key = DefinitionKey { user, kind, id: id.clone() };
            let rows = store.list_versions(&key)?;
            if !rows.is_empty() {
                return Ok((key, rows));
            }
        }
        Err(Problem::not_found(kind.name(), &id))
    });
    found.await?
}

/// The definition that is effective for a user. Fails with `NotThere`.
pub(crate) async fn find_row(
    store: &Arc<Store>,
    user: String,
    kind: DefinitionKind,
    id: &str,
) -> ApiResult<DefinitionRow> {
    let (store, wanted) = (store.clone(), id.to_owned());
    let found = run_blocking(move || stored::find_definition(&store, &user, kind, &wanted)).await??;
    found.ok_or_else(|| Problem::not_found(kind.name(), id))
}

/// Stores a definition under its own id. Fails with `RequestInvalid` if it names another id.
pub(crate) async fn store_definition(
    stored: &DefinitionStore,
    caller: &Caller,
    target: impl Into<ChangeTarget>,
    part: &Value,
) -> ApiResult<(ChangeResult, SharedDefinition)> {
    let ChangeTarget { key, condition } = target.into();
    let names: &[&str] = match key.kind {
        DefinitionKind::Agent => &["id", "agentId", "agent_id"],
        DefinitionKind::Tool => &["id", "toolId", "tool_id"],
        DefinitionKind::Block | DefinitionKind::Workflow => &["id"],
    };
    let Some(object) = part.as_map() else {
        return Err(Problem::new(Code::RequestInvalid, format!("a {} is a JSON object", key.kind.name())));
    };
    let own = names.iter().find_map(|name| object.get(*name));
    if let Some(own) = own.filter(|own| own.as_str() != Some(&key.id)) {
        let message =
            format!("the {} has the id {}; expected the id of the URL", key.kind.name(), render::to_json(own));
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    let mut part = object.clone();
    if own.is_none() {
        part.insert(names[0].into(), key.id.as_str().into());
    }
    let part = Value::from(part);
    let changed = if key.kind == DefinitionKind::Block {
        let changed = stored.blocks.put_blocks(&key.user, &[part], condition, &caller.to_actor()).await?;
        changed.into_iter().next()
    } else {
        let content = render::to_json(&part);
        let new = NewDefinition { key, format: None, content, origin: Origin::Api, uses: Vec::new() };
        Some(apply_change(&stored.store, DefinitionChange::Put(new), condition, caller).await?)
    };
    let missing = || Problem::new(Code::StoreFailed, "the stored definition is missing");
    let ChangedDefinition { result, row } = changed.ok_or_else(missing)?;
    Ok((result, SharedDefinition::from_row(row.ok_or_else(missing)?)))
}

fn change_status(changed: ChangeResult) -> StatusCode {
    if changed == ChangeResult::Created { StatusCode::CREATED } else { StatusCode::OK }
}

/// The same five routes for each kind.
macro_rules! part_routes {
    ($module:ident, $kind:expr, $list:literal, $one:literal, $tag:literal) => {
        #[doc = concat!("`", $list, "`.")]
        pub(crate) mod $module {
            use crate::definitions::change::ChangeTarget;
            use crate::definitions::change::OwnerQuery;
            use crate::definitions::etag::IfContent;
            use crate::definitions::etag::Tagged;
            use crate::definitions::change::writable_key;
            use crate::definitions::change::delete_definition;
            use crate::definitions::put::VersionList;
            use crate::definitions::put::VersionQuery;
            use super::{Arc, DefinitionStore, Store};
            use super::SharedDefinition;
            use super::SharedDefinitionList;
            use super::list_all;
            use super::store_definition;
            use super::find_one;
            use super::change_status;
            use crate::body::JsonBody;
            use crate::caller::Caller;
            use flowloom_app::keys::Scope;
            use crate::params::PathParam;
            use crate::params::QueryParams;
            use crate::problem::ApiResult;
            use crate::problem::ProblemDocument;
            use axum::Json;
            use axum::extract::State;
            use axum::http::StatusCode;
            use flowloom_core::value::Value;

            /// Lists all definitions of the user and those shared with everyone.
            #[utoipa::path(get, path = $list, operation_id = concat!("list_", $tag), tag = $tag, security(("key" = ["read"])), params(OwnerQuery), responses((status = 200, body = SharedDefinitionList)))]
            pub(crate) async fn list_parts(
                State(store): State<Arc<Store>>,
                caller: Caller,
                QueryParams(whose): QueryParams<OwnerQuery>,
            ) -> ApiResult<Json<SharedDefinitionList>> {
                caller.require_scope(Scope::Read)?;
                Ok(Json(list_all(store, caller.resolve_user(whose.user)?, $kind).await?))
            }

            /// Returns one definition.
            #[utoipa::path(get, path = $one, operation_id = concat!("get_", $tag), tag = $tag, security(("key" = ["read"])), params(("id" = String, Path), VersionQuery, ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the content that the client has")),
                                responses((status = 200, body = SharedDefinition), (status = 304, description = "The client has this content"), (status = 404, body = ProblemDocument)))]
            pub(crate) async fn get_part(
                State(store): State<Arc<Store>>,
                caller: Caller,
                PathParam(id): PathParam<String>,
                QueryParams(which): QueryParams<VersionQuery>,
                IfContent(condition): IfContent,
            ) -> ApiResult<Tagged<SharedDefinition>> {
                let found = find_one(&store, which, &caller, $kind, id).await?;
                Ok(Tagged::read(&condition, found.content_tag(), found))
            }

            /// Lists every version, newest first, also of a deleted definition.
            #[utoipa::path(get, path = concat!($one, "/versions"), operation_id = concat!("list_", $tag, "_versions"), tag = $tag, security(("key" = ["read"])), params(("id" = String, Path), OwnerQuery),
                                responses((status = 200, body = VersionList), (status = 404, body = ProblemDocument)))]
            pub(crate) async fn list_part_versions(
                State(store): State<Arc<Store>>,
                caller: Caller,
                PathParam(id): PathParam<String>,
                QueryParams(whose): QueryParams<OwnerQuery>,
            ) -> ApiResult<Json<VersionList>> {
                caller.require_scope(Scope::Read)?;
                let (_, rows) = super::find_versions(&store, caller.resolve_user(whose.user)?, $kind, &id).await?;
                Ok(Json(VersionList::from_rows(rows)))
            }

            /// Creates or replaces the definition with this id.
            #[utoipa::path(put, path = $one, operation_id = concat!("put_", $tag), tag = $tag, security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery, ("If-Match" = Option<String>, Header, description = "Change it only if its `ETag` is one of these"), ("If-None-Match" = Option<String>, Header, description = "`*`: only if it does not exist")),
                                request_body(content = Object, content_type = "application/json"),
                                responses((status = 200, description = "Updated or unchanged", body = SharedDefinition),
                                    (status = 201, description = "Created", body = SharedDefinition), (status = 400, body = ProblemDocument),
                                    (status = 412, description = "It does not meet the condition", body = ProblemDocument)))]
            pub(crate) async fn put_part(
                State(definitions): State<DefinitionStore>,
                caller: Caller,
                PathParam(id): PathParam<String>,
                QueryParams(whose): QueryParams<OwnerQuery>,
                IfContent(condition): IfContent,
                JsonBody(part): JsonBody<Value>,
            ) -> ApiResult<Tagged<SharedDefinition>> {
                let key = writable_key(&caller, whose.user, $kind, &id)?;
                let target = ChangeTarget { key, condition };
                let (changed, stored) = store_definition(&definitions, &caller, target, &part).await?;
                Ok(Tagged::of_change(change_status(changed), stored.content_tag(), stored))
            }

            /// Deletes a definition. Fails while a workflow uses it.
            #[utoipa::path(delete, path = $one, operation_id = concat!("delete_", $tag), tag = $tag, security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery, ("If-Match" = Option<String>, Header, description = "Delete it only if its `ETag` is one of these")),
                                responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument),
                                    (status = 412, description = "It does not meet the condition", body = ProblemDocument)))]
            pub(crate) async fn delete_part(
                State(definitions): State<DefinitionStore>,
                caller: Caller,
                PathParam(id): PathParam<String>,
                QueryParams(whose): QueryParams<OwnerQuery>,
                IfContent(condition): IfContent,
            ) -> ApiResult<StatusCode> {
                let key = writable_key(&caller, whose.user, $kind, &id)?;
                delete_definition(&definitions, ChangeTarget { key, condition }, &caller).await?;
                Ok(StatusCode::NO_CONTENT)
            }
        }
    };
}

part_routes!(blocks, flowloom_store::DefinitionKind::Block, "/api/v1/blocks", "/api/v1/blocks/{id}", "blocks");
part_routes!(agents, flowloom_store::DefinitionKind::Agent, "/api/v1/agents", "/api/v1/agents/{id}", "agents");
part_routes!(tools, flowloom_store::DefinitionKind::Tool, "/api/v1/tools", "/api/v1/tools/{id}", "tools");

/// The routes of blocks, agents and tools.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(blocks::list_parts))
        .routes(routes!(blocks::get_part, blocks::put_part, blocks::delete_part))
        .routes(routes!(blocks::list_part_versions))
        .routes(routes!(agents::list_parts))
        .routes(routes!(agents::get_part, agents::put_part, agents::delete_part))
        .routes(routes!(agents::list_part_versions))
        .routes(routes!(tools::list_parts))
        .routes(routes!(tools::get_part, tools::put_part, tools::delete_part))
        .routes(routes!(tools::list_part_versions))
}
