//! One run as an answer: waited for, shown, or as its events.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::state::RunState;
use flowloom_core::value::Value;
use serde::Deserialize;
use utoipa::IntoParams;

use super::keys::Caller;
use super::problem::{Answer, Problem};
use super::{Server, events};
use crate::app::Opened;
use crate::report;

/// The longest time that a call waits for its run.
const WAIT: Duration = Duration::from_secs(600);

/// How a call waits.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waiting {
    /// Seconds that the call waits for the run to end; it goes on if it takes longer.
    #[serde(default)]
    wait: Option<f64>,
}

/// The run as it stands, after waiting as long as the call wants; its events where the call wants those.
pub(super) async fn answer(server: &Arc<Server>, id: RunId, waiting: Waiting, headers: &HeaderMap) -> Answer<Response> {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/event-stream") {
        return Ok(events::response(server.clone(), id, 0, true));
    }
    if let Some(seconds) = waiting.wait.filter(|seconds| *seconds > 0.0) {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(WAIT).min(WAIT);
        // If it takes longer, the run goes on.
        let _ = tokio::time::timeout(time, server.wait(id)).await;
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
pub(super) async fn summary(server: &Server, opened: &Opened) -> Answer<(RunState, Value)> {
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

/// The id of a run of the caller's.
pub(super) fn owned(server: &Server, caller: &Caller, id: &str) -> Answer<RunId> {
    let run = match RunId::parse(id) {
        Some(run) => server.app.store.run(run)?,
        None => None,
    };
    let own = run.filter(|run| caller.owns(&run.holder));
    own.map(|run| run.id).ok_or_else(|| Problem::not_there("run", id))
}

/// A run of the caller's, with its record and its plan.
pub(super) async fn open(server: &Server, caller: &Caller, id: &str) -> Answer<Opened> {
    Ok(server.app.open_id(owned(server, caller, id)?).await?)
}
