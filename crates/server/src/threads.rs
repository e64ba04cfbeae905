//! `/api/v1/threads`: conversations with graphs. Each turn is a run; its final event stores the messages.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::definitions::stored::is_definition_id;
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_app::runs::client_calls::read_user_answer;
use flowloom_app::runs::commands::{DECISION_TIMEOUT, new_command};
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::turns::{ThreadTurn, list_open_turns, list_waiting_turns};
use flowloom_core::code::Code;
use flowloom_core::event::MemoryWrite;
use flowloom_core::id::RunId;
use flowloom_core::value::{Blob, Map, Value};
use flowloom_formats::present_stored_messages;
use flowloom_runtime::command::CommandAction;
use flowloom_runtime::journal::{Journal as _, thread_namespace};
use flowloom_store::{Actor, Store};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::{run_blocking, run_reading};
use crate::body::JsonObject;
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::{WaitQuery, name_started_run, open_run, respond_with_run};
use crate::runs::run_schema::RunSchema;
use crate::runs::start::StartContext;
use crate::state::{RunHost, Server};

/// The routes of conversations.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(list_threads)).routes(routes!(get_thread, send_message, delete_thread))
}

/// The default thread, which `flowloom chat` uses, too.
pub(crate) const DEFAULT_THREAD: &str = "default";

/// Separates workflow and thread in a memory key; not allowed in ids.
const KEY_SEPARATOR: char = '\u{1}';

/// The memory key of a thread.
pub(crate) fn thread_key(workflow: &str, thread: &str) -> String {
    if thread == DEFAULT_THREAD { workflow.to_owned() } else { format!("{workflow}{KEY_SEPARATOR}{thread}") }
}

/// The name of the thread with this memory key.
pub(crate) fn thread_name(key: &str) -> &str {
    key.split_once(KEY_SEPARATOR).map_or(DEFAULT_THREAD, |(_, thread)| thread)
}

/// A conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct ThreadInfo {
    /// Id of the graph.
    workflow: String,
    /// Name of the thread; `default` is the thread of `flowloom chat`.
    thread: String,
    /// Number of messages.
    messages: usize,
    /// The start of the first message.
    title: String,
}

/// Maximum length of the title of a conversation, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// The start of the first message that has a text.
fn thread_title(messages: &[Value]) -> String {
    let mut texts = messages.iter().filter_map(|message| message.get("content")?.as_str());
    let first = texts.find(|text| !text.trim().is_empty()).unwrap_or_default();
    first.trim().lines().next().unwrap_or_default().chars().take(MAX_TITLE_CHARS).collect()
}

/// The user's conversations.
#[derive(Serialize, ToSchema)]
pub(crate) struct ThreadList {
    #[schema(value_type = Vec<ThreadInfo>)]
    items: BoundedList,
}

/// Lists the user's conversations.
#[utoipa::path(get, path = "/api/v1/threads", operation_id = "list_threads", tag = "threads", security(("key" = ["read"])), params(OwnerQuery), responses((status = 200, body = ThreadList)))]
pub(crate) async fn list_threads(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<ThreadList>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let list = async move || {
        let threads = store.read_memories(&thread_namespace(&store.owner_of(&user))).await?;
        Ok(Json(ThreadList { items: BoundedList::of_items(list_conversations(&threads).into_iter()) }))
    };
    run_reading(list).await
}

/// The conversations among the memories of a user.
fn list_conversations(threads: &Map) -> Vec<ThreadInfo> {
    let thread = |(key, messages_value): (&Arc<str>, &Value)| {
        let workflow = key.split(KEY_SEPARATOR).next().unwrap_or_default();
        let messages = messages_value.as_list().unwrap_or_default();
        ThreadInfo {
            workflow: workflow.to_owned(),
            thread: thread_name(key).to_owned(),
            messages: messages.len(),
            title: thread_title(messages),
        }
    };
    threads.iter().map(thread).collect()
}

/// The messages of a conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct ThreadMessages {
    #[schema(value_type = Vec<Object>)]
    messages: Value,
}

