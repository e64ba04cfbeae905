//! `/mcp`: the MCP endpoint over HTTP. Every request is authenticated; a session belongs to the user of the caller that
//! opened it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any};
use flowloom_core::code::Code;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::envelope::find_envelope_problem;
use super::{McpHandler, SESSION_HEADER};
use crate::body::{MAX_BODY_BYTES, read_text};
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// Path of the endpoint.
pub(crate) const MCP_PATH: &str = "/mcp";

/// Maximum number of concurrent sessions. Each uses memory until it was idle for five minutes.
const MAX_SESSIONS: usize = 1000;

/// State shared by all requests.
struct McpEndpoint {
    service: StreamableHttpService<McpHandler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    /// Users of the sessions, by session id.
    session_users: Mutex<HashMap<String, Option<String>>>,
}

/// The route of the endpoint.
pub(crate) fn mcp_route(server: &Server) -> MethodRouter<Server> {
    let (host, sessions) = (server.host.clone(), Arc::<LocalSessionManager>::default());
    // The guard has checked host and origin already.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts().with_json_response(true);
    let handler = move || Ok(McpHandler { host: host.clone(), local_client: None });
    let service =
        StreamableHttpService::new(handler, sessions.clone(), config.with_max_request_body_bytes(MAX_BODY_BYTES));
    let endpoint = Arc::new(McpEndpoint { service, sessions, session_users: Mutex::default() });
    any(async move |State(server): State<Server>, caller: Caller, request: Request| {
        endpoint.handle(&server, caller, request).await.unwrap_or_else(|problem| problem.into_response())
    })
}

impl McpEndpoint {
    async fn handle(&self, server: &Server, caller: Caller, request: Request) -> ApiResult<Response> {
        match session_id(request.headers()) {
            Some(id) => {
                let user = self.lock_users().get(&id).cloned();
                if user.is_some_and(|user| user != caller.user) {
                    return Err(Problem::not_found("session", &id));
                }
            }
            None => self.check_capacity().await?,
        }
        let user = caller.user.clone();
        let (mut parts, body) = request.into_parts();
        // Read with the time-out of all request bodies.
        let text = read_text(server, Request::from_parts(parts.clone(), body)).await?;
        if parts.method == Method::POST
            && let Some(problem) = find_envelope_problem(&text)
        {
            return Ok((StatusCode::BAD_REQUEST, Json(problem)).into_response());
        }
        parts.extensions.insert(caller);
        let ends_session = parts.method == Method::DELETE;
        let mut answer = self.service.handle(Request::from_parts(parts, Body::from(text))).await.map(Body::new);
        // The session has ended already. Clients take 202 for a failure.
        if ends_session && answer.status() == StatusCode::ACCEPTED {
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        if let Some(id) = session_id(answer.headers()) {
            self.lock_users().insert(id, user);
        }
        Ok(answer)
    }

    /// Fails with `TooManyCalls` if a new session would exceed the limit.
    async fn check_capacity(&self) -> ApiResult<()> {
        if self.lock_users().len() < MAX_SESSIONS {
            return Ok(());
        }
        let there = self.sessions.sessions.read().await;
        let mut owners = self.lock_users();
        owners.retain(|id, _| there.contains_key(id.as_str()));
        match owners.len() < MAX_SESSIONS {
            true => Ok(()),
            false => {
                Err(Problem::new(Code::TooManyCalls, format!("{MAX_SESSIONS} sessions are open, which is the limit")))
            }
        }
    }

    fn lock_users(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.session_users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned)
}
