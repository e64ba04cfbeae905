//! `/api/v1/threads`: conversations with graphs. Each turn is a run; its final event stores the messages.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::definitions::stored::is_id;
use flowloom_app::engines::Opened;
use flowloom_app::keys::Scope;
use flowloom_app::runs::inputs::said as read_answer;
use flowloom_app::runs::service::NewRun;
use flowloom_app::runs::supervisor::Begun;
use flowloom_app::runs::turns::Turn;
use flowloom_core::code::Code;
use flowloom_core::event::MemoryWrite;
use flowloom_core::id::RunId;
use flowloom_core::path::Path as StepPath;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::journal::{Journal as _, Wish, thread_holder};
use flowloom_store::{RunFilter, Store};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::body::Body;
use crate::caller::Caller;
use crate::definitions::change::Whose;
use crate::params::{At, Params};
use crate::problem::{Answer, Document, Problem};
use crate::runs::answer::{Waiting, answer};
use crate::runs::start::Call;
use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get, say, remove))
}

/// The default thread, which `flowloom chat` uses, too.
pub(crate) const USUAL: &str = "default";

/// Separates workflow and thread in a memory key; not allowed in ids.
const BETWEEN: char = '\u{1}';

/// The memory key of a thread.
fn key_of(workflow: &str, thread: &str) -> String {
    if thread == USUAL { workflow.to_owned() } else { format!("{workflow}{BETWEEN}{thread}") }
}

/// A conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Thread {
    /// Id of the graph.
    workflow: String,
    /// Name of the thread; `default` is the thread of `flowloom chat`.
    thread: String,
    /// Number of messages.
    messages: usize,
}

/// The user's conversations.
#[derive(Serialize, ToSchema)]
pub(crate) struct Threads {
    items: Vec<Thread>,
}

/// Lists the user's conversations.
#[utoipa::path(get, path = "/api/v1/threads", operation_id = "list_threads", tag = "threads", security(("key" = ["read"])), params(Whose), responses((status = 200, body = Threads)))]
pub(crate) async fn list(
    State(store): State<Arc<Store>>,
    caller: Caller,
    Params(whose): Params<Whose>,
) -> Answer<Json<Threads>> {
    caller.may(Scope::Read)?;
    let kept = store.memories(&thread_holder(&caller.acts_for(whose.user)?)).await?;
    let thread = |(key, said): (&Arc<str>, &Value)| {
        let (workflow, thread) = key.split_once(BETWEEN).unwrap_or((key, USUAL));
        let messages = said.as_list().map_or(0, <[Value]>::len);
        Thread { workflow: workflow.to_owned(), thread: thread.to_owned(), messages }
    };
    Ok(Json(Threads { items: kept.iter().map(thread).collect() }))
}

/// The messages of a conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Said {
    #[schema(value_type = Vec<Object>)]
    messages: Value,
}

async fn said(server: &Server, owner: &str, key: &str) -> Answer<Option<Value>> {
    Ok(server.app.store.memory(&thread_holder(owner), key).await?)
}

/// Returns the messages of a conversation.
#[utoipa::path(get, path = "/api/v1/threads/{workflow}/{thread}", operation_id = "get_thread", tag = "threads", security(("key" = ["read"])),
    params(("workflow" = String, Path), ("thread" = String, Path), Whose), responses((status = 200, body = Said), (status = 404, body = Document)))]
pub(crate) async fn get(
    State(server): State<Server>,
    caller: Caller,
    At((workflow, thread)): At<(String, String)>,
    Params(whose): Params<Whose>,
) -> Answer<Json<Said>> {
    caller.may(Scope::Read)?;
    let found = said(&server, &caller.acts_for(whose.user)?, &key_of(&workflow, &thread)).await?;
    Ok(Json(Said { messages: found.ok_or_else(|| Problem::not_there("thread", &thread))? }))
}

/// Deletes a conversation.
#[utoipa::path(delete, path = "/api/v1/threads/{workflow}/{thread}", operation_id = "delete_thread", tag = "threads", security(("key" = ["run"])),
    params(("workflow" = String, Path), ("thread" = String, Path), Whose), responses((status = 204, description = "Deleted"), (status = 404, body = Document), (status = 409, body = Document)))]
pub(crate) async fn remove(
    State(server): State<Server>,
    caller: Caller,
    At((workflow, thread)): At<(String, String)>,
    Params(whose): Params<Whose>,
) -> Answer<StatusCode> {
    caller.may(Scope::Run)?;
    let (owner, key) = (caller.acts_for(whose.user)?, key_of(&workflow, &thread));
    let _turn = Turn::begin(&server.busy, &owner, &key).await?;
    if said(&server, &owner, &key).await?.is_none() {
        return Err(Problem::not_there("thread", &thread));
    }
    server.app.store.remember(thread_holder(&owner), vec![MemoryWrite { key, value: None }]).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A message of the user.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    /// The text.
    message: String,
    /// User who owns the conversation, if the key does not determine it.
    #[serde(default)]
    user: Option<String>,
}

