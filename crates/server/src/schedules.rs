//! `/api/v1/schedules`: manages schedules.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flowloom_app::keys::Scope;
use flowloom_app::schedules;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use flowloom_store::{ScheduleKey, ScheduleRow, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::run_blocking;
use crate::body::JsonObject;
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::definitions::change::{OwnerQuery, writable_user};
use crate::params::{PathParam, QueryParams, check_limit};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::start::find_definition;
use crate::state::{RunHost, Server};

/// The routes of schedules.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(list_schedules))
        .routes(routes!(get_schedule, put_schedule, delete_schedule))
        .routes(routes!(pause_schedule))
        .routes(routes!(resume_schedule))
}

/// The settings of a schedule.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleRequest {
    /// Id of the workflow to run.
    workflow: String,
    /// Cron expression such as `0 6 * * 1-5`, at most 255 bytes; a sixth, leading field means seconds.
    cron: String,
    /// IANA time zone of the expression, for example `Europe/Berlin`; UTC if unset.
    #[serde(default)]
    timezone: Option<String>,
    /// Inputs of the runs, at most 64 KiB.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    inputs: Option<Value>,
    /// Policy for times missed while no server was running: `once` (default; one run replaces all missed ones) or
    /// `skip`.
    #[serde(default)]
    missed: MissedPolicy,
    /// What happens at a time at which the last run has not ended: `allow` (default; another run starts) or `skip`. A run that
    /// waits for a person has not ended.
    #[serde(default)]
    overlap: OverlapPolicy,
}

/// Policy for times at which the last run has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OverlapPolicy {
    /// Start another run
    #[default]
    Allow,
    /// Start no run
    Skip,
}

/// Policy for missed times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissedPolicy {
    /// Start one run for all missed times
    #[default]
    Once,
    /// Skip missed times
    Skip,
}

/// A schedule.
#[derive(Serialize, ToSchema)]
pub struct Schedule {
    id: String,
    user: String,
    workflow: String,
    cron: String,
    timezone: String,
    /// In a list, inputs of more than 4 KiB are `null`.
    #[schema(value_type = serde_json::Value)]
    inputs: Value,
    missed: MissedPolicy,
    overlap: OverlapPolicy,
    /// Whether it starts no runs for now.
    paused: bool,
    /// Next due time in milliseconds since the Unix epoch.
    next_at: u64,
    /// Last due time in milliseconds since the Unix epoch.
    last_at: Option<u64>,
    /// Id of the run started at that time.
    last_run: Option<String>,
    /// Why no run was started at that time.
    last_error: Option<String>,
    /// Number of due times that have passed without a run of their own.
    skipped: u64,
}

impl Schedule {
    /// The schedule of a row.
    pub fn from_row(row: ScheduleRow) -> Schedule {
        Schedule {
            inputs: parse_value(&row.inputs).unwrap_or_default(),
            missed: if row.catches_up { MissedPolicy::Once } else { MissedPolicy::Skip },
            overlap: if row.allows_overlap { OverlapPolicy::Allow } else { OverlapPolicy::Skip },
            paused: row.is_paused,
            id: row.id,
            user: row.user,
            workflow: row.workflow,
            cron: row.cron,
            timezone: row.timezone,
            next_at: row.next_at,
            last_at: row.last_at,
            last_run: row.last_run,
            last_error: row.last_error,
            skipped: row.skipped,
        }
    }
}

/// A page of schedules, sorted by id.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleList {
    #[schema(value_type = Vec<Schedule>)]
    items: BoundedList,
    /// Cursor of the next page; null on the last page.
    next: Option<String>,
}

/// Default and maximum number of schedules of a page.
const MAX_PAGE_SCHEDULES: u32 = 1000;

/// A page of a list of schedules.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ScheduleQuery {
    /// Only schedules of this user. A key that belongs to a user determines the user itself.
    #[serde(default)]
    user: Option<String>,
    /// The value of `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Maximum number of schedules (1 to 1000; default 1000).
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// The schedule that a cursor names.
fn parse_cursor(cursor: &str) -> ApiResult<ScheduleKey> {
    let key = cursor.split_once('/').map(|(id, user)| ScheduleKey { id: id.to_owned(), user: user.to_owned() });
    key.ok_or_else(|| Problem::new(Code::RequestInvalid, "invalid cursor"))
}

