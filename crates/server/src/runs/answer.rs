//! Responses about a run: its summary after waiting, or its events.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flowloom_app::engines::Opened;
use flowloom_app::runs::summary;
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::events;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// Maximum time that a request waits for its run.
pub(crate) const WAIT: Duration = Duration::from_secs(600);

/// Initial capacity of a response body in bytes; most fit.
const ROOM: usize = 1024;

/// Query parameter of waiting for a run.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Waiting {
    /// Seconds to wait for the run to end; the run continues if it takes longer.
    #[serde(default)]
    wait: Option<f64>,
}

/// Responds with the state of the run after waiting, or with its events if the request accepts them.
pub(crate) async fn answer(server: &Server, begun: Begun, waiting: Waiting, headers: &HeaderMap) -> Answer<Response> {
    let Begun { id, ending, heard } = begun;
    if wants_events(headers) {
        return Ok(match heard {
            Some(heard) => {
                let teller = Box::new(events::Journal { with_text: true });
                events::heard_from(server.clone(), id, (0, teller), Some(heard))
            }
            None => events::response(server.clone(), id, 0, true),
        });
    }
    let mut ended = None;
    if let Some(seconds) = waiting.wait.filter(|seconds| *seconds > 0.0) {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(WAIT).min(WAIT);
        ended = server.runs.waited(id, ending.clone(), time).await;
    }
    let (status, shown) = match ended {
        Some(ended) => {
            let outcome = &ended.outcome;
            outcome.broken.clone().map_or(Ok(()), Err)?;
            (outcome.state.status, shown(id, &ended.plan, &outcome.state, &outcome.env))
        }
        None => {
            server.runs.stored(id, ending).await?;
            summary(server, &server.app.open_id(id).await?).await?
        }
    };
    let status = StatusCode::from_u16(status.row().http_status).unwrap_or(StatusCode::OK);
    let location = [(header::LOCATION, format!("/api/v1/runs/{id}"))];
    Ok((status, location, shown).into_response())
}

/// Whether the request accepts an event stream.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/event-stream"))
}

/// The status and the summary of a stored run.
pub(crate) async fn summary(server: &Server, opened: &Opened) -> Answer<(Status, Response)> {
    let past = flowloom_app::runs::finished::recorded(&server.app, opened).await?;
    Ok((past.state.status, shown(opened.id, &opened.plan, &past.state, &past.env)))
}

/// The fields that the API adds to the summary of a run.
#[derive(Serialize)]
struct Beside<'a> {
    name: &'a str,
    created_at: u64,
    finished_at: Option<u64>,
    steps: Vec<summary::Step<'a>>,
}

/// The response with the summary of a run and its steps.
fn shown(id: RunId, plan: &Plan, state: &RunState, env: &Env) -> Response {
    let RunState { created_at, finished_at, .. } = *state;
    let beside = Beside { name: &plan.name, created_at, finished_at, steps: summary::steps(state) };
    let mut body = Vec::with_capacity(ROOM);
    // Serialisation to memory with text keys cannot fail.
    let _ = serde_json::to_writer(&mut body, &summary::summary(id, plan, state, env).with(beside));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// The id of a run that the caller may access. Fails with `NotThere`.
pub(crate) fn owned(server: &Server, caller: &Caller, id: &str) -> Answer<RunId> {
    let run = match RunId::parse(id) {
        Some(run) => server.app.store.run(run)?,
        None => None,
    };
    let own = run.filter(|run| caller.owns(&run.holder));
    own.map(|run| run.id).ok_or_else(|| Problem::not_there("run", id))
}

/// Opens a run that the caller may access, with its records and its plan. Fails with `NotThere`.
pub(crate) async fn open(server: &Server, caller: &Caller, id: &str) -> Answer<Opened> {
    Ok(server.app.open_id(owned(server, caller, id)?).await?)
}
