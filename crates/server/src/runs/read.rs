//! Routes that read runs: `GET /api/v1/runs`, one run, its events, and replay.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::keys::Scope;
use flowloom_app::runs::input_line::write_input_line;
use flowloom_app::runs::stored::{LoadedRun, StoredRuns};
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_store::{RunFilter, RunRow, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::blocking::run_blocking;
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams, check_limit};
use crate::problem::{ApiResult, Problem};
use crate::runs::answer::{find_own_run, read_own_run, summarize_stored};
use crate::runs::choice::RunChoice;
use crate::runs::events;
use crate::runs::run_schema::{RunSchema, RunUsage, TriggerSchema};
use crate::state::RunHost;
use crate::threads::{thread_key, thread_name};

/// Maximum number of runs per page.
const MAX_PAGE_RUNS: u32 = 200;
/// Default number of runs per page.
const DEFAULT_PAGE_RUNS: u32 = 50;

/// Filter of a list of runs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunQuery {
    /// Only runs with this status.
    #[serde(default)]
    status: Option<String>,
    /// Only runs of workflows with this name.
    #[serde(default)]
    name: Option<String>,
    /// Only runs of the workflow with this id, or in the file with this name.
    #[serde(default)]
    workflow: Option<String>,
    /// Only turns of the conversation with this name; needs `workflow`.
    #[serde(default)]
    thread: Option<String>,
    /// Only runs of workflows in this format.
    #[serde(default)]
    format: Option<String>,
    /// Only runs that were started through this interface, or by this schedule or webhook: `api`, `schedule`,
    /// `schedule:ID`, `webhook:ID`.
    #[serde(default)]
    trigger: Option<String>,
    /// Only runs that were started at this time or later, in milliseconds since the Unix epoch.
    #[serde(default)]
    since: Option<u64>,
    /// The value of `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Maximum number of runs (1 to 200; default 50).
    #[serde(default)]
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

/// A page of runs, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunPage {
    #[schema(value_type = Vec<RunItem>)]
    items: BoundedList,
    /// Cursor of the next page; null on the last page.
    next: Option<String>,
}

/// A run in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunItem {
    run_id: String,
    /// Id of the workflow, if it has one.
    workflow: Option<String>,
    name: String,
    format: String,
    status: String,
    /// Milliseconds since the Unix epoch.
    created_at: u64,
    finished_at: Option<u64>,
    /// Whether a live worker drives the run.
    is_driven: bool,
    /// Why no server continues the queued or interrupted run by itself.
    interruption: Option<String>,
    /// The run that it was forked from.
    forked_from: Option<String>,
    /// The trigger of the run; `null` for child runs and for runs of old versions.
    trigger: Option<TriggerSchema>,
    /// Name of the conversation of which it is a turn.
    thread: Option<String>,
    /// Its inputs in one line of at most 120 characters; `null` if it has none, or very large ones.
    input: Option<String>,
    /// Tokens and cost so far; `null` if it has called no model.
    usage: Option<RunUsage>,
}

/// Lists the caller's runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", operation_id = "list_runs", params(RunQuery),
    security(("key" = ["read"])), responses((status = 200, description = "A page of runs", body = RunPage)))]
