//! `/api/blocks`: the block registry.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flowloom_app::blocks::Registry;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::value::Value;
use flowloom_store::Kind;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::body::Body;
use crate::caller::Caller;
use crate::definitions::change::{changeable, delete};
use crate::definitions::parts;
use crate::params::At;
use crate::problem::{Answer, Document, Problem};
use crate::state::Server;

/// Maximum number of blocks that a search returns.
const FOUND: usize = 10;

async fn one(server: &Server, caller: &Caller, id: &str) -> Answer<Value> {
    caller.may(Scope::Read)?;
    find(server, caller.acts_for(None)?, id).await
}

async fn find(server: &Server, holder: String, id: &str) -> Answer<Value> {
    let (shared, wanted) = (server.clone(), id.to_owned());
    let found = crate::blocking::blocking(move || shared.app.blocks.get(&holder, &wanted)).await??;
    found.ok_or_else(|| Problem::new(Code::NotThere, format!("Block not found: {id}")))
}

/// Lists all blocks.
#[utoipa::path(get, path = "/api/blocks", operation_id = "agentflow_list_blocks", tag = "AgentFlow", security(("key" = ["read"])), responses((status = 200, description = "A list of blocks")))]
pub(crate) async fn list(State(blocks): State<Arc<Registry>>, caller: Caller) -> Answer<Json<Vec<Value>>> {
    caller.may(Scope::Read)?;
    let holder = caller.acts_for(None)?;
    Ok(Json(crate::blocking::blocking(move || blocks.list(&holder)).await??))
}

/// Returns a block.
#[utoipa::path(get, path = "/api/blocks/{id}", operation_id = "agentflow_get_block", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "The block"), (status = 404, body = Document)))]
pub(crate) async fn get(State(server): State<Server>, caller: Caller, At(id): At<String>) -> Answer<Json<Value>> {
    Ok(Json(one(&server, &caller, &id).await?))
}

/// Returns the source of a block: its Python code or its prompt.
#[utoipa::path(get, path = "/api/blocks/{id}/source", operation_id = "agentflow_block_source", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "`{source, type}`"), (status = 404, body = Document)))]
pub(crate) async fn source(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<Json<serde_json::Value>> {
    let block = one(&server, &caller, &id).await?;
    let written = |key: &str| block.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (written("source_code"), written("prompt_template")) {
        (Some(source), _) => Ok(Json(json!({"source": source, "type": "python"}))),
        (None, Some(prompt)) => Ok(Json(json!({"source": prompt, "type": "llm"}))),
        (None, None) => Err(Problem::new(Code::NotThere, format!("the block {id} has no source"))),
    }
}

/// Creates or replaces a block.
#[utoipa::path(post, path = "/api/blocks", operation_id = "agentflow_put_block", tag = "AgentFlow", security(("key" = ["write"])), request_body = Object,
    responses((status = 200, description = "`{status, block_id}`"), (status = 400, body = Document)))]
pub(crate) async fn put(
    State(server): State<Server>,
    caller: Caller,
    Body(block, _): Body<Value>,
) -> Answer<Json<serde_json::Value>> {
    let Some(id) = block.get("id").and_then(Value::as_str).map(str::to_owned) else {
        caller.may(Scope::Write)?;
        return Err(Problem::new(Code::RequestInvalid, "a block must have an id"));
    };
    parts::keep(&server, changeable(&caller, None, Kind::Block, &id)?, &block).await?;
    Ok(Json(json!({"status": "created", "block_id": id})))
}

/// Updates an existing block; updating a built-in block creates a block of the user that replaces it.
#[utoipa::path(put, path = "/api/blocks/{id}", operation_id = "agentflow_update_block", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = String, Path)), request_body = Object,
    responses((status = 200, description = "The block"), (status = 400, body = Document), (status = 404, body = Document),
        (status = 422, description = "All problems of the block", body = Document)))]
pub(crate) async fn update(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
    Body(block, _): Body<Value>,
) -> Answer<Json<Value>> {
    let key = changeable(&caller, None, Kind::Block, &id)?;
    let holder = key.holder.clone();
    find(&server, holder.clone(), &id).await?;
    parts::keep(&server, key, &block).await?;
    Ok(Json(find(&server, holder, &id).await?))
}

/// Deletes a block. Fails while a pipeline uses it.
#[utoipa::path(delete, path = "/api/blocks/{id}", operation_id = "agentflow_delete_block", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = String, Path)),
    responses((status = 204, description = "Deleted"), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn remove(State(server): State<Server>, caller: Caller, At(id): At<String>) -> Answer<StatusCode> {
    delete(&server, changeable(&caller, None, Kind::Block, &id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A search of blocks.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Search {
    /// Description in a few words.
    query: String,
}

/// Returns up to ten blocks that match a description, best first.
#[utoipa::path(post, path = "/api/blocks/search", operation_id = "agentflow_search_blocks", tag = "AgentFlow", security(("key" = ["read"])), request_body = Search,
    responses((status = 200, description = "A list of blocks")))]
pub(crate) async fn search(
    State(blocks): State<Arc<Registry>>,
    caller: Caller,
    Body(search, _): Body<Search>,
) -> Answer<Json<Vec<Value>>> {
    caller.may(Scope::Read)?;
    let finding = blocks.search(&caller.acts_for(None)?, &search.query, FOUND).await?;
    Ok(Json(finding.found.into_iter().map(|found| found.block).collect()))
}
