//! `/mcp`: the MCP endpoint over HTTP. Every request is authenticated; a session belongs to the user of the caller that
//! opened it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any};
use flowloom_core::code::Code;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::{Handler, SESSION};
use crate::body::{BODY, text};
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/mcp";

/// Maximum number of concurrent sessions. Each uses memory until it was idle for five minutes.
const SESSIONS: usize = 1000;

/// State shared by all requests.
struct Endpoint {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    /// Users of the sessions, by session id.
    owners: Mutex<HashMap<String, Option<String>>>,
}

/// The route of the endpoint.
pub(crate) fn route(server: &Server) -> MethodRouter<Server> {
    let (server, sessions) = (server.clone(), Arc::<LocalSessionManager>::default());
    // The guard has checked host and origin already.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts().with_json_response(true);
    let handler = move || Ok(Handler { server: server.clone(), alone: None });
    let service = StreamableHttpService::new(handler, sessions.clone(), config.with_max_request_body_bytes(BODY));
    let endpoint = Arc::new(Endpoint { service, sessions, owners: Mutex::default() });
    any(async move |State(server): State<Server>, caller: Caller, request: Request| {
        endpoint.answer(&server, caller, request).await.unwrap_or_else(|problem| problem.into_response())
    })
}

impl Endpoint {
    async fn answer(&self, server: &Server, caller: Caller, request: Request) -> Answer<Response> {
        match session(request.headers()) {
            Some(id) => {
                let owner = self.owners().get(&id).cloned();
                if owner.is_some_and(|owner| owner != caller.user) {
                    return Err(Problem::not_there("session", &id));
                }
            }
            None => self.admit().await?,
        }
        let user = caller.user.clone();
        let (mut parts, body) = request.into_parts();
        // Read with the time-out of all request bodies.
        let text = text(server, Request::from_parts(parts.clone(), body)).await?;
        parts.extensions.insert(caller);
        let answer = self.service.handle(Request::from_parts(parts, Body::from(text))).await.map(Body::new);
        if let Some(id) = session(answer.headers()) {
            self.owners().insert(id, user);
        }
        Ok(answer)
    }

    /// Fails with `TooManyCalls` if a new session would exceed the limit.
    async fn admit(&self) -> Answer<()> {
        if self.owners().len() < SESSIONS {
            return Ok(());
        }
        let there = self.sessions.sessions.read().await;
        let mut owners = self.owners();
        owners.retain(|id, _| there.contains_key(id.as_str()));
        match owners.len() < SESSIONS {
            true => Ok(()),
            false => Err(Problem::new(Code::TooManyCalls, format!("{SESSIONS} sessions are open, which is the limit"))),
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn session(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned)
}
