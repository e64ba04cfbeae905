//! One run as an answer: waited for, shown, or as its events.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flowloom_app::engines::Opened;
use flowloom_app::runs::summary;
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::vars::Env;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::events;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// The longest time that a call waits for its run.
pub(crate) const WAIT: Duration = Duration::from_secs(600);

/// Bytes that most answers fit into.
const ROOM: usize = 1024;

/// How a call waits.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Waiting {
    /// Seconds that the call waits for the run to end; it goes on if it takes longer.
    #[serde(default)]
    wait: Option<f64>,
}

/// The run as it stands, after waiting as long as the call wants; its events where the call wants those.
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

/// Whether a call wants a run's events for its answer.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/event-stream"))
}

/// A stored run, and where it stands.
pub(crate) async fn summary(server: &Server, opened: &Opened) -> Answer<(Status, Response)> {
    let past = flowloom_app::runs::finished::recorded(&server.app, opened).await?;
    Ok((past.state.status, shown(opened.id, &opened.plan, &past.state, &past.env)))
}

/// What a call is told of a run besides its summary.
#[derive(Serialize)]
struct Beside<'a> {
    name: &'a str,
    created_at: u64,
    finished_at: Option<u64>,
    steps: Vec<summary::Step<'a>>,
}

/// What `run --json` prints, and the steps.
fn shown(id: RunId, plan: &Plan, state: &RunState, env: &Env) -> Response {
    let RunState { created_at, finished_at, .. } = *state;
    let beside = Beside { name: &plan.name, created_at, finished_at, steps: summary::steps(state) };
    let mut body = Vec::with_capacity(ROOM);
    // What is written here has text for keys, and is written to memory: it never fails.
    let _ = serde_json::to_writer(&mut body, &summary::summary(id, plan, state, env).with(beside));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// The id of a run of the caller's.
pub(crate) fn owned(server: &Server, caller: &Caller, id: &str) -> Answer<RunId> {
    let run = match RunId::parse(id) {
        Some(run) => server.app.store.run(run)?,
        None => None,
    };
    let own = run.filter(|run| caller.owns(&run.holder));
    own.map(|run| run.id).ok_or_else(|| Problem::not_there("run", id))
}

/// A run of the caller's, with its record and its plan.
pub(crate) async fn open(server: &Server, caller: &Caller, id: &str) -> Answer<Opened> {
    Ok(server.app.open_id(owned(server, caller, id)?).await?)
}
