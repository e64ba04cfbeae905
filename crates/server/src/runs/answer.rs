//! Responses about a run: its summary after waiting, or its events.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flowloom_app::runs::family::{RunFamily, find_family};
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::runs::stored::StoredRuns;
use flowloom_app::runs::summary;
use flowloom_app::runs::supervisor::{ActiveRun, FinishedRun, RunCompletion};
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_runtime::RunOutcome;
use flowloom_store::{RunRow, Store};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::IntoParams;

use super::events;
use crate::blocking::{run_blocking, run_reading};
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::state::RunHost;

/// Maximum time that a request waits for its run.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(600);

/// Initial capacity of a response body in bytes; most fit.
const BODY_CAPACITY_BYTES: usize = 1024;

/// Maximum number of events of a run that is summarised on the thread that serves.
const MAX_SHORT_EVENTS: usize = 256;

/// Query parameter of waiting for a run.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// Seconds to wait for the run to end, also with fractions; the run continues if it takes longer. More than 600 count as
    /// 600.
    #[serde(default, deserialize_with = "read_seconds")]
    #[param(minimum = 0)]
    wait: Option<f64>,
}

/// A number of seconds of at least 0.
fn read_seconds<'de, D: Deserializer<'de>>(given: D) -> Result<Option<f64>, D::Error> {
    let seconds = Option::<f64>::deserialize(given)?;
    match seconds {
        Some(wrong) if !(wrong.is_finite() && wrong >= 0.0) => {
            Err(D::Error::custom(format!("must be a number of seconds of at least 0, not {wrong}")))
        }
        _ => Ok(seconds),
    }
}

impl WaitQuery {
    /// How long to wait; `None` if not at all.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let seconds = self.wait.filter(|seconds| *seconds > 0.0)?;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(MAX_WAIT).min(MAX_WAIT))
    }

    /// The remaining wait after a time.
    pub(crate) fn subtract_time(self, spent: Duration) -> WaitQuery {
        let wait = self.duration().map(|time| time.saturating_sub(spent).as_secs_f64());
        WaitQuery { wait }
    }
}

/// A result after a run was started, whose problem names the run if it is stored, as far as that is known.
pub(crate) fn name_started_run<T>(
    host: &RunHost,
    run: RunId,
    completion: Option<&RunCompletion>,
    result: ApiResult<T>,
) -> ApiResult<T> {
    result.map_err(|problem| match host.service.may_be_stored(run, completion) {
        true => problem.of_started_run(run),
        false => problem,
    })
}

/// Responds with the state of the run after waiting, or with its events if the request accepts them.
pub(crate) async fn respond_with_run(
    host: &Arc<RunHost>,
    active: ActiveRun,
    waiting: WaitQuery,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let (id, completion) = (active.id, active.completion.clone());
    let response = build_run_response(host, active, waiting, headers).await;
    name_started_run(host, id, completion.as_ref(), response)
}

/// The response for a run that the request has not started.
pub(super) async fn build_run_response(
    host: &Arc<RunHost>,
    active: ActiveRun,
    waiting: WaitQuery,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let ActiveRun { id, completion, subscription } = active;
    if accepts_events(headers) {
        // With a key, the request may be a repetition after a lost connection. Otherwise it has started this run, and the client
        // has no event of it.
        let last = if headers.contains_key("idempotency-key") { events::read_last_event(headers)? } else { None };
        let last = last.unwrap_or_default();
        return Ok(match subscription {
            Some(subscription) => {
                let encoder = Box::new(events::JournalEncoder { with_text: true });
                events::stream_encoded(host.clone(), id, last, encoder, Some(subscription))
            }
            None => events::stream_run(host.clone(), id, last, true),
        });
    }
    let mut ended = None;
    if let Some(time) = waiting.duration() {
        ended = host.service.wait_with_timeout(id, completion.clone(), time).await;
    }
    let (status, response) = match ended {
        Some(ended) => {
            // Most runs are short, and summarised sooner than a thread is found.
            let is_short = ended.outcome.records.len() <= MAX_SHORT_EVENTS;
            ended.outcome.broken.clone().map_or(Ok(()), Err)?;
            let status = ended.outcome.state.status;
            let summarize = move || {
                let FinishedRun { plan, outcome } = &*ended;
                summary_response(id, plan, outcome, RunFamily::without_forks(&outcome.state), None)
            };
            (status, if is_short { summarize() } else { run_blocking(summarize).await? })
        }
        None => {
            host.service.wait_until_stored(id, completion).await?;
            let read = async |runs: &StoredRuns, opened: LoadedRun| summarize_stored(runs, &opened).await;
            read_run(&host.app.runs, id, read).await?
        }
    };
    let status = StatusCode::from_u16(status.table_row().http_status).unwrap_or(StatusCode::OK);
    let location = [(header::LOCATION, format!("/api/v1/runs/{id}"))];
    Ok((status, location, response).into_response())
}

