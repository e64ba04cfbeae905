//! `/api/v1/agents/{name}/chat`: a conversation with an agent, whose tools are workflows (docs/formats/agent.md).

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::definitions::stored::DefinitionContent;
use flowloom_app::tools::agents;
use flowloom_formats::agent;
use flowloom_store::DefinitionKind;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::body::JsonObject;
use crate::caller::Caller;
use crate::definitions::parts;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::{WaitQuery, respond_with_run};
use crate::runs::run_schema::RunSchema;
use crate::runs::start::{StartContext, look_up_definition};
use crate::state::{RunHost, Server};
use crate::threads::{AttachedFile, DEFAULT_THREAD, UserMessage, run_turn};

/// The routes of agents.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(post_chat))
}

/// A message to an agent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentChatRequest {
    /// The text. A leading `@agent` is removed.
    message: String,
    /// The conversation; `default` if unset.
    #[serde(default)]
    thread: Option<String>,
    /// Images and text files that belong to the message.
    #[serde(default)]
    files: Vec<AttachedFile>,
    /// Number of earlier messages to keep; the rest of the conversation is replaced by this turn. Default: all.
    #[serde(default)]
    keep: Option<usize>,
    /// The user who owns the conversation, if the key does not determine it.
    #[serde(default)]
    user: Option<String>,
}

/// Sends a message to an agent: a definition with that id, an agent stored at `/api/v1/agents/{name}`, or `default`,
/// which uses all active workflows as tools. With `Accept: text/event-stream` the response streams the events of the
/// turn.
#[utoipa::path(post, path = "/api/v1/agents/{name}/chat", operation_id = "chat", tag = "agents", security(("key" = ["run"])), request_body = AgentChatRequest,
    params(("name" = String, Path), WaitQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single turn")),
    responses((status = 200, description = "The turn has ended", body = RunSchema), (status = 202, description = "The turn is still running or waiting", body = RunSchema),
        (status = 404, body = ProblemDocument), (status = 409, description = "Another turn of the conversation is running", body = ProblemDocument), (status = 422, body = ProblemDocument), (status = 429, body = ProblemDocument)))]
pub(crate) async fn post_chat(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(name): PathParam<String>,
    QueryParams(waiting): QueryParams<WaitQuery>,
    headers: HeaderMap,
    JsonObject(chat, text): JsonObject<AgentChatRequest>,
) -> ApiResult<Response> {
    let call = StartContext::admit_caller(&host, &caller, chat.user, &headers)?;
    let thread = chat.thread.as_deref().unwrap_or(DEFAULT_THREAD);
    let request = format!("agent {name}\n{text}");
    let run = call.start_once(&request, async |id| {
        let agent = find_agent(&call, &name).await?;
        let text = agents::strip_mention(&chat.message);
        let turn = UserMessage { files: &chat.files, keep: chat.keep, ..UserMessage::new(&agent, thread, text) };
        run_turn(&call, turn, id).await
    });
    respond_with_run(&host, run.await?, waiting, &headers).await
}

/// Finds the agent called `name`.
async fn find_agent(call: &StartContext<'_>, name: &str) -> ApiResult<Arc<CatalogEntry>> {
    let found = look_up_definition(call.host, call.user(), name).await?;
    if let Some(definition) = found.filter(|definition| definition.format == agent::FORMAT) {
        return Ok(definition);
    }
    let text = match parts::find_row(&call.host.app.store, call.user().to_owned(), DefinitionKind::Agent, name).await {
        Ok(row) => row.content,
        Err(_) if name == DEFAULT_THREAD => agent::DEFAULT_DEFINITION.to_owned(),
        Err(_) => return Err(Problem::not_found("agent", name)),
    };
    let content = DefinitionContent::agent(text);
    // A workflow may have the same id, and conversations are stored under it.
    let (host, user, id) = (call.host.clone(), call.user().to_owned(), format!("agent:{name}"));
    let compiled =
        crate::blocking::compile_blocking(move |stop| host.catalog.compile_unstored(&user, &id, content, stop));
    Ok(Arc::new(compiled.await??))
}
