//! `/api/automate` and its stream: creates a pipeline and runs it at once.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event as Sse;
use flowloom_app::authoring::happened::Happened;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::NewRun;
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::value::{Map, Value};
use futures_util::stream::{self, BoxStream, StreamExt as _};

use super::author::{self, Stages, Wish, authored, thought};
use super::doer;
use super::wire::{last_of, sse};
use crate::body::Body;
use crate::caller::Caller;
use crate::compat::runs::{Ended, definition, ended, run};
use crate::guard;
use crate::params::Params;
use crate::problem::{Answer, Document};
use crate::runs::answer::owned;
use crate::runs::events::{self, Teller};
use crate::runs::start::Call;
use crate::state::Server;

/// Creates a pipeline for a goal, tests it, stores it and runs it: two runs, one after the other.
#[utoipa::path(post, path = "/api/automate", operation_id = "agentflow_automate", tag = "AgentFlow", security(("key" = ["write"])), request_body = Wish,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start both runs only once")),
    responses((status = 200, description = "`{status, pipeline, results, log, run_id, thinker_run_id, usage}`, or why there is no pipeline: `{status, reason, missing_blocks, log}`"),
        (status = 202, description = "The run takes longer than a request may wait"), (status = 400, body = Document), (status = 404, body = Document),
        (status = 409, body = Document), (status = 422, body = Document)))]
pub(crate) async fn automate(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(wish, text): Body<Wish>,
) -> Answer<Response> {
    caller.may(Scope::Write)?;
    wish.check()?;
    let call = Call::admitted(&server, &caller, wish.user_id.clone(), &headers)?;
    let thinker = thought(&call, &wish, &text).await?;
    let made = authored(&thinker);
    let Some(id) = pipeline_of(&made) else {
        let told = made.into_iter().filter(|(key, _)| &**key != "pipeline_json");
        return Ok(thinker.answer(told.collect()));
    };
    let call = call.with_key(Some(key_of(thinker.id)));
    let (definition, _) = definition(&server, call.user().to_owned(), flowloom_formats::pipeline::FORMAT, &id).await?;
    let ended = run(&call, &definition, NewRun::with(Map::new().into()), "").await?;
    Ok(ended.answer(told(&made, &ended)))
}

/// Like `/api/automate`, with an event per stage and node. After a lost connection, `Last-Event-ID` continues the
/// stream; if no events are left, the response is 204.
#[utoipa::path(post, path = "/api/automate/stream", operation_id = "agentflow_automate_stream", tag = "AgentFlow", security(("key" = ["write"])), request_body = Wish,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start both runs only once"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = Document), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn automate_stream(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(wish, text): Body<Wish>,
) -> Answer<Response> {
    stream(&server, &caller, &headers, (wish, &text)).await
}

/// Like the POST route, for a browser's `EventSource`, which can only send GET. Rejects pages of other sites.
#[utoipa::path(get, path = "/api/automate/stream", operation_id = "agentflow_follow_automate", tag = "AgentFlow", security(("key" = ["write"])),
    params(Wish, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and goal start both runs only once"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = Document), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn follow_automate(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Params(wish): Params<Wish>,
) -> Answer<Response> {
    guard::from_here(&headers)?;
    let text = wish.intent.clone();
    stream(&server, &caller, &headers, (wish, &text)).await
}

async fn stream(server: &Server, caller: &Caller, headers: &HeaderMap, (wish, text): (Wish, &str)) -> Answer<Response> {
    caller.may(Scope::Write)?;
    wish.check()?;
    let (begun, after) = match last_of(headers) {
        Some((run, after)) => {
            let run = owned(server, caller, &run.to_string())?;
            if server.app.open_id(run).await?.plan.format == flowloom_formats::pipeline::FORMAT {
                return doer::go_on(server, caller, (run, after), told_alone).await;
            }
            (server.live.again(run), after)
        }
        None => {
            let call = Call::admitted(server, caller, wish.user_id.clone(), headers)?;
            (author::begin(&call, &wish, text).await?, 0)
        }
    };
    let Begun { id, heard, .. } = begun;
    let heard = heard.or_else(|| server.live.subscribe(id));
    let stages = events::told(server.clone(), id, (0, Box::new(Thinking(Stages::after(after)))), heard);
    let shared = server.clone();
    let doing = stream::once(async move { done(&shared, id).await }).flatten();
    Ok(events::sent(after == 0, stages.chain(doing)))
}

/// Streams the run of the new pipeline, if there is one.
async fn done(server: &Server, thinker: RunId) -> BoxStream<'static, Sse> {
    match begun(server, thinker).await {
        Ok(Some((begun, plan))) => doer::told(server, begun, (&plan, 0), told_alone).boxed(),
        // The stages have reported the reason.
        Ok(None) => stream::empty().boxed(),
        Err(problem) => stream::once(async move { doer::refused(&problem) }).boxed(),
    }
}

/// Starts the run of the pipeline that an authoring run created, for the same user. Repeated calls return the same run.
async fn begun(server: &Server, thinker: RunId) -> Answer<Option<(Begun, Arc<Plan>)>> {
    let ended = ended(server, thinker).await?;
    let made = authored(&ended);
    let Some(id) = pipeline_of(&made) else { return Ok(None) };
    let owner = ended.state.created.as_deref().map(|created| created.owner.clone()).unwrap_or_default();
    let call = Call::of(server, &owner).with_key(Some(key_of(thinker)));
    let (definition, _) = definition(server, call.user().to_owned(), flowloom_formats::pipeline::FORMAT, &id).await?;
    doer::start(&call, &definition, "").await.map(Some)
}

/// The id of the created pipeline, if there is one.
fn pipeline_of(made: &Map) -> Option<String> {
    made.get("pipeline_json")?.get("id")?.as_str().map(str::to_owned)
}

/// Derives the idempotency key of the pipeline's run from the authoring run, so that every follower gets the same run.
fn key_of(thinker: RunId) -> String {
    format!("automate/{thinker}")
}

/// The response of the pipeline's run, with the log of the authoring run.
fn told(made: &Map, ended: &Ended) -> Map {
    let mut told = told_alone(ended);
    let log = |map: &Map| map.get("log").and_then(Value::as_list).unwrap_or_default().to_vec();
    let both = [log(made), log(&told)].concat();
    let field = |name: &str| made.get(name).cloned().unwrap_or_default();
    let entries = [
        ("pipeline", field("pipeline_json")),
        ("log", Value::list(both)),
        ("thinker_run_id", field("run_id")),
        ("usage", field("usage")),
    ];
    told.extend(entries.into_iter().map(|(key, value)| (key.into(), value)));
    told
}

/// The response of the pipeline's run alone.
fn told_alone(ended: &Ended) -> Map {
    let mut told = ended.result();
    told.insert("status".into(), flowloom_formats::steps::status_word(ended.state.status).into());
    told.insert("run_id".into(), ended.id.to_string().into());
    told
}

/// Encodes stages; the event `complete` of the authoring run becomes `pipeline`, since the stream continues.
struct Thinking(Stages);

impl Teller for Thinking {
    fn event(&mut self, record: &Record) -> Vec<Sse> {
        let hear = |happened: Happened| match &*happened.name {
            "complete" => Happened { name: "pipeline".into(), ..happened },
            _ => happened,
        };
        let told = self.0.hear(record).map(hear);
        told.map(|told| sse(&told, (record.run, record.seq))).into_iter().collect()
    }
}
