//! `/api/memory/{user_id}` and `/api/v1/memory/{user}`: the memory of a user.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flowloom_app::config::Config;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::event::MemoryWrite;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{PersonalWrites, Store};

use crate::blocking::run_reading;
use crate::body::JsonBody;
use crate::caller::Caller;
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 1024;

/// Returns the user if the caller may access them. Names with control characters are reserved for internal use.
fn resolve_user(caller: &Caller, named: String) -> ApiResult<String> {
    match named.chars().any(char::is_control) {
        true => Err(Problem::not_found("user", &named.escape_default().to_string())),
        false => caller.resolve_user(Some(named)),
    }
}

async fn read_all(store: &Arc<Store>, caller: &Caller, named: String) -> ApiResult<Json<Value>> {
    caller.require_scope(Scope::Read)?;
    Ok(Json(read_memories(store, resolve_user(caller, named)?).await?.into()))
}

async fn read_memories(store: &Arc<Store>, user: String) -> ApiResult<Map> {
    let store = store.clone();
    run_reading(async move || Ok(store.read_memories(&store.owner_of(&user)).await?)).await
}

/// Returns a user's memory as an object.
#[utoipa::path(get, path = "/api/memory/{user_id}", operation_id = "agentflow_memory", tag = "AgentFlow", security(("key" = ["read"])), params(("user_id" = String, Path)),
    responses((status = 200, description = "An object", body = Object), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_memory(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(user_id): PathParam<String>,
) -> ApiResult<Json<Value>> {
    read_all(&store, &caller, user_id).await
}

/// Returns a user's memory as an object.
#[utoipa::path(get, path = "/api/v1/memory/{user}", operation_id = "get_memory", tag = "memory", security(("key" = ["read"])), params(("user" = String, Path)),
    responses((status = 200, description = "An object", body = Object), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_native(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(user): PathParam<String>,
) -> ApiResult<Json<Value>> {
    read_all(&store, &caller, user).await
}

/// Replaces a user's memory by an object. Keys that are missing from it are deleted.
#[utoipa::path(put, path = "/api/memory/{user_id}", operation_id = "agentflow_replace_memory", tag = "AgentFlow", security(("key" = ["write"])), params(("user_id" = String, Path)),
    request_body = Object, responses((status = 204, description = "Stored"), (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument)))]
pub(crate) async fn replace_memory(
    State(store): State<Arc<Store>>,
    State(config): State<Arc<Config>>,
    caller: Caller,
    PathParam(user_id): PathParam<String>,
    JsonBody(memory): JsonBody<Value>,
) -> ApiResult<StatusCode> {
    replace_all(&store, &config, &caller, user_id, &memory).await
}

/// Same as `PUT /api/memory/{user_id}`.
#[utoipa::path(put, path = "/api/v1/memory/{user}", operation_id = "replace_memory", tag = "memory", security(("key" = ["write"])), params(("user" = String, Path)),
    request_body = Object, responses((status = 204, description = "Stored"), (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument)))]
pub(crate) async fn replace_native(
    State(store): State<Arc<Store>>,
    State(config): State<Arc<Config>>,
    caller: Caller,
    PathParam(user): PathParam<String>,
    JsonBody(memory): JsonBody<Value>,
) -> ApiResult<StatusCode> {
    replace_all(&store, &config, &caller, user, &memory).await
}

/// Same as `PUT /api/v1/memory/{user}/{key}`.
#[utoipa::path(put, path = "/api/memory/{user_id}/{key}", operation_id = "agentflow_put_memory", tag = "AgentFlow", security(("key" = ["write"])), params(("user_id" = String, Path), ("key" = String, Path)),
    request_body = serde_json::Value, responses((status = 204, description = "Stored"), (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument)))]
pub(crate) async fn put_one(
    State(store): State<Arc<Store>>,
    State(config): State<Arc<Config>>,
    caller: Caller,
    PathParam((named, key)): PathParam<(String, String)>,
    JsonBody(value): JsonBody<Value>,
) -> ApiResult<StatusCode> {
    write_keys(&store, &config, &caller, named, vec![MemoryWrite { key, value: Some(value) }]).await
}

