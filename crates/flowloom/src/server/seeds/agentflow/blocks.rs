//! `/api/blocks`: the blocks that pipelines are made of.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flowloom_core::code::Code;
use flowloom_formats::pipeline::built_in;
use flowloom_store::Kind;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::definitions;
use crate::server::Server;
use crate::server::body::Body;
use crate::server::definitions::{changeable, delete, parts};
use crate::server::keys::{Caller, Scope};
use crate::server::params::At;
use crate::server::problem::{Answer, Document, Problem};

/// Blocks that a search gives at most.
const FOUND: usize = 10;

/// Every block that the user has: their own, everyone's, and those that are built in.
async fn all(server: &Arc<Server>, holder: String) -> Answer<Vec<Value>> {
    let shared = server.clone();
    let kept = crate::server::blocking(move || definitions::list(&shared.app.store, &holder, Kind::Block)).await??;
    let kept: Vec<Value> = kept.iter().filter_map(|row| serde_json::from_str(&row.content).ok()).collect();
    let own = |block: &Value| kept.iter().any(|kept| kept["id"] == block["id"]);
    let built_in = built_in().iter().filter_map(|block| serde_json::to_value(block).ok()).collect::<Vec<_>>();
    let mut all: Vec<Value> = built_in.into_iter().filter(|block| !own(block)).collect();
    all.extend(kept);
    Ok(all)
}

async fn one(server: &Arc<Server>, caller: &Caller, id: &str) -> Answer<Value> {
    caller.may(Scope::Read)?;
    let found = all(server, caller.acts_for(None)?).await?.into_iter().find(|block| block["id"] == *id);
    found.ok_or_else(|| Problem::new(Code::NotThere, format!("Block not found: {id}")))
}

/// Every block.
#[utoipa::path(get, path = "/api/blocks", operation_id = "agentflow_list_blocks", tag = "AgentFlow", security(("key" = ["read"])), responses((status = 200, description = "A list of blocks")))]
pub(crate) async fn list(State(server): State<Arc<Server>>, caller: Caller) -> Answer<Json<Vec<Value>>> {
    caller.may(Scope::Read)?;
    Ok(Json(all(&server, caller.acts_for(None)?).await?))
}

/// One block.
#[utoipa::path(get, path = "/api/blocks/{id}", operation_id = "agentflow_get_block", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "The block"), (status = 404, body = Document)))]
pub(crate) async fn get(State(server): State<Arc<Server>>, caller: Caller, At(id): At<String>) -> Answer<Json<Value>> {
    Ok(Json(one(&server, &caller, &id).await?))
}

/// What a block does: its Python, or its prompt.
#[utoipa::path(get, path = "/api/blocks/{id}/source", operation_id = "agentflow_block_source", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "`{source, type}`"), (status = 404, body = Document)))]
pub(crate) async fn source(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<Json<Value>> {
    let block = one(&server, &caller, &id).await?;
    let written = |key: &str| block[key].as_str().filter(|text| !text.is_empty());
    match (written("source_code"), written("prompt_template")) {
        (Some(source), _) => Ok(Json(json!({"source": source, "type": "python"}))),
        (None, Some(prompt)) => Ok(Json(json!({"source": prompt, "type": "llm"}))),
        (None, None) => Err(Problem::new(Code::NotThere, format!("the block {id} has no source"))),
    }
}

/// Puts a block in the place of the one with its id.
#[utoipa::path(post, path = "/api/blocks", operation_id = "agentflow_put_block", tag = "AgentFlow", security(("key" = ["write"])), request_body = Object,
    responses((status = 200, description = "`{status, block_id}`"), (status = 400, body = Document)))]
pub(crate) async fn put(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Body(block, _): Body<Value>,
) -> Answer<Json<Value>> {
    let Some(id) = block["id"].as_str().map(str::to_owned) else {
        caller.may(Scope::Write)?;
        return Err(Problem::new(Code::RequestInvalid, "a block has an id"));
    };
    parts::keep(&server, changeable(&caller, None, Kind::Block, &id)?, &block).await?;
    Ok(Json(json!({"status": "created", "block_id": id})))
}

/// Takes a block away; refused while a pipeline needs it.
#[utoipa::path(delete, path = "/api/blocks/{id}", operation_id = "agentflow_delete_block", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = String, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn remove(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<StatusCode> {
    delete(&server, changeable(&caller, None, Kind::Block, &id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is looked for.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Search {
    /// Words.
    query: String,
}

/// The blocks that fit words best, ten at most.
#[utoipa::path(post, path = "/api/blocks/search", operation_id = "agentflow_search_blocks", tag = "AgentFlow", security(("key" = ["read"])), request_body = Search,
    responses((status = 200, description = "A list of blocks")))]
pub(crate) async fn search(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Body(search, _): Body<Search>,
) -> Answer<Json<Vec<Value>>> {
    caller.may(Scope::Read)?;
    let words: Vec<String> = search.query.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let mut ranked: Vec<(usize, Value)> =
        all(&server, caller.acts_for(None)?).await?.into_iter().map(|block| (fits(&block, &words), block)).collect();
    ranked.retain(|(count, _)| *count > 0);
    // Blocks that fit as well stay in their order.
    ranked.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    Ok(Json(ranked.into_iter().take(FOUND).map(|(_, block)| block).collect()))
}

/// How many of the words a block's id, name, description, use and tags have.
fn fits(block: &Value, words: &[String]) -> usize {
    let texts = ["id", "name", "description", "use_when"].iter().filter_map(|key| block[*key].as_str());
    let tags = block["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let text = texts.chain(tags).collect::<Vec<_>>().join("\n").to_lowercase();
    words.iter().filter(|word| text.contains(word.as_str())).count()
}