/// Whether the request accepts an event stream.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/event-stream"))
}

/// The status and the summary of a stored run. Work for a blocking thread.
pub(crate) async fn summarize_stored(runs: &StoredRuns, opened: &LoadedRun) -> ApiResult<(Status, Response)> {
    let past = flowloom_app::runs::finished::read_outcome(runs, opened).await?;
    let family = find_family(&runs.store, opened.id, &past.state)?;
    let interruption = runs.explain_standstill(opened).await?;
    Ok((past.state.status, summary_response(opened.id, &opened.plan, &past, family, interruption)))
}

/// The fields that the API adds to the summary of a run.
#[derive(Serialize)]
struct RunFields<'a> {
    name: &'a str,
    created_at: u64,
    finished_at: Option<u64>,
    #[serde(flatten)]
    family: RunFamily,
    steps: Vec<summary::StepSummary<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interruption: Option<String>,
}

/// The response with the summary of a run and its steps.
fn summary_response(
    id: RunId,
    plan: &Plan,
    outcome: &RunOutcome,
    family: RunFamily,
    interruption: Option<String>,
) -> Response {
    let RunOutcome { state, env, .. } = outcome;
    let RunState { created_at, finished_at, .. } = *state;
    let steps = summary::summarize_steps(state);
    let fields = RunFields { name: &plan.name, created_at, finished_at, family, steps, interruption };
    let mut body = Vec::with_capacity(BODY_CAPACITY_BYTES);
    // Serialisation to memory with text keys cannot fail.
    let _ = serde_json::to_writer(&mut body, &summary::summarize_run(id, plan, state, env).with_fields(fields));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// The id of a run that the caller may access. Fails with `NotThere`.
pub(crate) async fn find_own_run(store: &Arc<Store>, caller: &Caller, id: &str) -> ApiResult<RunId> {
    Ok(find_own_row(store, caller, id).await?.id)
}

/// The row of a run that the caller may access. Fails with `NotThere`.
pub(super) async fn find_own_row(store: &Arc<Store>, caller: &Caller, id: &str) -> ApiResult<RunRow> {
    let (store, caller, id) = (store.clone(), caller.clone(), id.to_owned());
    run_blocking(move || read_own_row(&store, &caller, &id)).await?
}

/// The same on a blocking thread.
fn read_own_row(store: &Store, caller: &Caller, id: &str) -> ApiResult<RunRow> {
    let found = RunId::parse(id).map(|run| store.get_run(run)).transpose()?.flatten();
    found.filter(|row| caller.can_access(&row.user)).ok_or_else(|| Problem::not_found("run", id))
}

/// Opens a run, with its records and its plan.
pub(crate) async fn open_run(runs: &StoredRuns, id: RunId) -> ApiResult<LoadedRun> {
    read_run(runs, id, async |_, opened| Ok(opened)).await
}

/// Reads something of a run on a blocking thread.
pub(crate) async fn read_run<T: Send + 'static>(
    runs: &StoredRuns,
    id: RunId,
    read: impl AsyncFnOnce(&StoredRuns, LoadedRun) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let runs = runs.clone();
    run_reading(async move || read(&runs, runs.open_run_by_id(id).await?).await).await
}

/// Opens a run that the caller may access. Fails with `NotThere`.
pub(crate) async fn open_own_run(runs: &StoredRuns, caller: &Caller, id: &str) -> ApiResult<LoadedRun> {
    read_own_run(runs, caller, id, async |_, opened| Ok(opened)).await
}

/// Reads something of a run that the caller may access, in one place, so that few records of runs are in memory at the same
/// time. Fails with `NotThere`.
pub(crate) async fn read_own_run<T: Send + 'static>(
    runs: &StoredRuns,
    caller: &Caller,
    id: &str,
    read: impl AsyncFnOnce(&StoredRuns, LoadedRun) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let (runs, caller, id) = (runs.clone(), caller.clone(), id.to_owned());
    run_reading(async move || {
        let run = read_own_row(&runs.store, &caller, &id)?;
        read(&runs, runs.open_run_by_id(run.id).await?).await
    })
    .await
}