/// Sends a message to a conversation; the first message creates it. If the conversation waits for an answer, the
/// message is the answer. With `Accept: text/event-stream`, the response streams the events of the turn.
#[utoipa::path(post, path = "/api/v1/threads/{workflow}/{thread}", operation_id = "say", tag = "threads", security(("key" = ["run"])), request_body = Message,
    params(("workflow" = String, Path), ("thread" = String, Path), Waiting,
        ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single turn")),
    responses((status = 200, description = "The turn has ended"), (status = 202, description = "The turn is still running or waiting"),
        (status = 404, body = Document), (status = 409, description = "Another turn of the conversation is running", body = Document), (status = 422, body = Document), (status = 429, body = Document)))]
pub(crate) async fn say(
    State(server): State<Server>,
    caller: Caller,
    At((workflow, thread)): At<(String, String)>,
    Params(waiting): Params<Waiting>,
    headers: HeaderMap,
    Body(message, text): Body<Message>,
) -> Answer<Response> {
    let call = Call::admitted(&server, &caller, message.user, &headers)?;
    let request = format!("{}\n{text}", key_of(&workflow, &thread));
    let run = call.once(&request, async |id| {
        let definition = call.definition(&workflow).await?;
        let saying = Saying { definition: &definition, thread: &thread, text: &message.message, is_heard: false };
        talk(&call, saying, id).await
    });
    answer(&server, run.await?, waiting, &headers).await
}

/// The run of a thread that waits for an answer.
async fn asked(server: &Server, owner: &str, key: &str) -> Answer<Option<RunId>> {
    let filter = RunFilter {
        holder: Some(owner.to_owned()),
        keep: Some(key.to_owned()),
        status: Some(Status::Waiting.name().to_owned()),
        limit: 1,
        ..RunFilter::default()
    };
    let shared = server.clone();
    let rows = crate::blocking::blocking(move || shared.app.store.runs_of(&filter)).await??;
    let Some(row) = rows.first() else { return Ok(None) };
    // A run that waits for a time has no question.
    let state = server.app.open_id(row.id).await?.state();
    Ok(state.steps().iter().any(|step| step.question.is_some()).then_some(row.id))
}

/// A user's message to a conversation.
pub(crate) struct Saying<'a> {
    pub(crate) definition: &'a Definition,
    pub(crate) thread: &'a str,
    pub(crate) text: &'a str,
    /// Whether the request streams events.
    pub(crate) is_heard: bool,
}

/// Runs a turn of a conversation: answers the question of its waiting run, or else starts a run with the earlier
/// messages.
pub(crate) async fn talk(call: &Call<'_>, saying: Saying<'_>, id: Option<RunId>) -> Answer<Begun> {
    let Saying { definition, thread, text, is_heard } = saying;
    if !is_id(thread) {
        return Err(Problem::new(Code::RequestInvalid, format!("{thread:?} is not a valid thread name")));
    }
    let is_talk = definition.prepared.as_ref().is_none_or(|prepared| prepared.plan.thread.is_some());
    if !is_talk {
        let message = format!("{} is not a conversation; start it with POST /api/v1/runs", definition.id);
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    let (server, key) = (call.server, key_of(&definition.id, thread));
    let turn = Turn::begin(&server.busy, call.user(), &key).await?;
    let run = match asked(server, call.user(), &key).await? {
        Some(run) => {
            call.is_for(run).await?;
            reply(server, server.app.open_id(run).await?, text, call.user()).await?
        }
        None => {
            let before = said(server, call.user(), &key).await?.unwrap_or_else(|| Value::list(Vec::new()));
            let inputs = Value::map([("messages", before), ("message", text.into())]);
            let new = NewRun { thread: Some(key), is_heard, id, ..NewRun::with(inputs) };
            call.begin(definition, new).await?
        }
    };
    turn.follow(run.id);
    server.runs.stored(run.id, run.ending.clone()).await?;
    Ok(run)
}

/// Answers the first question of a waiting run with a text and resumes the run.
async fn reply(server: &Server, opened: Opened, text: &str, by: &str) -> Answer<Begun> {
    let state = opened.state();
    let open = state.steps().iter().find_map(|step| Some((step.path.clone(), step.question.as_ref()?)));
    let answers = open.map(|(path, asked)| (path, read_answer(asked, text)));
    settle(server, opened, answers.into_iter().collect(), by).await
}

/// Answers questions of a waiting run and resumes it.
async fn settle(server: &Server, opened: Opened, answers: Vec<(StepPath, Value)>, by: &str) -> Answer<Begun> {
    let engine = server.app.engine_of(&opened)?;
    for (path, value) in answers {
        engine.post(opened.id, Wish::Answer { path, value, by: by.to_owned() }).await?;
    }
    Ok(server.runs.go_on(opened).await?)
}

/// Answers questions of a waiting run and holds the run's thread until the run is over.
pub(crate) async fn settle_in_turn(
    server: &Server,
    opened: Opened,
    answers: Vec<(StepPath, Value)>,
    by: &str,
) -> Answer<Begun> {
    let created = opened.state().created;
    let Some((owner, key)) = created.as_ref().and_then(|created| Some((&created.owner, created.keep.as_ref()?))) else {
        return settle(server, opened, answers, by).await;
    };
    let turn = Turn::begin(&server.busy, owner, key).await?;
    let run = settle(server, opened, answers, by).await?;
    turn.follow(run.id);
    Ok(run)
}
