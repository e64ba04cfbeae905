//! `/api/blocks`: the block registry.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flowloom_app::blocks::BlockRegistry;
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::value::Value;
use flowloom_store::{DefinitionKey, DefinitionKind};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::owner::{UserQuery, find_owner, list_users};
use crate::body::{JsonBody, JsonObject};
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::compat::schemas::{BlockSourceSchema, StoredBlockSchema};
use crate::definitions::change::{DefinitionStore, delete_definition, writable_key};
use crate::definitions::parts;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Maximum number of blocks that a search returns.
const MAX_SEARCH_RESULTS: usize = 10;

async fn find_for_caller(
    definitions: &DefinitionStore,
    caller: &Caller,
    whose: UserQuery,
    id: &str,
) -> ApiResult<Value> {
    caller.require_scope(Scope::Read)?;
    let user = find_owner(&definitions.store, caller, whose.user_id, DefinitionKind::Block, id).await?;
    find_block(&definitions.blocks, user, id).await
}

/// The key of a block that the caller may change.
async fn find_writable(
    definitions: &DefinitionStore,
    caller: &Caller,
    named: Option<String>,
    id: &str,
) -> ApiResult<DefinitionKey> {
    caller.require_scope(Scope::Write)?;
    let user = find_owner(&definitions.store, caller, named, DefinitionKind::Block, id).await?;
    writable_key(caller, Some(user), DefinitionKind::Block, id)
}

async fn find_block(blocks: &Arc<BlockRegistry>, user: String, id: &str) -> ApiResult<Value> {
    let (blocks, wanted) = (blocks.clone(), id.to_owned());
    let found = crate::blocking::run_blocking(move || blocks.find_block(&user, &wanted)).await??;
    found.ok_or_else(|| Problem::new(Code::NotThere, format!("Block not found: {id}")))
}

/// Lists all blocks. Large values are shortened; the route of a single block has them whole.
#[utoipa::path(get, path = "/api/blocks", operation_id = "agentflow_list_blocks", tag = "AgentFlow", security(("key" = ["read"])), params(UserQuery), responses((status = 200, description = "A list of blocks", body = Vec<Object>)))]
pub(crate) async fn list_blocks(
    State(definitions): State<DefinitionStore>,
    caller: Caller,
    QueryParams(whose): QueryParams<UserQuery>,
) -> ApiResult<Json<BoundedList>> {
    caller.require_scope(Scope::Read)?;
    let users = list_users(&definitions.store, &caller, whose.user_id, DefinitionKind::Block).await?;
    let listed = crate::blocking::run_blocking(move || {
        let (first, others) = users.split_first().map_or(("", &[][..]), |(first, others)| (first.as_str(), others));
        let mut all = definitions.blocks.list_blocks(first)?;
        for user in others {
            all.extend(definitions.blocks.list_own(user)?);
        }
        Ok::<_, AppError>(Json(BoundedList::of_items(all.into_iter())))
    });
    Ok(listed.await??)
}

/// Returns a block.
#[utoipa::path(get, path = "/api/blocks/{id}", operation_id = "agentflow_get_block", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path), UserQuery),
    responses((status = 200, description = "The block", body = Object), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_block(
    State(definitions): State<DefinitionStore>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
) -> ApiResult<Json<Value>> {
    Ok(Json(find_for_caller(&definitions, &caller, whose, &id).await?))
}

/// Returns the source of a block: its Python code or its prompt.
#[utoipa::path(get, path = "/api/blocks/{id}/source", operation_id = "agentflow_block_source", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path), UserQuery),
    responses((status = 200, description = "`{source, type}`", body = BlockSourceSchema), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_source(
    State(definitions): State<DefinitionStore>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
) -> ApiResult<Json<serde_json::Value>> {
    let block = find_for_caller(&definitions, &caller, whose, &id).await?;
    let written = |key: &str| block.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (written("source_code"), written("prompt_template")) {
        (Some(source), _) => Ok(Json(json!({"source": source, "type": "python"}))),
        (None, Some(prompt)) => Ok(Json(json!({"source": prompt, "type": "llm"}))),
        (None, None) => Err(Problem::new(Code::NotThere, format!("the block {id} has no source"))),
    }
}

/// Creates or replaces a block.
#[utoipa::path(post, path = "/api/blocks", operation_id = "agentflow_put_block", tag = "AgentFlow", security(("key" = ["write"])), params(UserQuery), request_body = Object,
    responses((status = 200, description = "`{status, block_id}`", body = StoredBlockSchema), (status = 400, body = ProblemDocument)))]
pub(crate) async fn put_block(
    State(definitions): State<DefinitionStore>,
    caller: Caller,
    QueryParams(whose): QueryParams<UserQuery>,
    JsonBody(block): JsonBody<Value>,
) -> ApiResult<Json<serde_json::Value>> {
    let Some(id) = block.get("id").and_then(Value::as_str).map(str::to_owned) else {
        caller.require_scope(Scope::Write)?;
        return Err(Problem::new(Code::RequestInvalid, "a block must have an id"));
    };
    let key = find_writable(&definitions, &caller, whose.user_id, &id).await?;
    parts::store_definition(&definitions, &caller, key, &block).await?;
    Ok(Json(json!({"status": "created", "block_id": id})))
}

/// Updates an existing block; updating a built-in block creates a block of the user that replaces it.
#[utoipa::path(put, path = "/api/blocks/{id}", operation_id = "agentflow_update_block", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = String, Path), UserQuery), request_body = Object,
    responses((status = 200, description = "The block", body = Object), (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument),
        (status = 422, description = "All problems of the block", body = ProblemDocument)))]
pub(crate) async fn update_block(
    State(definitions): State<DefinitionStore>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
    JsonBody(block): JsonBody<Value>,
) -> ApiResult<Json<Value>> {
    let key = find_writable(&definitions, &caller, whose.user_id, &id).await?;
    let user = key.user.clone();
    find_block(&definitions.blocks, user.clone(), &id).await?;
    parts::store_definition(&definitions, &caller, key, &block).await?;
    Ok(Json(find_block(&definitions.blocks, user, &id).await?))
}

/// Deletes a block. Fails while a pipeline uses it.
#[utoipa::path(delete, path = "/api/blocks/{id}", operation_id = "agentflow_delete_block", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = String, Path), UserQuery),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn delete_block(
    State(definitions): State<DefinitionStore>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
) -> ApiResult<StatusCode> {
    delete_definition(&definitions, find_writable(&definitions, &caller, whose.user_id, &id).await?, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A search of blocks.
#[derive(Deserialize, ToSchema)]
pub(crate) struct BlockSearchRequest {
    /// Description in a few words.
    query: String,
}

/// Returns up to ten blocks that match a description, best first.
#[utoipa::path(post, path = "/api/blocks/search", operation_id = "agentflow_search_blocks", tag = "AgentFlow", security(("key" = ["read"])), params(UserQuery), request_body = BlockSearchRequest,
    responses((status = 200, description = "A list of blocks", body = Vec<Object>)))]
pub(crate) async fn search_blocks(
    State(blocks): State<Arc<BlockRegistry>>,
    caller: Caller,
    QueryParams(whose): QueryParams<UserQuery>,
    JsonObject(search, _): JsonObject<BlockSearchRequest>,
) -> ApiResult<Json<Vec<Value>>> {
    caller.require_scope(Scope::Read)?;
    let finding = blocks.search_blocks(&caller.resolve_user(whose.user_id)?, &search.query, MAX_SEARCH_RESULTS).await?;
    Ok(Json(finding.matches.into_iter().map(|found| found.block).collect()))
}
