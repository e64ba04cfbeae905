//! Runs of pipelines as streams: what happens to each node as it happens, and at the end what the call without a stream
//! answers.

// The macros that describe routes write out more of a path than is needed.
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

/// What the call without a stream answers.
pub(crate) type Whole = fn(&Ended) -> Map;

/// Runs a pipeline; what happens to its nodes is told as it happens. After a lost connection `Last-Event-ID` goes on
/// where it was lost; where there is no more the answer is 204.
#[utoipa::path(post, path = "/api/pipeline/run/stream", operation_id = "agentflow_run_stream", tag = "AgentFlow", security(("key" = ["run"])), request_body = RunOnce,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body start one run"), ("Last-Event-ID" = Option<String>, Header, description = "The last event that the client has")),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"), (status = 204, description = "All was told"),
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

/// Runs a kept pipeline; what happens to its nodes is told as it happens.
#[utoipa::path(post, path = "/api/pipelines/{id}/run/stream", operation_id = "agentflow_run_kept_stream", tag = "AgentFlow", security(("key" = ["run"])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key starts one run"), ("Last-Event-ID" = Option<String>, Header, description = "The last event that the client has")),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"), (status = 204, description = "All was told"),
        (status = 404, body = Document), (status = 409, body = Document), (status = 422, body = Document)))]
pub(crate) async fn run_kept(
    State(server): State<Server>,
    caller: Caller,
    At(id): At<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    kept(&server, &caller, &id, &headers).await
}

/// The same for a browser's `EventSource`, which can only GET. Not for pages of other sites.
#[utoipa::path(get, path = "/api/pipelines/{id}/run/stream", operation_id = "agentflow_follow_kept", tag = "AgentFlow", security(("key" = ["run"])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key starts one run"), ("Last-Event-ID" = Option<String>, Header, description = "The last event that the client has")),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"), (status = 204, description = "All was told"),
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
    let (definition, _) = definition(server, call.user().to_owned(), flowloom_core::plan::Format::Pipeline, id).await?;
    begin(&call, &definition, "", told_kept).await
}

/// Starts a run and tells it from its beginning.
async fn begin(call: &Call<'_>, definition: &Definition, request: &str, whole: Whole) -> Answer<Response> {
    let (begun, plan) = start(call, definition, request).await?;
    Ok(events::sent(true, told(call.server, begun, (&plan, 0), whole)))
}

/// Starts a run, or finds the one that the same call has started.
pub(crate) async fn start(call: &Call<'_>, definition: &Definition, request: &str) -> Answer<(Begun, Arc<Plan>)> {
    let starting = NewRun { is_heard: true, ..NewRun::with(Map::new().into()) };
    let request = format!("{}\n{request}", definition.id);
    let begun = call.once(&request, async |id| call.begin(definition, NewRun { id, ..starting }).await).await?;
    let plan = match (&begun.heard, &definition.prepared) {
        (Some(_), Some(prepared)) => prepared.plan.clone(),
        // It may have been another definition of this id then.
        _ => call.server.app.open_id(begun.id).await?.plan,
    };
    Ok((begun, plan))
}

/// What an earlier stream of this run has not told.
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

/// What happens to the nodes of a run after an event, and its result.
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

/// The last event: what the call without a stream answers, or why that cannot be said.
async fn last(server: &Server, run: RunId, whole: Whole) -> Sse {
    match ended(server, run).await {
        Ok(ended) => {
            let at = ended.state.finished_at.unwrap_or_else(|| SystemClock.now_ms());
            sse(&Happened::new("complete", at, whole(&ended)), (run, ended.state.seq))
        }
        Err(problem) => refused(&problem),
    }
}

/// Why there is nothing to tell.
pub(crate) fn refused(problem: &Problem) -> Sse {
    let why = [("code", problem.code().to_string().into()), ("error", Value::from(problem.detail()))];
    said(Sse::default(), &Happened::new("error", SystemClock.now_ms(), fields(why)))
}

/// Tells the nodes of a run.
struct Nodes {
    doing: Doing,
    /// The last event that the client has.
    after: u64,
}

impl Teller for Nodes {
    fn event(&mut self, record: &Record) -> Vec<Sse> {
        // What the client has is read, too: what comes may depend on it.
        let told = self.doing.hear(record).filter(|_| record.seq > self.after);
        told.map(|told| sse(&told, (record.run, record.seq))).into_iter().collect()
    }
}
