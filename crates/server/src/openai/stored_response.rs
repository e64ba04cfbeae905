//! `GET /v1/responses/{id}`: a response from the record of its run.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_formats::find_answer_source;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer_stream::{AnswerStream, read_outcome};
use super::names::run_headers;
use super::reply::build_answer;
use super::response_events;
use super::responses::{ResponseBuilder, ResponseId};
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem};
use crate::runs::answer::open_run;
use crate::state::RunHost;
use crate::threads::thread_name;

/// How a response is read.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Whether the response is streamed from its start, as server-sent events.
    #[serde(default)]
    stream: Option<bool>,
    /// Not supported: the stream has all events.
    #[serde(default)]
    #[param(ignore)]
    starting_after: Option<u64>,
}

/// Returns a stored response. With `stream`, it is followed until its run ends or waits; the run continues if the client
/// disconnects.
#[utoipa::path(get, path = "/v1/responses/{id}", tag = "OpenAI", operation_id = "openai_get_response", security(("key" = ["read"])), params(("id" = String, Path), StreamQuery),
    responses((status = 200, description = "The response", content((Object = "application/json"), (String = "text/event-stream"))),
        (status = 404, description = "The response does not exist, or belongs to another user")))]
pub(crate) async fn get_response(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<StreamQuery>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let run = ResponseId::find_run(&host, &caller, &id).await?;
    if query.starting_after.is_some() {
        let message = "starting_after is not supported; without it, the stream has all events of the response";
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    match query.stream {
        Some(true) => stream_stored(&host, run, id).await,
        _ => read_stored(&host, run, id).await,
    }
}

fn build_shape(run: RunId, id: String, state: &RunState) -> ResponseBuilder {
    let created = state.created.as_ref();
    let model = created.and_then(|created| created.workflow.clone()).unwrap_or_default();
    let conversation = created.and_then(|created| Some(thread_name(created.thread_key.as_deref()?).to_owned()));
    let mut shape = ResponseBuilder::new(run, id, model);
    shape.conversation = conversation;
    shape.is_background =
        created.and_then(|created| created.trigger.as_ref()).is_some_and(|trigger| trigger.background);
    shape
}

async fn stream_stored(host: &Arc<RunHost>, run: RunId, id: String) -> ApiResult<Response> {
    let opened = open_run(&host.app.runs, run).await?;
    let state = opened.state();
    let source = find_answer_source(&opened.plan, &state.inputs());
    let stream = AnswerStream::new(host.clone(), host.supervisor.find_started(run), source);
    let shape = build_shape(run, id, &state);
    Ok((run_headers(run), response_events::stream_response(stream, shape)).into_response())
}

async fn read_stored(host: &Arc<RunHost>, run: RunId, id: String) -> ApiResult<Response> {
    let ended = read_outcome(&host.app.runs, run).await?;
    let state = &ended.outcome.state;
    let shape = build_shape(run, id, state);
    let response = match (build_answer(&ended), state.status) {
        (Ok(reply), _) => shape.completed_response(&reply),
        (Err(_), Status::Queued | Status::Running) => shape.build_response("in_progress", &[]),
        (Err(_), Status::Cancelled) => shape.build_response("cancelled", &[]),
        (Err(problem), _) => shape.failed_response(&problem),
    };
    Ok(Json(response).into_response())
}
