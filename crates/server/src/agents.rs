//! `/api/v1/agents/{name}/chat`: a conversation with an agent, whose tools are workflows (docs/formats/agent.md).

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::definitions::stored::Content;
use flowloom_core::code::Code;
use flowloom_formats::agent;
use flowloom_store::Kind;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::body::Body;
use crate::caller::Caller;
use crate::definitions::parts;
use crate::params::{At, Params};
use crate::problem::{Answer, Document, Problem};
use crate::runs::answer::{Waiting, answer};
use crate::runs::start::Call;
use crate::state::Server;
use crate::threads::{Saying, USUAL, talk};

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(chat))
}

/// The prefix with which AnythingLLM users address the agent.
const ADDRESS: &str = "@agent";

/// The message used if the prefix is not followed by any text.
const GREETING: &str = "Hello!";

/// A message to an agent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chat {
    /// The text. A leading `@agent` is removed.
    message: String,
    /// The conversation; `default` if unset.
    #[serde(default)]
    thread: Option<String>,
    /// The user who owns the conversation, if the key does not determine it.
    #[serde(default)]
    user: Option<String>,
}

/// Sends a message to an agent: a definition with that id, an agent stored at `/api/v1/agents/{name}`, or `default`,
/// which uses all active workflows as tools. With `Accept: text/event-stream` the response streams the events of the
/// turn.
#[utoipa::path(post, path = "/api/v1/agents/{name}/chat", operation_id = "chat", tag = "agents", security(("key" = ["run"])), request_body = Chat,
    params(("name" = String, Path), Waiting,
        ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single turn")),
    responses((status = 200, description = "The turn has ended"), (status = 202, description = "The turn is still running or waiting"),
        (status = 404, body = Document), (status = 409, description = "Another turn of the conversation is running", body = Document), (status = 422, body = Document), (status = 429, body = Document)))]
pub(crate) async fn chat(
    State(server): State<Server>,
    caller: Caller,
    At(name): At<String>,
    Params(waiting): Params<Waiting>,
    headers: HeaderMap,
    Body(chat, text): Body<Chat>,
) -> Answer<Response> {
    let call = Call::admitted(&server, &caller, chat.user, &headers)?;
    let thread = chat.thread.as_deref().unwrap_or(USUAL);
    let request = format!("agent {name}\n{text}");
    let run = call.once(&request, async |id| {
        let agent = find(&call, &name).await?;
        let saying = Saying { definition: &agent, thread, text: said(&chat.message), is_heard: false };
        talk(&call, saying, id).await
    });
    answer(&server, run.await?, waiting, &headers).await
}

fn said(message: &str) -> &str {
    let rest = message.trim().strip_prefix(ADDRESS).unwrap_or(message).trim();
    if rest.is_empty() { GREETING } else { rest }
}

/// Finds the agent called `name`.
async fn find(call: &Call<'_>, name: &str) -> Answer<Arc<Definition>> {
    match call.definition(name).await {
        Ok(definition) if definition.format == agent::FORMAT => return Ok(definition),
        Ok(_) => {}
        Err(problem) if problem.code() == Code::NotThere => {}
        Err(problem) => return Err(problem),
    }
    let text = match parts::find(call.server, call.user().to_owned(), Kind::Agent, name).await {
        Ok(row) => row.content,
        Err(_) if name == USUAL => agent::USUAL.to_owned(),
        Err(_) => return Err(Problem::not_there("agent", name)),
    };
    let content = Content::agent(text);
    // A workflow may have the same id, and conversations are stored under it.
    let (server, holder, id) = (call.server.clone(), call.user().to_owned(), format!("agent:{name}"));
    Ok(Arc::new(crate::blocking::blocking(move || server.catalog.passing(&holder, &id, content)).await??))
}
