//! Streams runs of pipelines: an event per change of a node, and at the end the response of the route without a stream.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event as Sse;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::authoring::happened::{Happened, fields};
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::runs::service::NewRun;
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use futures_util::stream::{self, Stream, StreamExt as _};

use super::pipelines::{RunOnce, passing, told_kept, told_once};
use super::wire::{last_of, said, sse};
use crate::body::Body;
use crate::caller::Caller;
use crate::compat::agentflow::doing::Doing;
use crate::compat::runs::{Ended, definition, ended};
use crate::guard;
use crate::params::At;
use crate::problem::{Answer, Document, Problem};
use crate::runs::answer::owned;
use crate::runs::events::{self, Teller};
use crate::runs::start::Call;
use crate::state::Server;

/// Builds the response of the route without a stream.
pub(crate) type Whole = fn(&Ended) -> Map;

/// Runs a pipeline and streams the events of its nodes. After a lost connection, `Last-Event-ID` continues the stream;
/// if no events are left, the response is 204.
#[utoipa::path(post, path = "/api/pipeline/run/stream", operation_id = "agentflow_run_stream", tag = "AgentFlow", security(("key" = ["run"])), request_body = RunOnce,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 404, body = Document), (status = 409, body = Document), (status = 422, description = "The pipeline has errors", body = Document)))]
pub(crate) async fn run_once(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(wanted, text): Body<RunOnce>,
) -> Answer<Response> {
    if let Some(last) = last_of(&headers) {
        return go_on(&server, &caller, last, told_once).await;
    }
    let call = Call::admitted(&server, &caller, wanted.user_id.clone(), &headers)?;
    let definition = passing(&call, &caller, wanted).await?;
    begin(&call, &definition, &text, told_once).await
}

/// Runs a stored pipeline and streams the events of its nodes.
#[utoipa::path(post, path = "/api/pipelines/{id}/run/stream", operation_id = "agentflow_run_kept_stream", tag = "AgentFlow", security(("key" = ["run"])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 404, body = Document), (status = 409, body = Document), (status = 422, body = Document)))]
pub(crate) async fn run_kept(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    kept(&server, &caller, &id, &headers).await
}

/// Like the POST route, for a browser's `EventSource`, which can only send GET. Rejects pages of other sites.
#[utoipa::path(get, path = "/api/pipelines/{id}/run/stream", operation_id = "agentflow_follow_kept", tag = "AgentFlow", security(("key" = ["run"])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 404, body = Document), (status = 409, body = Document), (status = 422, body = Document)))]
pub(crate) async fn follow_kept(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    guard::from_here(&headers)?;
    kept(&server, &caller, &id, &headers).await
}

async fn kept(server: &Server, caller: &Caller, id: &str, headers: &HeaderMap) -> Answer<Response> {
    if let Some(last) = last_of(headers) {
        return go_on(server, caller, last, told_kept).await;
    }
    let call = Call::admitted(server, caller, None, headers)?;
    let (definition, _) = definition(server, call.user().to_owned(), flowloom_formats::pipeline::FORMAT, id).await?;
    begin(&call, &definition, "", told_kept).await
}

/// Starts a run and streams its events from the beginning.
async fn begin(call: &Call<'_>, definition: &Definition, request: &str, whole: Whole) -> Answer<Response> {
    let (begun, plan) = start(call, definition, request).await?;
    Ok(events::sent(true, told(call.server, begun, (&plan, 0), whole)))
}

/// Starts a run, or finds the run that the same request has started.
pub(crate) async fn start(call: &Call<'_>, definition: &Definition, request: &str) -> Answer<(Begun, Arc<Plan>)> {
    let starting = NewRun { is_heard: true, ..NewRun::with(Map::new().into()) };
    let request = format!("{}\n{request}", definition.id);
    let begun = call.once(&request, async |id| call.begin(definition, NewRun { id, ..starting }).await).await?;
    let plan = match (&begun.heard, &definition.prepared) {
        (Some(_), Some(prepared)) => prepared.plan.clone(),
        // The definition under this id may have changed since.
        _ => call.server.app.open_id(begun.id).await?.plan,
    };
    Ok((begun, plan))
}

/// Streams the events of a run after the last one that the client has.
pub(crate) async fn go_on(
    server: &Server,
    caller: &Caller,
    (run, after): (RunId, u64),
    whole: Whole,
) -> Answer<Response> {
    caller.may(flowloom_app::keys::Scope::Run)?;
    let run = owned(server, caller, &run.to_string())?;
    let opened = server.app.open_id(run).await?;
    let state = opened.state();
    if state.status.is_final() && after >= state.seq {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let begun = server.live.again(run);
    Ok(events::sent(after == 0, told(server, begun, (&opened.plan, after), whole)))
}

/// The events of a run's nodes after a given event, followed by its response.
pub(crate) fn told(
    server: &Server,
    begun: Begun,
    (plan, after): (&Plan, u64),
    whole: Whole,
) -> impl Stream<Item = Sse> + Send + use<> {
    let Begun { id, heard, .. } = begun;
    let heard = heard.or_else(|| server.live.subscribe(id));
    let teller = Box::new(Nodes { doing: Doing::of(plan), after });
    let nodes = events::told(server.clone(), id, (0, teller), heard);
    let server = server.clone();
    nodes.chain(stream::once(async move { last(&server, id, whole).await }))
}

/// The final event: the response of the route without a stream, or an error.
async fn last(server: &Server, run: RunId, whole: Whole) -> Sse {
    match ended(server, run).await {
        Ok(ended) => {
            let at = ended.state.finished_at.unwrap_or_else(|| SystemClock.now_ms());
            sse(&Happened::new("complete", at, whole(&ended)), (run, ended.state.seq))
        }
        Err(problem) => refused(&problem),
    }
}

/// An error event.
pub(crate) fn refused(problem: &Problem) -> Sse {
    let why = [("code", problem.code().to_string().into()), ("error", Value::from(problem.detail()))];
    said(Sse::default(), &Happened::new("error", SystemClock.now_ms(), fields(why)))
}

/// Encodes the events of a run's nodes.
struct Nodes {
    doing: Doing,
    /// Sequence number of the last event that the client has.
    after: u64,
}

impl Teller for Nodes {
    fn event(&mut self, record: &Record) -> Vec<Sse> {
        // Earlier events are read, too, because later ones depend on them.
        let told = self.doing.hear(record).filter(|_| record.seq > self.after);
        told.map(|told| sse(&told, (record.run, record.seq))).into_iter().collect()
    }
}
