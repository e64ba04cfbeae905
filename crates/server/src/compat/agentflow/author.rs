//! Creates pipelines from plain language: `/api/clarify`, `/api/create-agent` and its stream (docs/author.md).

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event as Sse;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::authoring::happened::Happened;
use flowloom_app::authoring::{BuiltIn, How, Job, Telling, value_of};
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::NewRun;
use flowloom_app::runs::supervisor::Begun;
use flowloom_author::clarify::Said;
use flowloom_core::code::Code;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::wire::{last_of, sse};
use crate::body::Body;
use crate::caller::Caller;
use crate::compat::runs::{Ended, run};
use crate::guard;
use crate::params::Params;
use crate::problem::{Answer, Document, Problem};
use crate::runs::answer::owned;
use crate::runs::events::{self, Teller};
use crate::runs::start::Call;
use crate::state::Server;

/// A message of the clarification.
#[derive(Deserialize, Serialize, ToSchema)]
pub(crate) struct Message {
    /// The user's text.
    message: String,
    /// Earlier messages of `user` and `assistant`.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    history: Vec<Said>,
    /// User who owns the run; a key that belongs to a user determines it.
    #[serde(default, skip_serializing)]
    user_id: Option<String>,
}

/// Asks a question if a goal is unclear; after three answers the goal is accepted as it is.
#[utoipa::path(post, path = "/api/clarify", operation_id = "agentflow_clarify", tag = "AgentFlow", security(("key" = ["run"])), request_body = Message,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{ready, refined_intent, question}`"), (status = 400, body = Document), (status = 404, body = Document),
        (status = 409, body = Document), (status = 422, description = "The model returned no usable answer", body = Document)))]
pub(crate) async fn clarify(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(said, text): Body<Message>,
) -> Answer<Response> {
    let call = Call::admitted(&server, &caller, said.user_id.clone(), &headers)?;
    let definition = built_in(&call, BuiltIn::Clarifier).await?;
    let mut inputs = value_of(&said)?.as_map().cloned().unwrap_or_default();
    inputs.insert("how".into(), value_of(&How::of(&server.app.config))?);
    let ended = run(&call, &definition, starting(&server, inputs.into()), &text).await?;
    match (&ended.state.error, ended.state.status) {
        (None, Status::Succeeded) => Ok(Json(ended.presented.output).into_response()),
        (Some(error), _) => Err(Problem::from(error.clone())),
        (None, _) => Ok(ended.answer(Map::new())),
    }
}

/// A goal in plain language.
#[derive(Clone, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wish {
    /// The goal, complete without the earlier conversation.
    pub(crate) intent: String,
    /// User who owns the pipeline; a key that belongs to a user determines it.
    #[serde(default)]
    pub(crate) user_id: Option<String>,
}

impl Wish {
    pub(crate) fn check(&self) -> Answer<()> {
        match self.intent.trim().is_empty() {
            true => Err(Problem::new(Code::RequestInvalid, "the intent is empty")),
            false => Ok(()),
        }
    }
}

/// Creates a pipeline for a goal, tests it and stores it.
#[utoipa::path(post, path = "/api/create-agent", operation_id = "agentflow_create_agent", tag = "AgentFlow", security(("key" = ["write"])), request_body = Wish,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{pipeline_json, status, log, missing_blocks, usage, run_id}`"), (status = 202, description = "The run takes longer than a request may wait"),
        (status = 400, body = Document), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn create_agent(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(wish, text): Body<Wish>,
) -> Answer<Response> {
    caller.may(Scope::Write)?;
    wish.check()?;
    let call = Call::admitted(&server, &caller, wish.user_id.clone(), &headers)?;
    let ended = thought(&call, &wish, &text).await?;
    Ok(ended.answer(authored(&ended)))
}

/// Like `/api/create-agent`, with an event per stage. After a lost connection, `Last-Event-ID` continues the stream; if
/// no events are left, the response is 204, so that a browser's `EventSource` does not start another run.
#[utoipa::path(post, path = "/api/create-agent/stream", operation_id = "agentflow_create_agent_stream", tag = "AgentFlow", security(("key" = ["write"])), request_body = Wish,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = Document), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn create_agent_stream(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Body(wish, text): Body<Wish>,
) -> Answer<Response> {
    stream(&server, &caller, &headers, (wish, &text)).await
}

