//! `/api/v1/keys`: the API keys of the server, for administrators. A secret is part of one response only.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use flowloom_app::keys::{NewKey, Scope};
use flowloom_app::times::parse_expiry;
use flowloom_core::Hash;
use flowloom_core::code::Code;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{KeyRow, Store, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::run_blocking;
use crate::body::JsonObject;
use crate::caller::{Caller, check_named_user};
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::start::idempotency_key;
use crate::state::Server;

/// The routes of keys.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_keys, create_key)).routes(routes!(revoke_key))
}

/// The keys, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyList {
    items: Vec<KeyInfo>,
}

/// An API key, without its secret. Times are milliseconds since the Unix epoch.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyInfo {
    id: String,
    name: String,
    scopes: Vec<String>,
    /// The user for whom it acts; null for any.
    user: Option<String>,
    created_at: u64,
    revoked_at: Option<u64>,
    expires_at: Option<u64>,
    /// When it was last used, to the minute.
    last_used_at: Option<u64>,
    /// Until when the secret before the last rotation works.
    old_secret_until: Option<u64>,
    /// Whether the caller uses this key.
    is_own: bool,
}

/// The purpose of the requests in this file, for error messages.
const PURPOSE: &str = "manage keys";

/// Lists all keys, including revoked and expired ones.
#[utoipa::path(get, path = "/api/v1/keys", operation_id = "list_keys", tag = "keys", security(("key" = ["admin"])),
    responses((status = 200, description = "The keys", body = KeyList), (status = 403, body = ProblemDocument)))]
pub(crate) async fn list_keys(State(store): State<Arc<Store>>, caller: Caller) -> ApiResult<Json<KeyList>> {
    caller.require_scope_for_all(Scope::Admin, PURPOSE)?;
    let rows = run_blocking(move || store.list_keys()).await??;
    let own = caller.key.as_ref().map(|key| key.id().to_owned());
    let info = |row: KeyRow| KeyInfo {
        is_own: own.as_ref() == Some(&row.id),
        id: row.id,
        name: row.name,
        scopes: row.scopes.split(',').map(str::to_owned).collect(),
        user: row.user,
        created_at: row.created_at,
        revoked_at: row.revoked_at,
        expires_at: row.expires_at,
        last_used_at: row.last_used_at,
        old_secret_until: row.old_secret.map(|old| old.until),
    };
    Ok(Json(KeyList { items: rows.into_iter().map(info).collect() }))
}

/// A key to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateKeyRequest {
    /// The name of the key, for people.
    name: String,
    /// `read`, `run`, `write`, `admin`.
    #[schema(value_type = Vec<String>)]
    scopes: Vec<Scope>,
    /// The user for whom it acts; absent for any.
    #[serde(default)]
    user: Option<String>,
    /// When it expires: `90d`, `12h`, or a time such as `2027-01-31`. Absent for never.
    #[serde(default)]
    expires: Option<String>,
}

/// A new key with its secret, which no other response contains.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedKey {
    id: String,
    key: String,
}

/// Creates a key. The first key takes effect when the server is restarted.
#[utoipa::path(post, path = "/api/v1/keys", operation_id = "create_key", tag = "keys", security(("key" = ["admin"])), request_body = CreateKeyRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key create a single one; its secret is in the first response only")),
    responses((status = 201, description = "The key and its secret", body = CreatedKey), (status = 400, body = ProblemDocument), (status = 403, body = ProblemDocument),
        (status = 409, description = "A request with this Idempotency-Key has created a key already", body = ProblemDocument)))]
pub(crate) async fn create_key(
    State(store): State<Arc<Store>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(new, _): JsonObject<CreateKeyRequest>,
) -> ApiResult<(StatusCode, Json<CreatedKey>)> {
    caller.require_scope_for_all(Scope::Admin, PURPOSE)?;
    let user = new.user.as_deref().map(check_named_user).transpose()?;
    let now = SystemClock.now_ms();
    let invalid = |error: flowloom_app::times::InvalidTime| Problem::new(Code::RequestInvalid, error.to_string());
    let parse = |time: &str| parse_expiry(time, now).map_err(invalid);
    let expires_at = new.expires.as_deref().map(parse).transpose()?;
    let new = NewKey { name: new.name, scopes: new.scopes, user, expires_at };
    let (key, mut row) = new.create(now).map_err(|error| Problem::new(Code::RequestInvalid, error.to_string()))?;
    if let Some(repeated) = idempotency_key(&headers)? {
        row.id = derive_key_id(&caller, &repeated);
        refuse_repetition(store.clone(), row.id.clone()).await?;
    }
    let id = row.id.clone();
    store.put_key(row, &caller.to_actor()).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { id, key })))
}

/// The id of the key that a caller creates under an idempotency key: the same for each repetition.
fn derive_key_id(caller: &Caller, idempotency_key: &str) -> String {
    let creator = caller.key.as_ref().map(|key| key.id().to_owned()).unwrap_or_default();
    Hash::of_bytes(format!("api key {creator} {idempotency_key}").as_bytes()).to_string()
}

/// Fails with `KeyReused` if there is a key with this id, also a revoked one.
async fn refuse_repetition(store: Arc<Store>, id: String) -> ApiResult<()> {
    let wanted = id.clone();
    let is_there = run_blocking(move || Ok::<_, StoreError>(store.list_keys()?.iter().any(|row| row.id == wanted)));
    match is_there.await?? {
        false => Ok(()),
        true => {
            let message = format!(
                "a request with this Idempotency-Key has created the key {id} already, and only its response had the \
                 secret; revoke that key and create another"
            );
            Err(Problem::new(Code::KeyReused, message))
        }
    }
}

/// Revokes a key immediately. Streams that it opened end.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", operation_id = "revoke_key", tag = "keys", params(("id" = String, Path)), security(("key" = ["admin"])),
    responses((status = 204, description = "Revoked"), (status = 403, body = ProblemDocument), (status = 404, body = ProblemDocument)))]
pub(crate) async fn revoke_key(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<StatusCode> {
    caller.require_scope_for_all(Scope::Admin, PURPOSE)?;
    match store.revoke_key(&id, &caller.to_actor(), SystemClock.now_ms()).await {
        Err(StoreError::KeyNotFound(_)) => Err(Problem::not_found("key", &id)),
        revoked => Ok(revoked.map(|()| StatusCode::NO_CONTENT)?),
    }
}
