//! What gets a run on: `cancel`, `resume`, `answer` and `resolve`.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::Resolution;
use flowloom_core::path::Path as StepPath;
use flowloom_core::state::{Phase, RunState};
use flowloom_runtime::journal::Wish;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Server;
use super::body::Body;
use super::keys::{Caller, Scope};
use super::problem::{Answer, Document, Problem};
use super::run::{Waiting, answer, open, value};
use crate::app::Opened;

/// Ends a run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", params(("id" = String, Path), Waiting),
    responses((status = 200, description = "It has ended"), (status = 409, body = Document), (status = 404, body = Document)))]
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
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on"), (status = 404, body = Document)))]
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
    value: Box<RawValue>,
    /// The step that asks, if there are several.
    #[serde(default)]
    path: Option<String>,
}

/// Answers a question of a run that waits, and lets it go on.
#[utoipa::path(post, path = "/api/v1/runs/{id}/answer", tag = "runs", request_body = Reply, params(("id" = String, Path), Waiting),
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on"), (status = 404, body = Document), (status = 409, body = Document)))]
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
    value: Option<Box<RawValue>>,
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
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on"), (status = 404, body = Document), (status = 409, body = Document)))]
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
    let left = match server.live.control(run) {
        Some(control) => control.wish(wish).err(),
        None => Some(wish),
    };
    if let Some(wish) = left {
        // It may be in its last moments here.
        server.live.wait(run).await;
        server.app.engine_of(&opened)?.post(run, wish).await?;
        go_on(&server, opened).await?;
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
    let engine = server.app.engine_of(&opened)?;
    let run = engine.resume(opened.id, async |_| Ok::<_, StepError>(plan)).await?;
    server.live.drive(run);
    Ok(())
}