/// Same as `DELETE /api/v1/memory/{user}/{key}`.
#[utoipa::path(delete, path = "/api/memory/{user_id}/{key}", operation_id = "agentflow_delete_memory", tag = "AgentFlow", security(("key" = ["write"])), params(("user_id" = String, Path), ("key" = String, Path)),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument)))]
pub(crate) async fn remove_one(
    State(store): State<Arc<Store>>,
    State(config): State<Arc<Config>>,
    caller: Caller,
    PathParam((named, key)): PathParam<(String, String)>,
) -> ApiResult<StatusCode> {
    delete_key(&store, &config, &caller, named, key).await
}

/// Stores a value, any JSON, under a key.
#[utoipa::path(put, path = "/api/v1/memory/{user}/{key}", operation_id = "put_memory", tag = "memory", security(("key" = ["write"])), params(("user" = String, Path), ("key" = String, Path)),
    request_body = serde_json::Value, responses((status = 204, description = "Stored"), (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument)))]
pub(crate) async fn put_native(
    State(store): State<Arc<Store>>,
    State(config): State<Arc<Config>>,
    caller: Caller,
    PathParam((named, key)): PathParam<(String, String)>,
    JsonBody(value): JsonBody<Value>,
) -> ApiResult<StatusCode> {
    write_keys(&store, &config, &caller, named, vec![MemoryWrite { key, value: Some(value) }]).await
}

/// Deletes a key.
#[utoipa::path(delete, path = "/api/v1/memory/{user}/{key}", operation_id = "delete_memory", tag = "memory", security(("key" = ["write"])), params(("user" = String, Path), ("key" = String, Path)),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument)))]
pub(crate) async fn remove_native(
    State(store): State<Arc<Store>>,
    State(config): State<Arc<Config>>,
    caller: Caller,
    PathParam((named, key)): PathParam<(String, String)>,
) -> ApiResult<StatusCode> {
    delete_key(&store, &config, &caller, named, key).await
}

async fn delete_key(
    store: &Arc<Store>,
    config: &Config,
    caller: &Caller,
    named: String,
    key: String,
) -> ApiResult<StatusCode> {
    caller.require_scope(Scope::Write)?;
    let user = resolve_user(caller, named.clone())?;
    if !read_memories(store, user).await?.contains_key(key.as_str()) {
        return Err(Problem::not_found("memory", &key));
    }
    write_keys(store, config, caller, named, vec![MemoryWrite { key, value: None }]).await
}

async fn replace_all(
    store: &Arc<Store>,
    config: &Config,
    caller: &Caller,
    named: String,
    memory: &Value,
) -> ApiResult<StatusCode> {
    caller.require_scope(Scope::Write)?;
    let user = resolve_user(caller, named.clone())?;
    let Some(map) = memory.as_map() else {
        return Err(Problem::new(
            Code::RequestInvalid,
            format!("a memory must be an object, not {}", memory.kind_name()),
        ));
    };
    let before = read_memories(store, user).await?;
    let gone = before.keys().filter(|key| !map.contains_key(&**key));
    let mut writes: Vec<MemoryWrite> = gone.map(|key| MemoryWrite { key: key.to_string(), value: None }).collect();
    let memories = map.iter().map(|(key, value)| MemoryWrite { key: key.to_string(), value: Some(value.clone()) });
    writes.extend(memories);
    write_keys(store, config, caller, named, writes).await
}

/// Writes keys, all or none; other keys remain unchanged. Fails with `MemoryFull` if the memory would exceed its limit.
async fn write_keys(
    store: &Arc<Store>,
    config: &Config,
    caller: &Caller,
    named: String,
    writes: Vec<MemoryWrite>,
) -> ApiResult<StatusCode> {
    caller.require_scope(Scope::Write)?;
    if writes.iter().any(|write| write.key.len() > MAX_KEY_BYTES) {
        return Err(Problem::new(Code::RequestInvalid, format!("a key may have at most {MAX_KEY_BYTES} bytes")));
    }
    if writes.iter().any(|write| write.key.contains('\0')) {
        return Err(Problem::new(Code::RequestInvalid, "a key cannot contain a null character"));
    }
    let user = resolve_user(caller, named)?;
    let limit_bytes = Some(store.quotas().find_memory_limit(&user, config.limits.memory_bytes));
    let written = PersonalWrites { user, is_profile: false, writes, limit_bytes };
    store.write_memory_as(written, &caller.to_actor(), SystemClock.now_ms()).await?;
    Ok(StatusCode::NO_CONTENT)
}