async fn load_messages(store: &Arc<Store>, user: &str, key: &str) -> ApiResult<Option<Value>> {
    let (store, user, key) = (store.clone(), user.to_owned(), key.to_owned());
    run_reading(async move || Ok(store.read_memory(&thread_namespace(&store.owner_of(&user)), &key).await?)).await
}

/// Returns the messages of a conversation.
#[utoipa::path(get, path = "/api/v1/threads/{workflow}/{thread}", operation_id = "get_thread", tag = "threads", security(("key" = ["read"])),
    params(("workflow" = String, Path), ("thread" = String, Path), OwnerQuery), responses((status = 200, body = ThreadMessages), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_thread(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam((workflow, thread)): PathParam<(String, String)>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<ThreadMessages>> {
    caller.require_scope(Scope::Read)?;
    let (user, key) = (caller.resolve_user(whose.user)?, thread_key(&workflow, &thread));
    host.busy_threads.wait_until_stored(&user, &key).await;
    let found = load_messages(&host.app.store, &user, &key).await?;
    let stored = found.ok_or_else(|| Problem::not_found("thread", &thread))?;
    Ok(Json(ThreadMessages { messages: present_stored_messages(&stored) }))
}

/// Deletes a conversation.
#[utoipa::path(delete, path = "/api/v1/threads/{workflow}/{thread}", operation_id = "delete_thread", tag = "threads", security(("key" = ["run"])),
    params(("workflow" = String, Path), ("thread" = String, Path), OwnerQuery), responses((status = 204, description = "Deleted"), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn delete_thread(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam((workflow, thread)): PathParam<(String, String)>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<StatusCode> {
    caller.require_scope(Scope::Run)?;
    let (user, key) = (caller.resolve_user(whose.user)?, thread_key(&workflow, &thread));
    let _turn = ThreadTurn::acquire(&host.busy_threads, &user, &key).await?;
    if load_messages(&host.app.store, &user, &key).await?.is_none() {
        return Err(Problem::not_found("thread", &thread));
    }
    cancel_open_turns(&host, &user, &key).await?;
    let store = &host.app.store;
    store.write_memory(thread_namespace(&store.owner_of(&user)), vec![MemoryWrite { key, value: None }]).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A message of the user.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageRequest {
    /// The text.
    message: String,
    /// Images and text files that belong to the message.
    #[serde(default)]
    files: Vec<AttachedFile>,
    /// Number of earlier messages to keep; the rest of the conversation is replaced by this turn. Default: all.
    #[serde(default)]
    keep: Option<usize>,
    /// User who owns the conversation, if the key does not determine it.
    #[serde(default)]
    user: Option<String>,
}

/// A file that belongs to a message: an image, or UTF-8 text.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachedFile {
    name: String,
    /// Media type, for example `image/png`.
    mime: String,
    /// The content, base64-encoded.
    base64: String,
}

/// Sends a message to a conversation; the first message creates it. If the conversation waits for an answer, the
/// message is the answer. With `Accept: text/event-stream`, the response streams the events of the turn.
#[utoipa::path(post, path = "/api/v1/threads/{workflow}/{thread}", operation_id = "send_message", tag = "threads", security(("key" = ["run"])), request_body = MessageRequest,
    params(("workflow" = String, Path), ("thread" = String, Path), WaitQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single turn"),
        ("Last-Event-ID" = Option<u64>, Header, description = "For a stream that is repeated with its Idempotency-Key: number of the last event that the client has")),
    responses((status = 200, description = "The turn has ended", body = RunSchema), (status = 202, description = "The turn is still running or waiting", body = RunSchema),
        (status = 404, body = ProblemDocument), (status = 409, description = "Another turn of the conversation is running", body = ProblemDocument), (status = 422, body = ProblemDocument), (status = 429, body = ProblemDocument)))]
pub(crate) async fn send_message(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam((workflow, thread)): PathParam<(String, String)>,
    QueryParams(waiting): QueryParams<WaitQuery>,
    headers: HeaderMap,
    JsonObject(message, text): JsonObject<MessageRequest>,
) -> ApiResult<Response> {
    let call = StartContext::admit_caller(&host, &caller, message.user, &headers)?;
    let request = format!("{}\n{text}", thread_key(&workflow, &thread));
    let run = call.start_once(&request, async |id| {
        let definition = call.find_definition(&workflow).await?;
        let sent = UserMessage {
            files: &message.files,
            keep: message.keep,
            ..UserMessage::new(&definition, &thread, &message.message)
        };
        run_turn(&call, sent, id).await
    });
    respond_with_run(&host, run.await?, waiting, &headers).await
}

/// The run of a thread that waits for an answer.
pub(crate) async fn find_waiting_run(host: &Arc<RunHost>, user: &str, key: &str) -> ApiResult<Option<RunId>> {
    let (store, whose, thread) = (host.app.store.clone(), user.to_owned(), key.to_owned());
    for run in run_blocking(move || list_waiting_turns(&store, &whose, &thread)).await?? {
        // A run that waits for a time has no question.
        let state = open_run(&host.app.runs, run).await?.state();
        if state.open_steps().any(|step| step.question.is_some()) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Cancels the turns of a thread that wait for a person: the caller replaces their messages.
async fn cancel_open_turns(host: &Arc<RunHost>, user: &str, key: &str) -> ApiResult<()> {
    let (store, whose, thread) = (host.app.store.clone(), user.to_owned(), key.to_owned());
    for run in run_blocking(move || list_open_turns(&store, &whose, &thread)).await?? {
        let command = new_command(None, user, CommandAction::Cancel {});
        let by = Actor::of_conversation(user);
        let opened = open_run(&host.app.runs, run).await?;
        host.service.send_command(opened, command, &by, DECISION_TIMEOUT).await?;
    }
    Ok(())
}

fn check_thread_name(thread: &str) -> ApiResult<()> {
    match is_definition_id(thread) {
        true => Ok(()),
        false => Err(Problem::new(Code::RequestInvalid, format!("{thread:?} is not a valid thread name"))),
    }
}

/// Starts a run of a workflow that is no conversation in a thread, whose next message answers what it asks.
pub(crate) async fn start_in_thread(
    call: &StartContext<'_>,
    definition: &CatalogEntry,
    thread: &str,
    new: StartRunRequest,
) -> ApiResult<ActiveRun> {
    check_thread_name(thread)?;
    let key = thread_key(&definition.id, thread);
    let turn = ThreadTurn::acquire(&call.host.busy_threads, call.user(), &key).await?;
    let run = call.start_run(definition, StartRunRequest { thread: Some(key), ..new }).await?;
    store_turn(call.host, turn, run).await
}

/// Holds a thread until the run of its turn is over, and waits until the run is stored.
async fn store_turn(host: &Arc<RunHost>, turn: ThreadTurn, run: ActiveRun) -> ApiResult<ActiveRun> {
    turn.hold_until_end(run.id);
    let stored = host.service.wait_until_stored(run.id, run.completion.clone()).await;
    name_started_run(host, run.id, run.completion.as_ref(), stored.map_err(Problem::from))?;
    Ok(run)
}

/// A user's message to a conversation.
pub(crate) struct UserMessage<'a> {
    pub(crate) definition: &'a CatalogEntry,
    pub(crate) thread: &'a str,
    pub(crate) text: &'a str,
    /// Images and text files that belong to the message.
    pub(crate) files: &'a [AttachedFile],
    /// Number of earlier messages to keep; `None` keeps all.
    pub(crate) keep: Option<usize>,
    /// Whether the request streams events.
    pub(crate) subscribes: bool,
    /// Limits of the run.
    pub(crate) budget: Option<String>,
}

impl<'a> UserMessage<'a> {
    /// A text in a thread.
    pub(crate) fn new(definition: &'a CatalogEntry, thread: &'a str, text: &'a str) -> UserMessage<'a> {
        UserMessage { definition, thread, text, files: &[], keep: None, subscribes: false, budget: None }
    }

    /// The message as an input of a run: a text, or a list of a text and files.
    fn to_input(&self) -> Value {
        if self.files.is_empty() {
            return self.text.into();
        }
        let files =
            self.files.iter().map(|file| Value::Blob(Arc::new(Blob::new(&file.name, &file.mime, &file.base64))));
        let text = (!self.text.is_empty()).then(|| self.text.into());
        Value::list(text.into_iter().chain(files).collect())
    }

    /// The earlier messages that the turn continues. Fails with `RequestInvalid` if fewer exist than are to be kept.
    fn select_earlier(&self, stored: Option<Value>) -> ApiResult<Value> {
        let stored = stored.unwrap_or_else(|| Value::list(Vec::new()));
        let Some(keep) = self.keep else { return Ok(stored) };
        let all = stored.as_list().unwrap_or_default();
        let kept = all.get(..keep).ok_or_else(|| {
            let message = format!("keep is {keep}, but the conversation has {} messages", all.len());
            Problem::new(Code::RequestInvalid, message)
        })?;
        Ok(Value::list(kept.to_vec()))
    }

    /// Fails unless the message can be a turn of a conversation.
    fn check(&self) -> ApiResult<()> {
        check_thread_name(self.thread)?;
        let is_talk = self.definition.prepared.as_ref().is_none_or(|prepared| prepared.plan.thread.is_some());
        if !is_talk {
            let message = format!("{} is not a conversation; start it with POST /api/v1/runs", self.definition.id);
            return Err(Problem::new(Code::RequestInvalid, message));
        }
        Ok(())
    }
}

/// Runs a turn of a conversation: answers the question of its waiting run, or else starts a run with the earlier
/// messages. A turn that replaces messages cancels the waiting run.
pub(crate) async fn run_turn(
    call: &StartContext<'_>,
    sent: UserMessage<'_>,
    id: Option<RunId>,
) -> ApiResult<ActiveRun> {
    sent.check()?;
    let (host, key) = (call.host, thread_key(&sent.definition.id, sent.thread));
    let turn = ThreadTurn::acquire(&host.busy_threads, call.user(), &key).await?;
    let run = match find_waiting_run(host, call.user(), &key).await? {
        Some(run) if sent.keep.is_none() => {
            if !sent.files.is_empty() {
                let message = "the conversation waits for an answer, and an answer is text without files";
                return Err(Problem::new(Code::RequestInvalid, message));
            }
            answer_with_text(call, open_run(&host.app.runs, run).await?, sent.text, id).await?
        }
        _ => {
            let earlier = sent.select_earlier(load_messages(&host.app.store, call.user(), &key).await?)?;
            if sent.keep.is_some() {
                cancel_open_turns(host, call.user(), &key).await?;
            }
            // Lists of runs show the beginning of the inputs.
            let inputs = Value::map([("message", sent.to_input()), ("messages", earlier)]);
            let new = StartRunRequest {
                thread: Some(key),
                needs_events: sent.subscribes,
                budget: sent.budget.clone(),
                id,
                ..StartRunRequest::with_inputs(inputs)
            };
            call.start_run(sent.definition, new).await?
        }
    };
    store_turn(host, turn, run).await
}

/// Answers the first question of a waiting run with a text and resumes the run. Fails with `RequestInvalid` if the run
/// waits only for results of its client's tools, and with `RunOwned` if it asks nothing any more.
async fn answer_with_text(
    call: &StartContext<'_>,
    opened: LoadedRun,
    text: &str,
    reserved: Option<RunId>,
) -> ApiResult<ActiveRun> {
    let answer = read_user_answer(opened.id, &opened.plan, &opened.state(), text)?;
    let (path, value) = answer.ok_or(AppError::ThreadBusy)?;
    let answer = CommandAction::Answer { path, value };
    Ok(call.host.service.send_answer_once(opened, answer, &call.start, reserved).await?)
}

/// Does something with a waiting run that resumes it, and holds the run's thread until the run is over.
pub(crate) async fn resume_in_turn(
    host: &Arc<RunHost>,
    opened: LoadedRun,
    resume: impl AsyncFnOnce(LoadedRun) -> Result<ActiveRun, AppError>,
) -> ApiResult<ActiveRun> {
    let created = opened.state().created;
    let thread = created.as_ref().and_then(|created| Some((&created.user, created.thread_key.as_ref()?)));
    let turn = match thread {
        Some((user, key)) => Some(ThreadTurn::acquire(&host.busy_threads, user, key).await?),
        None => None,
    };
    let run = resume(opened).await?;
    if let Some(turn) = turn {
        turn.hold_until_end(run.id);
    }
    Ok(run)
}
