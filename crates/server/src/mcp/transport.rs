//! How answers of `/mcp` are streamed. Since version 2025-11-25 of the protocol, a stream begins with an event that has an id and
//! no data, so that a client can resume it before the first message. Clients of earlier versions report that event as an error.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::{McpHandler, SESSION_HEADER};
use crate::body::MAX_BODY_BYTES;
use crate::state::RunHost;

/// The first version of the protocol whose streams begin with an event without data. Versions are dates.
const FIRST_RESUMABLE_VERSION: &str = "2025-11-25";

/// The header with the version that client and server have agreed upon.
const VERSION_HEADER: &str = "mcp-protocol-version";

/// The transports of an endpoint, each with its sessions.
pub(super) struct McpTransports {
    resumable: McpTransport,
    plain: McpTransport,
}

/// Carries the messages of the sessions of some versions.
pub(super) struct McpTransport {
    service: StreamableHttpService<McpHandler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

impl McpTransports {
    pub(super) fn new(host: &Arc<RunHost>) -> McpTransports {
        McpTransports { resumable: McpTransport::new(host, true), plain: McpTransport::new(host, false) }
    }

    /// The transport of a request: the one that has its session, or else that of its version. `opened` is the version that a
    /// request that opens a session asks for.
    pub(super) async fn find_transport(&self, headers: &HeaderMap, opened: Option<&str>) -> &McpTransport {
        if let Some(id) = session_id(headers) {
            for transport in [&self.resumable, &self.plain] {
                if transport.sessions.sessions.read().await.contains_key(id.as_str()) {
                    return transport;
                }
            }
        }
        let named = headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
        let is_resumable = opened.or(named).is_some_and(|version| version >= FIRST_RESUMABLE_VERSION);
        if is_resumable { &self.resumable } else { &self.plain }
    }

    /// The ids of all open sessions.
    pub(super) async fn list_sessions(&self) -> HashSet<String> {
        let mut ids = HashSet::new();
        for transport in [&self.resumable, &self.plain] {
            ids.extend(transport.sessions.sessions.read().await.keys().map(|id| id.to_string()));
        }
        ids
    }
}

impl McpTransport {
    fn new(host: &Arc<RunHost>, is_resumable: bool) -> McpTransport {
        // The guard has checked host and origin already.
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY_BYTES);
        let mut sessions = LocalSessionManager::default();
        if !is_resumable {
            config = config.with_sse_retry(None);
            sessions.session_config.sse_retry = None;
        }
        let (sessions, host) = (Arc::new(sessions), host.clone());
        let handler = move || Ok(McpHandler { host: host.clone(), local_client: None });
        McpTransport { service: StreamableHttpService::new(handler, sessions.clone(), config), sessions }
    }

    pub(super) async fn handle_request(&self, request: axum::http::Request<Body>) -> Response {
        self.service.handle(request).await.map(Body::new)
    }
}

pub(super) fn session_id(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned)
}
