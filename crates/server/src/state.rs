//! State that handlers share.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::FromRef;
use axum::http::Method;
use flowloom_app::blocks::BlockRegistry;
use flowloom_app::config::Config;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::engines::App;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::RunService;
use flowloom_app::runs::stored::StoredRuns;
use flowloom_app::runs::supervisor::RunSupervisor;
use flowloom_app::runs::turns::BusyThreads;
use flowloom_app::tools::mcp::McpServers;
use flowloom_store::Store;
use tokio_util::sync::CancellationToken;

use crate::blocking::WorkPlaces;
use crate::body_budget::BodyBudget;
use crate::definitions::change::DefinitionStore;
use crate::key_uses::KeyUses;
use crate::metrics::{Readiness, RequestDurations};
use crate::public_url::PublicUrl;
use crate::rate::RateLimiter;
use crate::remembered_keys::RememberedKeys;
use crate::revoked::KeyCalls;

/// State that handlers share; each call has its own handle.
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

/// Starts, drives and follows the runs of handlers, for every protocol.
pub(crate) struct RunHost {
    pub(crate) app: Arc<App>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) supervisor: Arc<RunSupervisor>,
    /// Starts runs.
    pub(crate) service: RunService,
    /// Each follower of a run holds a clone; the reference count is their number.
    pub(crate) followers: Arc<()>,
    /// Is cancelled when the server closes its connections: streams end before that.
    pub(crate) closing: CancellationToken,
    /// The places in which requests work.
    pub(crate) places: WorkPlaces,
    /// Threads with a turn in progress.
    pub(crate) busy_threads: Arc<BusyThreads>,
}

impl RunHost {
    /// Runs the definitions of a folder and of the store.
    pub(crate) fn new(app: Arc<App>, folder: PathBuf, supervisor: Arc<RunSupervisor>) -> Arc<RunHost> {
        let (catalog, runs) = (app.build_catalog(folder), app.runs.clone());
        Arc::new(RunHost {
            service: RunService::new(runs.clone(), catalog.clone(), supervisor.clone()),
            busy_threads: Arc::new(BusyThreads::new(runs, supervisor.clone())),
            catalog,
            supervisor,
            followers: Arc::default(),
            places: WorkPlaces::new(),
            closing: CancellationToken::new(),
            app,
        })
    }

    /// The stored definitions.
    pub(crate) fn definition_store(&self) -> DefinitionStore {
        DefinitionStore { store: self.app.store.clone(), blocks: self.app.blocks.clone() }
    }
}

/// Implements the extractor `State` for a part of the server, so that a handler takes only what it uses.
macro_rules! extract_part {
    ($part:ty, $server:ident => $clone:expr) => {
        impl FromRef<Server> for $part {
            fn from_ref($server: &Server) -> $part {
                $clone
            }
        }
    };
}

extract_part!(Arc<RunHost>, server => server.host.clone());
extract_part!(StoredRuns, server => server.host.app.runs.clone());
extract_part!(DefinitionStore, server => server.host.definition_store());
extract_part!(Arc<Config>, server => server.host.app.config.clone());
extract_part!(Arc<Store>, server => server.host.app.store.clone());
extract_part!(Arc<Catalog>, server => server.host.catalog.clone());
extract_part!(Arc<BlockRegistry>, server => server.host.app.blocks.clone());
extract_part!(Arc<McpServers>, server => server.host.app.servers.clone());

/// The parts of a server: its runs, and the settings of the middleware.
pub(crate) struct ServerParts {
    pub(crate) host: Arc<RunHost>,
    /// Whether requests without a key are accepted: no keys exist, and only this machine can connect.
    pub(crate) is_open: bool,
    /// Whether the studio is served.
    pub(crate) has_studio: bool,
    pub(crate) rates: RateLimiter,
    pub(crate) requests: RequestDurations,
    pub(crate) readiness: Readiness,
    /// Keys that have read the metrics.
    pub(crate) metrics_keys: RememberedKeys,
    /// The address under which clients reach the server, if it is not its own.
    pub(crate) public_url: Option<PublicUrl>,
    pub(crate) key_uses: KeyUses,
    /// Open calls and streams, by the key of their caller.
    pub(crate) calls: Arc<KeyCalls>,
    /// The bodies of open requests.
    pub(crate) bodies: Arc<BodyBudget>,
    /// Origins of other sites whose pages may send requests.
    pub(crate) cors: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) openapi: serde_json::Value,
    /// Required scopes by path and method.
    pub(crate) scopes: HashMap<String, Vec<(Method, Vec<Scope>)>>,
    /// Methods without any query parameter, by path; requests with one are refused.
    pub(crate) bare_methods: HashMap<String, Vec<Method>>,
}

impl ServerParts {
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