pub(crate) async fn list_runs(
    State(runs): State<StoredRuns>,
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(filter): QueryParams<RunQuery>,
) -> ApiResult<Json<RunPage>> {
    caller.require_scope(Scope::Read)?;
    let limit = check_limit(filter.limit, DEFAULT_PAGE_RUNS, MAX_PAGE_RUNS)?;
    let before = match &filter.cursor {
        None => None,
        Some(cursor) => Some(RunId::parse(cursor).ok_or_else(|| Problem::new(Code::RequestInvalid, "invalid cursor"))?),
    };
    let choice = RunChoice { status: filter.status, workflow: filter.workflow, trigger: filter.trigger };
    let chosen = choice.build_filter(&caller, catalog).await?;
    let thread_key = match (&filter.thread, &chosen.workflow) {
        (None, _) => None,
        (Some(thread), Some(workflow)) => Some(thread_key(workflow, thread)),
        (Some(_), None) => return Err(Problem::new(Code::RequestInvalid, "thread needs workflow")),
    };
    let wanted = RunFilter {
        thread_key,
        name: filter.name,
        format: filter.format,
        before,
        since: filter.since,
        limit: limit + 1,
        ..chosen
    };
    let store = runs.store.clone();
    let (rows, has_more, inputs, usage) = run_blocking(move || {
        let mut rows = store.list_runs_matching(&wanted)?;
        let has_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let ids: Vec<RunId> = rows.iter().map(|row| row.id).collect();
        let inputs = store.read_short_inputs(&ids)?;
        let usage = store.read_run_usage(&rows)?;
        Ok::<_, StoreError>((rows, has_more, inputs, usage))
    })
    .await??;
    let next = rows.last().filter(|_| has_more).map(|row| row.id.to_string());
    let items = rows.into_iter().map(|row| {
        let input = inputs.get(&row.id).and_then(write_input_line);
        let used = usage.get(&row.id).map(RunUsage::from);
        RunItem { usage: used, ..to_item(&runs, row, input) }
    });
    Ok(Json(RunPage { items: BoundedList::of_items(items), next }))
}

fn to_item(runs: &StoredRuns, row: RunRow, input: Option<String>) -> RunItem {
    RunItem {
        input,
        usage: None,
        run_id: row.id.to_string(),
        status: row.current_status().to_owned(),
        interruption: runs.explain_listed(&row),
        workflow: row.workflow,
        name: row.name,
        format: row.format,
        created_at: row.created_at,
        finished_at: row.finished_at,
        is_driven: row.is_driven,
        forked_from: row.forked_from.map(|run| run.to_string()),
        trigger: row.trigger.map(TriggerSchema::from),
        thread: row.thread_key.as_deref().map(|key| thread_name(key).to_owned()),
    }
}

/// Returns a run: the object that `flowloom run --json` prints, and its steps.
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs", operation_id = "get_run", params(("id" = String, Path)),
    security(("key" = ["read"])), responses((status = 200, description = "The run", body = RunSchema), (status = 404, description = "The run does not exist, or belongs to another user")))]
pub(crate) async fn get_run(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let read = async |runs: &StoredRuns, opened: LoadedRun| Ok(summarize_stored(runs, &opened).await?.1);
    read_own_run(&runs, &caller, &id, read).await
}

/// The result of a replay.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayResult {
    /// Number of identical events.
    events: usize,
    status: &'static str,
}

/// Replays a run from its journal without performing effects, and checks for divergence.
#[utoipa::path(post, path = "/api/v1/runs/{id}/replay", tag = "runs", operation_id = "replay_run", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "The events are identical", body = ReplayResult), (status = 404, description = "The run does not exist, or belongs to another user"), (status = 409, description = "The replay diverged")))]
pub(crate) async fn replay_run(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<Json<ReplayResult>> {
    caller.require_scope(Scope::Read)?;
    let replay = async |runs: &StoredRuns, opened: LoadedRun| {
        let outcome = runs.engine_for_run(&opened)?.replay_run(opened.records, opened.plan).await?;
        Ok(Json(ReplayResult { events: outcome.records.len(), status: outcome.state.status.name() }))
    };
    read_own_run(&runs, &caller, &id, replay).await
}

/// Query parameters of following a run.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FollowQuery {
    /// Sequence number of the last event that the client has; `Last-Event-ID` takes precedence.
    #[serde(default)]
    from: u64,
    /// Whether streamed text of models is included.
    #[serde(default)]
    deltas: bool,
}

/// Streams the events of a run as server-sent events until it ends or waits.
#[utoipa::path(get, path = "/api/v1/runs/{id}/events", tag = "runs", operation_id = "follow_run",
    params(("id" = String, Path), FollowQuery, ("Last-Event-ID" = Option<u64>, Header, description = "Sequence number of the last event that the client has")),
    security(("key" = ["read"])),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 404, description = "The run does not exist, or belongs to another user")))]
pub(crate) async fn follow_run(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(from): QueryParams<FollowQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let run = find_own_run(&host.app.store, &caller, &id).await?;
    let last = events::read_last_event(&headers)?.unwrap_or(from.from);
    Ok(events::stream_run(host, run, last, from.deltas))
}