/// Lists schedules.
#[utoipa::path(get, path = "/api/v1/schedules", operation_id = "list_schedules", tag = "schedules", security(("key" = ["read"])), params(ScheduleQuery), responses((status = 200, body = ScheduleList)))]
pub(crate) async fn list_schedules(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(page): QueryParams<ScheduleQuery>,
) -> ApiResult<Json<ScheduleList>> {
    caller.require_scope(Scope::Read)?;
    let limit = check_limit(page.limit, MAX_PAGE_SCHEDULES, MAX_PAGE_SCHEDULES)?;
    let last = page.cursor.as_deref().map(parse_cursor).transpose()?;
    let user = caller.select_user(page.user)?;
    let list = move || {
        let mut rows = store.list_schedules_after(user.as_deref(), last.as_ref(), limit + 1)?;
        let has_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next = rows.last().filter(|_| has_more).map(|row| format!("{}/{}", row.id, row.user));
        Ok(Json(ScheduleList { items: BoundedList::of_items(rows.into_iter().map(Schedule::from_row)), next }))
    };
    run_blocking(list).await?
}

/// Returns a schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{id}", operation_id = "get_schedule", tag = "schedules", security(("key" = ["read"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 200, body = Schedule), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_schedule(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<Schedule>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    Ok(Json(Schedule::from_row(run_blocking(move || schedules::find_schedule(&store, &user, &id)).await??)))
}

/// Creates or replaces the schedule with this id. Its workflow must be able to start with its inputs.
#[utoipa::path(put, path = "/api/v1/schedules/{id}", operation_id = "put_schedule", tag = "schedules", security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery), request_body = ScheduleRequest,
    responses((status = 200, body = Schedule), (status = 404, description = "The workflow does not exist", body = ProblemDocument), (status = 422, description = "The workflow has errors, its inputs do not fit, or the times are wrong", body = ProblemDocument)))]
pub(crate) async fn put_schedule(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonObject(new, _): JsonObject<ScheduleRequest>,
) -> ApiResult<Json<Schedule>> {
    let user = writable_user(&caller, whose.user, &id)?;
    let definition = find_definition(&host, &user, &new.workflow).await?;
    let inputs = new.inputs.unwrap_or_else(|| definition.no_inputs());
    definition.check_start(&inputs)?;
    let schedule = schedules::NewSchedule {
        user,
        id,
        workflow: new.workflow,
        inputs,
        cron: new.cron,
        timezone: new.timezone,
        catches_up: new.missed == MissedPolicy::Once,
        allows_overlap: new.overlap == OverlapPolicy::Allow,
    };
    Ok(Json(Schedule::from_row(schedules::put_schedule(&host.app.store, schedule, &caller.to_actor()).await?)))
}

/// Pauses a schedule: it starts no runs until it is resumed. Its runs continue.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/pause", operation_id = "pause_schedule", tag = "schedules", security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 200, body = Schedule), (status = 404, body = ProblemDocument)))]
pub(crate) async fn pause_schedule(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<Schedule>> {
    caller.require_scope(Scope::Write)?;
    let row = schedules::pause_schedule(&store, &caller.resolve_user(whose.user)?, &id, &caller.to_actor()).await?;
    Ok(Json(Schedule::from_row(row)))
}

/// Resumes a schedule that was paused. Due times that passed while it was paused are not made up for.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/resume", operation_id = "resume_schedule", tag = "schedules", security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 200, body = Schedule), (status = 404, body = ProblemDocument)))]
pub(crate) async fn resume_schedule(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<Schedule>> {
    caller.require_scope(Scope::Write)?;
    let row = schedules::resume_schedule(&store, &caller.resolve_user(whose.user)?, &id, &caller.to_actor()).await?;
    Ok(Json(Schedule::from_row(row)))
}

/// Deletes a schedule. Its runs continue.
#[utoipa::path(delete, path = "/api/v1/schedules/{id}", operation_id = "delete_schedule", tag = "schedules", security(("key" = ["write"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument)))]
pub(crate) async fn delete_schedule(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<StatusCode> {
    let user = writable_user(&caller, whose.user, &id)?;
    store.delete_schedule(&user, &id, &caller.to_actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}