/// Like the POST route, for a browser's `EventSource`, which can only send GET. Rejects pages of other sites.
#[utoipa::path(get, path = "/api/create-agent/stream", operation_id = "agentflow_follow_create_agent", tag = "AgentFlow", security(("key" = ["write"])),
    params(Wish, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and goal start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = Document), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn follow_create_agent(
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
    if let Some((run, after)) = last_of(headers) {
        let run = owned(server, caller, &run.to_string())?;
        return go_on(server, run, after).await;
    }
    let call = Call::admitted(server, caller, wish.user_id.clone(), headers)?;
    let Begun { id, heard, .. } = begin(&call, &wish, text).await?;
    let heard = heard.or_else(|| server.live.subscribe(id));
    Ok(events::heard_from(server.clone(), id, (0, Box::new(Stages::after(0))), heard))
}

/// Starts an authoring run, or finds the run that the same request has started.
pub(crate) async fn begin(call: &Call<'_>, wish: &Wish, request: &str) -> Answer<Begun> {
    let definition = built_in(call, BuiltIn::Thinker).await?;
    let starting = NewRun { is_heard: true, ..starting(call.server, job(call, wish).await?) };
    call.once(request, async |id| call.begin(&definition, NewRun { id, ..starting }).await).await
}

/// Streams the events of an authoring run after the last one that the client has.
async fn go_on(server: &Server, run: RunId, after: u64) -> Answer<Response> {
    let opened = server.app.open_id(run).await?;
    if opened.state().status.is_final() {
        let mut telling = Telling::default();
        let has_more = opened.records.iter().any(|record| telling.hear(record).is_some() && record.seq > after);
        if !has_more {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let heard = server.live.subscribe(run);
    Ok(events::heard_from(server.clone(), run, (0, Box::new(Stages::after(after))), heard))
}

/// Encodes the stages of an authoring run in AgentFlow's form.
pub(crate) struct Stages {
    telling: Telling,
    /// Sequence number of the last event that the client has.
    after: u64,
}

impl Stages {
    pub(crate) fn after(after: u64) -> Stages {
        Stages { telling: Telling::default(), after }
    }

    /// Converts an event that the client does not have yet.
    pub(crate) fn hear(&mut self, record: &Record) -> Option<Happened> {
        // Earlier events are read, too, because later ones depend on them.
        self.telling.hear(record).filter(|_| record.seq > self.after)
    }
}

impl Teller for Stages {
    fn event(&mut self, record: &Record) -> Vec<Sse> {
        let told = self.hear(record);
        told.map(|told| sse(&told, (record.run, record.seq))).into_iter().collect()
    }
}

/// Runs the authoring pipeline to its end.
pub(crate) async fn thought(call: &Call<'_>, wish: &Wish, request: &str) -> Answer<Ended> {
    let definition = built_in(call, BuiltIn::Thinker).await?;
    let inputs = job(call, wish).await?;
    run(call, &definition, starting(call.server, inputs), request).await
}

/// AgentFlow's response to a finished authoring run, successful or not.
pub(crate) fn authored(ended: &Ended) -> Map {
    let mut telling = Telling::default();
    let told: Vec<_> = ended.records.iter().filter_map(|record| telling.hear(record)).collect();
    let mut answer = ended.presented.output.as_map().cloned().unwrap_or_default();
    if ended.state.status != Status::Succeeded {
        let last = told.iter().rev().find(|told| told.name == "error");
        let said = |key: &str| last.and_then(|told| told.data.get(key)).cloned();
        answer = Map::from_iter([
            ("pipeline_json".into(), Value::Null),
            ("status".into(), flowloom_formats::steps::status_word(ended.state.status).into()),
            ("log".into(), Value::list(told.iter().map(|told| told.data.clone()).collect())),
            ("missing_blocks".into(), said("missing_blocks").unwrap_or_else(|| Value::list(Vec::new()))),
            ("reason".into(), said("error").unwrap_or_default()),
            ("code".into(), said("code").unwrap_or_default()),
        ]);
    }
    answer.insert("usage".into(), telling.usage());
    answer.insert("run_id".into(), ended.id.to_string().into());
    answer
}

/// Compiles a built-in workflow for the caller.
async fn built_in(call: &Call<'_>, which: BuiltIn) -> Answer<Definition> {
    let (server, owner) = (call.server.clone(), call.user().to_owned());
    let found = crate::blocking::blocking(move || server.catalog.passing(&owner, which.id(), which.content()));
    Ok(found.await??)
}

async fn job(call: &Call<'_>, wish: &Wish) -> Answer<Value> {
    let shared = call.server.clone();
    // Files of the folder take precedence over stored definitions, so a pipeline stored under the id of a file could
    // not be run.
    let taken = crate::blocking::blocking(move || shared.catalog.ids_in_folder()).await?;
    let how = How { keep: true, taken, ..How::of(&call.server.app.config) };
    Ok(value_of(&Job::new(&wish.intent, call.user(), how))?)
}

fn starting(server: &Server, inputs: Value) -> NewRun {
    NewRun { budget: server.app.config.author.budget.clone(), ..NewRun::with(inputs) }
}
