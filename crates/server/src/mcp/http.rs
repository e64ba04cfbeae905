//! `/mcp`: the MCP endpoint over HTTP. Every request is authenticated; a session belongs to the key that opened it. Another key
//! of the same user may have fewer scopes, and within a session questions are answered and calls cancelled.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any};
use flowloom_core::code::Code;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::envelope::{read_method, read_requested_version};
use super::transport::{McpTransports, session_id};
use crate::body::read_json_text;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// Path of the endpoint.
pub(crate) const MCP_PATH: &str = "/mcp";

/// Maximum number of concurrent sessions. Each uses memory until it was idle for five minutes.
const MAX_SESSIONS: usize = 1000;

/// Maximum number of concurrent sessions of one user.
const MAX_SESSIONS_OF_USER: usize = MAX_SESSIONS / 4;

/// Maximum length of a text that the protocol's library answers with, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// The method of the request that opens a session.
const OPENING_METHOD: &str = "initialize";

/// State shared by all requests.
struct McpEndpoint {
    transports: McpTransports,
    owners: Mutex<SessionOwners>,
}

/// The owner of sessions.
#[derive(Default)]
struct SessionOwners {
    /// The open sessions, by id.
    open: HashMap<String, OpenSession>,
    /// The owners of the sessions that are being opened.
    opening: Vec<SessionOwner>,
}

impl SessionOwners {
    fn count_sessions(&self, user: &Option<String>) -> SessionCounts {
        let all = || self.open.values().map(|session| &session.owner).chain(&self.opening);
        SessionCounts { all: all().count(), own: all().filter(|owner| owner.user == *user).count() }
    }
}

/// An open session.
struct OpenSession {
    owner: SessionOwner,
    /// Cancelled when the client ends the session. The protocol's library cancels its calls only after some seconds.
    end: McpSessionEnd,
}

/// The end of the session of a request; an extension of the request. A request without a session has one that never ends.
#[derive(Clone, Default)]
pub(super) struct McpSessionEnd(pub(super) CancellationToken);

/// The numbers of all sessions and of those of one user.
struct SessionCounts {
    all: usize,
    own: usize,
}

/// A session that is being opened, and counts until the answer with its id arrives.
struct OpeningSession<'a> {
    owners: &'a Mutex<SessionOwners>,
    owner: SessionOwner,
}

impl Drop for OpeningSession<'_> {
    fn drop(&mut self) {
        let mut owners = self.owners.lock();
        if let Some(index) = owners.opening.iter().position(|owner| *owner == self.owner) {
            owners.opening.swap_remove(index);
        }
    }
}

/// The caller who opened a session.
#[derive(Clone, PartialEq, Eq)]
struct SessionOwner {
    user: Option<String>,
    key_id: Option<String>,
}

impl SessionOwner {
    fn of_caller(caller: &Caller) -> SessionOwner {
        SessionOwner { user: caller.user.clone(), key_id: caller.key.as_ref().map(|key| key.id().to_owned()) }
    }
}

/// The route of the endpoint.
pub(crate) fn mcp_route(server: &Server) -> MethodRouter<Server> {
    let endpoint = Arc::new(McpEndpoint { transports: McpTransports::new(&server.host), owners: Mutex::default() });
    any(async move |State(server): State<Server>, caller: Caller, request: Request| {
        endpoint.handle(&server, caller, request).await.unwrap_or_else(|problem| problem.into_response())
    })
}

impl McpEndpoint {
    async fn handle(&self, server: &Server, caller: Caller, request: Request) -> ApiResult<Response> {
        let owner = SessionOwner::of_caller(&caller);
        let session_end = self.find_session_end(request.headers(), &owner)?;
        let (mut parts, body) = request.into_parts();
        // Read with the time-out of all request bodies.
        let text = read_json_text(server, Request::from_parts(parts.clone(), body)).await?;
        let (mut opening, mut version) = (None, None);
        if parts.method == Method::POST {
            let method = match read_method(&text) {
                Ok(method) => method,
                Err(problem) => return Ok((StatusCode::BAD_REQUEST, Json(problem)).into_response()),
            };
            if method.as_deref() == Some(OPENING_METHOD) && session_id(&parts.headers).is_none() {
                opening = Some(self.reserve_session(&owner).await?);
                version = read_requested_version(&text);
            }
        }
        parts.extensions.insert(caller);
        parts.extensions.insert(session_end.clone());
        let ends_session = parts.method == Method::DELETE;
        let transport = self.transports.find_transport(&parts.headers, version.as_deref()).await;
        let mut answer = transport.handle_request(Request::from_parts(parts, Body::from(text))).await;
        if ends_session && answer.status() == StatusCode::ACCEPTED {
            session_end.0.cancel();
            // The session has ended already. Clients take 202 for a failure.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        if let Some(id) = session_id(answer.headers()) {
            self.owners.lock().open.entry(id).or_insert_with(|| OpenSession { owner, end: McpSessionEnd::default() });
        }
        drop(opening);
        to_problem(answer).await
    }

    /// The end of the session that the headers name. Fails with `NotThere` unless the caller has opened it.
    fn find_session_end(&self, headers: &HeaderMap, owner: &SessionOwner) -> ApiResult<McpSessionEnd> {
        let Some(id) = session_id(headers) else { return Ok(McpSessionEnd::default()) };
        let owners = self.owners.lock();
        let own = owners.open.get(&id).filter(|session| session.owner == *owner);
        own.map(|session| session.end.clone()).ok_or_else(|| Problem::not_found("session", &id))
    }

    /// Reserves a place for a session. Fails with `TooManyCalls` if it would exceed a limit. All callers without a user, such
    /// as operators, count as one user.
    async fn reserve_session(&self, owner: &SessionOwner) -> ApiResult<OpeningSession<'_>> {
        if let Ok(opening) = self.try_reserve(owner) {
            return Ok(opening);
        }
        let open = self.transports.list_sessions().await;
        self.owners.lock().open.retain(|id, _| open.contains(id));
        self.try_reserve(owner).map_err(|SessionCounts { all, own }| {
            let message = format!(
                "{all} sessions are open, {own} of them of this user; the limits are {MAX_SESSIONS} and \
                 {MAX_SESSIONS_OF_USER}. Close sessions (DELETE), or wait until idle ones end"
            );
            Problem::new(Code::TooManyCalls, message)
        })
    }

    fn try_reserve(&self, owner: &SessionOwner) -> Result<OpeningSession<'_>, SessionCounts> {
        let mut owners = self.owners.lock();
        let counts = owners.count_sessions(&owner.user);
        if counts.all >= MAX_SESSIONS || counts.own >= MAX_SESSIONS_OF_USER {
            return Err(counts);
        }
        owners.opening.push(owner.clone());
        Ok(OpeningSession { owners: &self.owners, owner: owner.clone() })
    }
}

/// The response of the protocol's library, whose plain texts become problem documents.
async fn to_problem(response: Response) -> ApiResult<Response> {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !status.is_client_error() || kind.contains("json") {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, MAX_TEXT_BYTES).await.unwrap_or_default();
    let code = if status == StatusCode::NOT_FOUND { Code::NotThere } else { Code::RequestInvalid };
    let mut answer = Problem::new(code, String::from_utf8_lossy(&text)).with_status(status).into_response();
    if let Some(methods) = parts.headers.get(header::ALLOW) {
        answer.headers_mut().insert(header::ALLOW, methods.clone());
    }
    Ok(answer)
}
