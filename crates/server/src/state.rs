//! What handlers share.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use axum::http::Method;
use flowloom_app::blocks::BlockRegistry;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::engines::App;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::RunService;
use flowloom_app::runs::supervisor::RunSupervisor;
use flowloom_app::runs::turns::BusyThreads;
use flowloom_store::Store;

use crate::key_uses::KeyUses;
use crate::metrics::RequestDurations;
use crate::public_url::PublicUrl;
use crate::rate::RateLimiter;
use crate::revoked::KeyStreams;

/// How long live runs may take to reach their next step when the server stops.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// What handlers share: a handle, of which each call has its own.
#[derive(Clone)]
pub(crate) struct Server(Arc<ServerParts>);

impl Server {
    /// The handle of a server.
    pub(crate) fn new(shared: ServerParts) -> Server {
        Server(Arc::new(shared))
    }
}

impl Deref for Server {
    type Target = ServerParts;

    fn deref(&self) -> &ServerParts {
        &self.0
    }
}

impl FromRef<Server> for Arc<App> {
    fn from_ref(server: &Server) -> Arc<App> {
        server.app.clone()
    }
}

impl FromRef<Server> for Arc<Store> {
    fn from_ref(server: &Server) -> Arc<Store> {
        server.app.store.clone()
    }
}

impl FromRef<Server> for Arc<Catalog> {
    fn from_ref(server: &Server) -> Arc<Catalog> {
        server.catalog.clone()
    }
}

impl FromRef<Server> for Arc<BlockRegistry> {
    fn from_ref(server: &Server) -> Arc<BlockRegistry> {
        server.app.blocks.clone()
    }
}

/// The parts of a server.
pub(crate) struct ServerParts {
    pub(crate) app: Arc<App>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) supervisor: Arc<RunSupervisor>,
    /// Starts runs.
    pub(crate) runs: RunService,
    /// Each follower of a run holds a clone; the reference count is their number.
    pub(crate) followers: Arc<()>,
    /// Threads with a turn in progress.
    pub(crate) busy_threads: Arc<BusyThreads>,
    /// Whether requests without a key are accepted: no keys exist, and only this machine can connect.
    pub(crate) is_open: bool,
    /// Whether the studio is served.
    pub(crate) has_studio: bool,
    pub(crate) rates: RateLimiter,
    pub(crate) requests: RequestDurations,
    /// The address under which clients reach the server, if it is not its own.
    pub(crate) public_url: Option<PublicUrl>,
    pub(crate) key_uses: KeyUses,
    /// Open streams, by the key that opened them.
    pub(crate) streams: Arc<KeyStreams>,
    /// Origins of other sites whose pages may send requests.
    pub(crate) cors: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) openapi: serde_json::Value,
    /// Required scopes by path and method.
    pub(crate) scopes: HashMap<String, Vec<(Method, Vec<Scope>)>>,
}

impl ServerParts {
    /// A server without network access, for use inside this process.
    pub(crate) fn local(app: Arc<App>, folder: PathBuf, live: Arc<RunSupervisor>) -> ServerParts {
        let catalog = Arc::new(Catalog::new(folder, app.clone()));
        ServerParts {
            runs: RunService::new(app.clone(), catalog.clone(), live.clone()),
            busy_threads: Arc::new(BusyThreads::new(app.clone(), live.clone())),
            catalog,
            supervisor: live,
            followers: Arc::default(),
            is_open: true,
            has_studio: false,
            rates: RateLimiter::new(None),
            requests: RequestDurations::default(),
            public_url: None,
            key_uses: KeyUses::default(),
            streams: Arc::default(),
            cors: Vec::new(),
            hosts: Vec::new(),
            openapi: serde_json::Value::Null,
            scopes: HashMap::new(),
            app,
        }
    }

    /// Whether `host` (with or without a port) is a name of this server.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1") || self.hosts.contains(&name)
    }
}
