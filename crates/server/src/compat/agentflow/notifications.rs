//! `/api/notifications`: notifications from runs to their users.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::keys::Scope;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{NotificationRow, Store};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::wire::{ListQuery, format_time};
use crate::blocking::run_blocking;
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// A notification from a run to its user.
#[derive(Serialize, ToSchema)]
pub(crate) struct Notification {
    id: i64,
    user_id: String,
    title: String,
    body: String,
    /// Whether it was marked as read.
    read: bool,
    /// Data that the run added.
    metadata: Value,
    /// In RFC 3339.
    created_at: String,
}

impl From<NotificationRow> for Notification {
    fn from(row: NotificationRow) -> Notification {
        Notification {
            id: row.id,
            user_id: row.user,
            title: row.title,
            body: row.body,
            read: row.is_read,
            metadata: serde_json::from_str(&row.metadata).unwrap_or_default(),
            created_at: format_time(row.at),
        }
    }
}

/// A notification that was marked as read.
#[derive(Serialize, ToSchema)]
pub(crate) struct MarkedNotification {
    /// `read`.
    status: &'static str,
    id: i64,
}

async fn list_all(store: Arc<Store>, caller: Caller, query: ListQuery) -> ApiResult<Json<BoundedList>> {
    caller.require_scope(Scope::Read)?;
    let limit = query.clamp_limit();
    let user = query.select_user(&caller)?;
    let list = move || {
        let rows = store.list_notifications(user.as_deref(), limit)?;
        Ok(Json(BoundedList::of_items(rows.into_iter().map(Notification::from))))
    };
    run_blocking(list).await?
}

async fn mark_read(store: &Arc<Store>, caller: &Caller, id: i64) -> ApiResult<Json<MarkedNotification>> {
    caller.require_scope(Scope::Write)?;
    store.mark_notification_read(caller.user.as_deref(), id, SystemClock.now_ms()).await?;
    Ok(Json(MarkedNotification { status: "read", id }))
}

/// Lists notifications, newest first. Large values are shortened; the route of a single notification has them whole.
#[utoipa::path(get, path = "/api/notifications", operation_id = "agentflow_notifications", tag = "AgentFlow", security(("key" = ["read"])), params(ListQuery),
    responses((status = 200, description = "The notifications", body = Vec<Notification>)))]
pub(crate) async fn list_notifications(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(query): QueryParams<ListQuery>,
) -> ApiResult<Json<BoundedList>> {
    list_all(store, caller, query).await
}

/// Marks a notification as read.
#[utoipa::path(post, path = "/api/notifications/{id}/read", operation_id = "agentflow_read_notification", tag = "AgentFlow", security(("key" = ["write"])), params(("id" = i64, Path)),
    responses((status = 200, description = "The notification was marked", body = MarkedNotification), (status = 404, body = ProblemDocument)))]
pub(crate) async fn read_notification(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<i64>,
) -> ApiResult<Json<MarkedNotification>> {
    mark_read(&store, &caller, id).await
}

/// Same as `/api/notifications`.
#[utoipa::path(get, path = "/api/v1/notifications", operation_id = "list_notifications", tag = "notifications", security(("key" = ["read"])), params(ListQuery),
    responses((status = 200, description = "The notifications", body = Vec<Notification>)))]
pub(crate) async fn list_native(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(query): QueryParams<ListQuery>,
) -> ApiResult<Json<BoundedList>> {
    list_all(store, caller, query).await
}

/// Returns a notification.
#[utoipa::path(get, path = "/api/v1/notifications/{id}", operation_id = "get_notification", tag = "notifications", security(("key" = ["read"])), params(("id" = i64, Path)),
    responses((status = 200, body = Notification), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_native(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<i64>,
) -> ApiResult<Json<Notification>> {
    caller.require_scope(Scope::Read)?;
    let row = run_blocking(move || store.find_notification(caller.user.as_deref(), id)).await??;
    row.map(|row| Json(row.into())).ok_or_else(|| Problem::not_found("notification", &id.to_string()))
}

/// Same as `/api/notifications/{id}/read`.
#[utoipa::path(post, path = "/api/v1/notifications/{id}/read", operation_id = "read_notification", tag = "notifications", security(("key" = ["write"])), params(("id" = i64, Path)),
    responses((status = 200, description = "The notification was marked", body = MarkedNotification), (status = 404, body = ProblemDocument)))]
pub(crate) async fn read_native(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<i64>,
) -> ApiResult<Json<MarkedNotification>> {
    mark_read(&store, &caller, id).await
}
