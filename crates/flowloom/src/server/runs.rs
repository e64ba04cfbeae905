//! `/api/v1/runs`: starting runs, looking at them, and what gets them on.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::Resolution;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::path::Path as StepPath;
use flowloom_core::state::{Phase, RunState};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::Start;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::journal::Wish;
use flowloom_store::{RunFilter, Started};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::Body;
use super::keys::{Caller, Scope};
use super::problem::{Answer, Problem};
use super::{Server, events};
use crate::app::Opened;
use crate::inputs;
use crate::report;

/// Runs of one page at most, and when the call does not say.
const PAGE: u32 = 200;
const USUAL_PAGE: u32 = 50;

/// The longest time that a call waits for its run.
const WAIT: Duration = Duration::from_secs(600);

/// What is run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The id of a workflow.
    workflow: String,
    /// Its inputs, by name; a step list takes any value.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    inputs: Option<Box<serde_json::value::RawValue>>,
    /// The agent on whose behalf it runs.
    #[serde(default)]
    agent: Option<String>,
    /// Whose run it is, where the key does not say.
    #[serde(default)]
    user: Option<String>,
    /// Bounds, as `--budget` takes them: `tokens=2000,usd=0.05,steps=100,time=30s`.
    #[serde(default)]
    budget: Option<String>,
}

/// How a call waits.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waiting {
    /// Seconds that the call waits for the run to end; it goes on if it takes longer.
    #[serde(default)]
    wait: Option<f64>,
}

/// Starts a run. With `Accept: text/event-stream` its events are the answer.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", request_body = NewRun, params(Waiting,
    ("Idempotency-Key" = Option<String>, Header, description = "The same key and body start one run")),
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on, or waits"),
        (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn start(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
    Body(new, text): Body<NewRun>,
) -> Answer<Response> {
    caller.may(Scope::Run)?;
    server.live.admit()?;
    let owner = match (&caller.user, new.user.clone()) {
        (Some(user), Some(other)) if *user != other => return Err(Problem::not_there("user", &other)),
        (Some(user), _) => user.clone(),
        (None, other) => other.unwrap_or_else(|| "local".to_owned()),
    };
    let id = match headers.get("idempotency-key") {
        None => None,
        Some(key) => Some(once(&server, &owner, key.to_str().unwrap_or_default(), &text).await?),
    };
    let id = match id {
        // Started before by the same call.
        Some(id) if server.app.store.find(&id.to_string()).is_ok() => id,
        id => begin(&server, new, owner, id).await?,
    };
    answer(&server, id, waiting, &headers).await
}

/// The run of an Idempotency-Key.
async fn once(server: &Server, owner: &str, key: &str, text: &str) -> Answer<RunId> {
    let request = Hash::of(text.as_bytes()).to_string();
    let id = RunId(uuid::Uuid::now_v7());
    match server.app.store.start_once((owner, key), &request, id, SystemClock.now_ms()).await? {
        Started::Run(id) => Ok(id),
        Started::Other => Err(Problem::new(Code::KeyReused, "this Idempotency-Key was used for another call")),
    }
}

async fn begin(server: &Arc<Server>, new: NewRun, owner: String, id: Option<RunId>) -> Answer<RunId> {
    let (shared, name) = (server.clone(), new.workflow.clone());
    let found = super::blocking(move || shared.catalog.find(&name)).await?;
    let definition = found.ok_or_else(|| Problem::not_there("workflow", &new.workflow))?;
    let Some(prepared) = &definition.prepared else {
        let message = format!("the workflow {} has errors", definition.id);
        return Err(Problem::new(Code::StepRefused, message).with_errors(definition.problems.clone()));
    };
    let mut limits = server.app.config.limits.within(&prepared.plan.limits);
    if let Some(budget) = &new.budget {
        inputs::budget(budget, &mut limits).map_err(|failure| Problem::from(failure.error))?;
    }
    let given = match &new.inputs {
        None => Map::new().into(),
        Some(raw) => value(raw)?,
    };
    let start = Start {
        plan: prepared.plan.clone(),
        bundle: prepared.keep(&server.app),
        inputs: given,
        owner,
        agent: new.agent,
        limits,
        depth: 0,
        id,
    };
    let run = prepared.engine.start(start)?;
    let id = run.id();
    server.live.drive(run);
    Ok(id)
}

fn value(raw: &serde_json::value::RawValue) -> Answer<Value> {
    let value = parse_value(raw.get()).map_err(|error| Problem::new(Code::RequestInvalid, error.to_string()))?;
    Ok(if raw.get().contains("\"$file\"") { value.with_files() } else { value })
}

/// The run as it stands, after waiting as long as the call wants; its events where the call wants those.
async fn answer(server: &Arc<Server>, id: RunId, waiting: Waiting, headers: &HeaderMap) -> Answer<Response> {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/event-stream") {
        return Ok(events::response(server.clone(), id, 0, true));
    }
    if let Some(seconds) = waiting.wait.filter(|seconds| *seconds > 0.0) {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(WAIT).min(WAIT);
        // If it takes longer, the run goes on.
        let _ = tokio::time::timeout(time, server.live.wait(id)).await;
    }
    let (status, shown) = match server.app.open_id(id).await {
        Ok(opened) => {
            let (state, shown) = summary(server, &opened).await?;
            (state.status.row().http_status, shown)
        }
        // Its first event is not stored yet.
        Err(error) if error.code == Code::RunNotFound => {
            (202, Value::map([("run_id", Value::from(id.to_string())), ("status", "queued".into())]))
        }
        Err(error) => return Err(error.into()),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let location = [(header::LOCATION, format!("/api/v1/runs/{id}"))];
    Ok((status, location, Json(shown)).into_response())
}

/// What `run --json` prints, and the steps.
async fn summary(server: &Server, opened: &Opened) -> Answer<(RunState, Value)> {
    let past = crate::commands::recorded(&server.app, opened).await?;
    let mut shown =
        report::summary(opened.id, &opened.plan, &past.state, &past.env).as_map().cloned().unwrap_or_default();
    shown.insert("name".into(), opened.plan.name.as_str().into());
    shown.insert("created_at".into(), (past.state.created_at as i64).into());
    let finished = past.state.finished_at.map_or(Value::Null, |at| (at as i64).into());
    shown.insert("finished_at".into(), finished);
    shown.insert("steps".into(), report::steps(&past.state));
    Ok((past.state, shown.into()))
}

/// A run of the caller's.
async fn open(server: &Server, caller: &Caller, id: &str) -> Answer<Opened> {
    let Some(run) = RunId::parse(id) else { return Err(Problem::not_there("run", id)) };
    match server.app.open_id(run).await {
        Ok(opened) if caller.owns(owner(&opened)) => Ok(opened),
        Ok(_) => Err(Problem::not_there("run", id)),
        Err(error) if error.code == Code::RunNotFound => Err(Problem::not_there("run", id)),
        Err(error) => Err(error.into()),
    }
}

fn owner(opened: &Opened) -> &str {
    match opened.records.first().map(|record| &record.event) {
        Some(flowloom_core::event::Event::RunCreated(created)) => &created.owner,
        _ => "",
    }
}

/// Which runs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Those in this status.
    #[serde(default)]
    status: Option<String>,
    /// Those of workflows with this name.
    #[serde(default)]
    name: Option<String>,
    /// What `next` of the page before said.
    #[serde(default)]
    cursor: Option<String>,
    /// So many at most; 50 if it does not say, 200 at most.
    #[serde(default)]
    limit: Option<u32>,
}

