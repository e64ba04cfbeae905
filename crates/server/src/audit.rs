//! `GET /api/v1/audit`: who changed keys, definitions, memory and secret bindings.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_store::{AuditFilter, AuditRow, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::run_blocking;
use crate::caller::Caller;
use crate::params::{QueryParams, check_limit};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::state::Server;

/// Maximum number of entries per page.
const MAX_PAGE_ENTRIES: u32 = 200;
/// Default number of entries per page.
const DEFAULT_PAGE_ENTRIES: u32 = 50;

/// The route of the audit log.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_audit))
}

/// Filter of the audit log.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only changes of objects of this user.
    #[serde(default)]
    user: Option<String>,
    /// Only changes since this time, in milliseconds since the Unix epoch.
    #[serde(default)]
    since: Option<u64>,
    /// The value of `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Maximum number of entries (1 to 200; default 50).
    #[serde(default)]
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

/// A page of the audit log, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditPage {
    items: Vec<AuditEntry>,
    /// Cursor of the next page; null on the last page.
    next: Option<String>,
}

/// A recorded change.
#[derive(Serialize, ToSchema)]
pub struct AuditEntry {
    /// Number of the entry.
    number: u64,
    /// Time of the change, in milliseconds since the Unix epoch.
    at: u64,
    /// Who made the change.
    by: AuditActor,
    /// What was done: `key.create`, `key.rotate`, `key.revoke`, `definition.put`, `definition.delete`, `memory.write` or
    /// `secrets.bind`.
    action: String,
    /// User who owns the object; null if no user owns it.
    user: Option<String>,
    /// The object, for example `workflow orders`.
    object: String,
    /// Further facts, for example the bindings of the secrets.
    #[schema(value_type = Option<Object>)]
    detail: Option<serde_json::Value>,
    /// `done`, `created`, `updated` or `deleted`; or the error code with which the change was refused.
    result: String,
}

/// The actor of a change.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditActor {
    /// Id of the API key; null for the operator and for runs.
    key_id: Option<String>,
    /// Name of the API key.
    key_name: Option<String>,
    /// User of the key or of the run; null for the operator.
    user: Option<String>,
    /// `command line`, `server`, `run` and its id, or the address of the client.
    source: String,
}

impl AuditEntry {
    /// The entry of a row.
    pub fn from_row(row: AuditRow) -> AuditEntry {
        let AuditRow { number, at, actor, action, user, object, detail, result } = row;
        let detail = detail.and_then(|text| serde_json::from_str(&text).ok());
        let flowloom_store::Actor { key_id, key_name, user: actor_user, source } = actor;
        let by = AuditActor { key_id, key_name, user: actor_user, source };
        AuditEntry { number, at, by, action, user, object, detail, result }
    }
}

/// Lists recorded changes, newest first. A key of a user sees the changes of the user's own objects. A key without a user
/// sees all and needs the scope `admin`.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", operation_id = "list_audit", params(AuditQuery), security(("key" = ["read"])),
    responses((status = 200, description = "A page of changes", body = AuditPage), (status = 403, body = ProblemDocument), (status = 404, body = ProblemDocument)))]
pub(crate) async fn list_audit(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(query): QueryParams<AuditQuery>,
) -> ApiResult<Json<AuditPage>> {
    let user = match &caller.user {
        Some(_) => Some(caller.resolve_user(query.user)?),
        None => {
            caller.require_scope(Scope::Admin)?;
            query.user
        }
    };
    let limit = check_limit(query.limit, DEFAULT_PAGE_ENTRIES, MAX_PAGE_ENTRIES)?;
    let parse = |cursor: String| cursor.parse().map_err(|_| Problem::new(Code::RequestInvalid, "invalid cursor"));
    let before = query.cursor.map(parse).transpose()?;
    let filter = AuditFilter { user, since: query.since.unwrap_or_default(), before, limit: limit + 1 };
    let mut rows = run_blocking(move || store.list_audit(&filter)).await??;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| row.number.to_string());
    Ok(Json(AuditPage { items: rows.into_iter().map(AuditEntry::from_row).collect(), next }))
}