/// A page of runs, the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct Runs {
    items: Vec<RunItem>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// A run in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunItem {
    run_id: String,
    name: String,
    format: String,
    status: String,
    /// Milliseconds since 1970.
    created_at: u64,
    finished_at: Option<u64>,
    /// Whether a living process drives it.
    is_driven: bool,
}

/// The caller's runs.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", params(Filter), responses((status = 200, body = Runs)))]
pub(crate) async fn list(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Answer<Json<Runs>> {
    caller.may(Scope::Read)?;
    let limit = filter.limit.unwrap_or(USUAL_PAGE).clamp(1, PAGE);
    let before = match &filter.cursor {
        None => None,
        Some(cursor) => Some(
            RunId::parse(cursor)
                .ok_or_else(|| Problem::new(Code::RequestInvalid, "the cursor is not one of this server's"))?,
        ),
    };
    if let Some(status) = filter.status.as_deref().filter(|status| Status::parse(status).is_none()) {
        return Err(Problem::new(Code::RequestInvalid, format!("there is no status {status:?}")));
    }
    let wanted =
        RunFilter { holder: caller.user.clone(), status: filter.status, name: filter.name, before, limit: limit + 1 };
    let mut rows = super::blocking(move || server.app.store.runs_of(&wanted)).await??;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| row.id.to_string());
    let item = |row: flowloom_store::RunRow| RunItem {
        run_id: row.id.to_string(),
        name: row.name,
        format: row.format,
        status: row.status,
        created_at: row.created_at,
        finished_at: row.finished_at,
        is_driven: row.is_driven,
    };
    Ok(Json(Runs { items: rows.into_iter().map(item).collect(), next }))
}

/// A run: what `flowloom run --json` prints, and its steps.
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "The run"), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    caller.may(Scope::Read)?;
    let opened = open(&server, &caller, &id).await?;
    Ok(Json(summary(&server, &opened).await?.1))
}

/// From where events are sent.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    /// The number of the last event that the client has; `Last-Event-ID` counts before it.
    #[serde(default)]
    from: u64,
    /// Whether the text of answers is sent as it comes, too.
    #[serde(default)]
    deltas: bool,
}

/// A run's events as server-sent events, until it ends or waits.
#[utoipa::path(get, path = "/api/v1/runs/{id}/events", tag = "runs", params(("id" = String, Path), From),
    responses((status = 200, description = "Events", content_type = "text/event-stream"), (status = 404, body = Problem)))]
pub(crate) async fn follow(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Answer<Response> {
    caller.may(Scope::Read)?;
    let run = open(&server, &caller, &id).await?.id;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    Ok(events::response(server, run, last.unwrap_or(from.from), from.deltas))
}

/// Ends a run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", params(("id" = String, Path), Waiting),
    responses((status = 200, description = "It has ended"), (status = 409, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn cancel(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
) -> Answer<Response> {
    let by = caller.holder().to_owned();
    tell(server, caller, &id, |_| Ok(Wish::Cancel { by }), waiting, &headers).await
}

/// Goes on with a run that was interrupted.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resume", tag = "runs", params(("id" = String, Path), Waiting),
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on"), (status = 404, body = Problem)))]
pub(crate) async fn resume(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
) -> Answer<Response> {
    caller.may(Scope::Run)?;
    let opened = open(&server, &caller, &id).await?;
    let run = opened.id;
    go_on(&server, opened).await?;
    answer(&server, run, waiting, &headers).await
}

/// An answer to a question of a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    /// The answer: any JSON value.
    #[schema(value_type = Object)]
    value: Box<serde_json::value::RawValue>,
    /// The step that asks, if there are several.
    #[serde(default)]
    path: Option<String>,
}

/// Answers a question of a run that waits, and lets it go on.
#[utoipa::path(post, path = "/api/v1/runs/{id}/answer", tag = "runs", request_body = Reply, params(("id" = String, Path), Waiting),
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on"), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn reply(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
    Body(reply, _): Body<Reply>,
) -> Answer<Response> {
    let by = caller.holder().to_owned();
    let answer = value(&reply.value)?;
    let wish = |state: &RunState| {
        let path = chosen(state, reply.path.as_deref(), Phase::Waiting, "question")?;
        Ok(Wish::Answer { path, value: answer, by })
    };
    tell(server, caller, &id, wish, waiting, &headers).await
}

/// A decision about an effect that may or may not have happened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    /// The effect's path.
    path: String,
    /// `resend`, `fail`, or `value`.
    how: How,
    /// What it gave, with `value`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    value: Option<Box<serde_json::value::RawValue>>,
}

/// How it is decided.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// It is sent again.
    Resend,
    /// It counts as failed.
    Fail,
    /// It gave this value.
    Value,
}

/// Decides about an uncertain effect, and lets the run go on.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resolve", tag = "runs", request_body = Decision, params(("id" = String, Path), Waiting),
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on"), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn resolve(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
    Body(decision, _): Body<Decision>,
) -> Answer<Response> {
    let by = caller.holder().to_owned();
    let how = match (decision.how, &decision.value) {
        (How::Resend, None) => Resolution::Resend,
        (How::Fail, None) => Resolution::Fail,
        (How::Value, Some(raw)) => Resolution::Value(value(raw)?),
        _ => return Err(Problem::new(Code::RequestInvalid, "a value belongs to how: value, and only there")),
    };
    let wish = |state: &RunState| {
        let path = chosen(state, Some(&decision.path), Phase::Uncertain, "uncertain effect")?;
        Ok(Wish::Resolve { path, how, by })
    };
    tell(server, caller, &id, wish, waiting, &headers).await
}

/// The step that is meant: the named one, or the only one.
fn chosen(state: &RunState, path: Option<&str>, phase: Phase, what: &str) -> Answer<StepPath> {
    let open: Vec<_> = state.steps().iter().filter(|step| step.phase == phase).collect();
    let found = match (path, open.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(path), _) => open.iter().find(|step| step.path.as_str() == path),
    };
    let paths: Vec<&str> = open.iter().map(|step| step.path.as_str()).collect();
    let message = || format!("the run has no such open {what}; open are: {}", paths.join(", "));
    found.map(|step| step.path.clone()).ok_or_else(|| Problem::new(Code::NothingToDo, message()))
}

/// Asks something of a run, wherever it is driven, and lets it go on.
async fn tell(
    server: Arc<Server>,
    caller: Caller,
    id: &str,
    wish: impl FnOnce(&RunState) -> Answer<Wish>,
    waiting: Waiting,
    headers: &HeaderMap,
) -> Answer<Response> {
    caller.may(Scope::Run)?;
    let opened = open(&server, &caller, id).await?;
    let run = opened.id;
    let state = RunState::of(opened.records.iter().map(|record| &**record));
    if state.status.is_final() {
        return Err(Problem::new(Code::NothingToDo, format!("the run has ended: {}", state.status.name())));
    }
    let wish = wish(&state)?;
    match server.live.control(run) {
        Some(control) => control.wish(wish),
        None => {
            server.app.engine(&opened.bundle)?.post(run, wish).await?;
            go_on(&server, opened).await?;
        }
    }
    answer(&server, run, waiting, headers).await
}

/// Drives a run from where its journal stands, unless that is being done.
pub(crate) async fn go_on(server: &Arc<Server>, opened: Opened) -> Answer<()> {
    let state = RunState::of(opened.records.iter().map(|record| &**record));
    if server.live.control(opened.id).is_some() || state.status.is_final() {
        return Ok(());
    }
    let plan = opened.plan.clone();
    let engine = server.app.engine(&opened.bundle)?;
    let run = engine.resume(opened.id, async |_| Ok::<_, StepError>(plan)).await?;
    server.live.drive(run);
    Ok(())
}
