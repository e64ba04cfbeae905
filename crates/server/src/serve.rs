//! `flowloom serve`: the definitions of a folder as a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::{Router, middleware};
use flowloom_app::config::server::ServerSettings;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::recovery::RecoveryTask;
use flowloom_app::runs::retention::run_retention_task;
use flowloom_app::runs::supervisor::RunSupervisor;
use flowloom_app::scheduler::run_scheduler;
use flowloom_core::code::Code;
use flowloom_store::SHARED_USER;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::error::ServeError;
use crate::guard::GuardedRouter;
use crate::key_uses::KeyUses;
use crate::metrics::{Readiness, RequestDurations};
use crate::problem::Problem;
use crate::public_url::PublicUrl;
use crate::rate::RateLimiter;
use crate::remembered_keys::RememberedKeys;
use crate::revoked::KeyCalls;
use crate::state::{RunHost, Server, ServerParts};
use crate::{cors, describe, guard, listen, mcp, revoked, routes, studio};

/// How long answers may take to be sent when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The size from which a response is compressed.
const MIN_COMPRESSED_BYTES: u16 = 1024;

/// Options of a server.
pub struct ServerOptions {
    /// Folder of the definitions.
    pub folder: PathBuf,
    /// Address to listen on.
    pub bind: SocketAddr,
    /// Additional accepted host names.
    pub hosts: Vec<String>,
    /// Maximum number of live runs.
    pub max_runs: usize,
    /// The address under which clients reach the server; it takes precedence over `[server] public_url`.
    pub public_url: Option<String>,
    /// Whether the studio is served.
    pub has_studio: bool,
}

/// A server that listens; it answers once it is run.
pub struct RunningServer {
    address: SocketAddr,
    listener: TcpListener,
    server: Server,
    router: Router<Server>,
    signals: [Signal; 2],
    /// Stops the background tasks.
    stopping: CancellationToken,
    tasks: TaskTracker,
    _alone: Option<flowloom_store::ServerLock>,
}

impl RunningServer {
    /// Address to listen on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address under which clients reach the server, without a slash at its end.
    pub fn public_address(&self) -> String {
        self.server.public_url.as_ref().map_or_else(|| format!("http://{}", self.address), PublicUrl::to_text)
    }

    /// Whether calls without a key are taken.
    pub fn is_open(&self) -> bool {
        self.server.is_open
    }

    /// The definitions that everyone can run. Reads the folder. Fails if the stored definitions cannot be read.
    pub fn list_definitions(&self) -> Result<Vec<Arc<CatalogEntry>>, AppError> {
        self.server.host.catalog.list_definitions(SHARED_USER)
    }

    /// Answers calls until the program receives a stop signal. Returns how many runs will continue at the next start.
    pub async fn run(self) -> usize {
        let RunningServer { listener, server, router, signals, stopping, tasks, _alone, .. } = self;
        let (settings, closing) = (server.host.app.config.server.clone(), server.host.closing.clone());
        let (live, store) = (server.host.supervisor.clone(), server.host.app.store.clone());
        let is_open = server.is_open;
        let router = router.route(mcp::http::MCP_PATH, mcp::http::mcp_route(&server)).fallback(studio::answer_other);
        let router = guard_routes(router, server);
        let serving = listen::serve_connections(listener, router, &settings, is_open, closing.clone());
        let mut serving = std::pin::pin!(serving);
        let mut stopping = std::pin::pin!(async {
            wait_for_stop(&live, signals, stopping).await;
            drain_runs(&live, &settings).await;
            closing.cancel();
        });
        tokio::select! {
            () = &mut serving => stopping.await,
            () = &mut stopping => {
                // Requests that wait for a run receive their response.
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut serving).await;
            }
        }
        // Background tasks hold the store, which marks this worker as ended when it is dropped.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, tasks.wait()).await;
        live.flush_traces().await;
        // If this fails, other workers notice by the expired lease.
        let _ = store.announce_shutdown().await;
        tracing::info!(unfinished = live.count(), "stopped");
        live.count()
    }
}

/// Exit code of a server after a second stop signal.
const FORCED_EXIT_CODE: i32 = 130;

/// Listens, reclaims abandoned runs, and starts the tasks of a server. Fails if the address is in use or must be
/// protected by a key, if another server uses the data folder, if the public URL is invalid, or if the database cannot
/// be written.
pub async fn serve_http(app: App, options: ServerOptions) -> Result<RunningServer, ServeError> {
    let refused = |source| ServeError::Listen { address: options.bind, source };
    let ProtectedListener { listener, address, is_open } = ProtectedListener::bind_address(&app, options.bind).await?;
    let _alone = app.store.lock_for_server()?;
    app.record_secret_bindings().await?;
    let (router, openapi) = routes::build_routes();
    let app = Arc::new(app);
    let mut hosts: Vec<String> = options.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
    hosts.push(address.ip().to_string());
    let settings = app.config.server.clone();
    let public_url = options.public_url.as_deref().or(settings.public_url.as_deref());
    let public_url = public_url.map(PublicUrl::parse).transpose()?;
    hosts.extend(public_url.as_ref().map(|url| url.host_name().to_owned()));
    let telemetry = app.start_telemetry()?;
    let openapi = describe::complete_document(serde_json::to_value(openapi).unwrap_or_default(), public_url.as_ref());
    let supervisor = RunSupervisor::new(options.max_runs, telemetry);
    let host = RunHost::new(app, options.folder, supervisor);
    let parts = build_parts(host, address, openapi);
    let server = Server::new(ServerParts {
        is_open,
        has_studio: options.has_studio,
        cors: settings.cors,
        hosts,
        public_url,
        ..parts
    });
    // Signal handlers are installed before the server announces itself, so that it can be stopped from then on.
    let signals =
        [signal(SignalKind::interrupt()).map_err(refused)?, signal(SignalKind::terminate()).map_err(refused)?];
    let stopping = CancellationToken::new();
    let tasks = start_background_tasks(&server, &stopping).await?;
    tracing::info!(%address, "serving");
    Ok(RunningServer { address, listener, server, router, signals, stopping, tasks, _alone })
}

/// The parts of a server at an address that requires keys, without the studio.
pub(crate) fn build_parts(host: Arc<RunHost>, address: SocketAddr, openapi: serde_json::Value) -> ServerParts {
    let settings = &host.app.config.server;
    ServerParts {
        is_open: false,
        has_studio: false,
        rates: RateLimiter::new(settings.rate_limit(address.ip().is_loopback())),
        requests: RequestDurations::default(),
        readiness: Readiness::default(),
        metrics_keys: RememberedKeys::default(),
        public_url: None,
        key_uses: KeyUses::default(),
        bodies: Arc::default(),
        calls: Arc::new(KeyCalls::new(listen::limit_connections(settings))),
        cors: Vec::new(),
        hosts: vec![address.ip().to_string()],
        scopes: describe::collect_scopes(&openapi),
        bare_methods: describe::collect_bare_methods(&openapi),
        openapi,
        host,
    }
}

/// A listener that others cannot use without a key.
pub(crate) struct ProtectedListener {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    /// Whether calls without a key are taken: no keys exist, and only this machine can connect.
    pub(crate) is_open: bool,
}

impl ProtectedListener {
    /// Listens at an address. Fails with `Unprotected` if other machines could connect and there is no key.
    pub(crate) async fn bind_address(app: &App, bind: SocketAddr) -> Result<ProtectedListener, ServeError> {
        let has_keys = app.store.requires_key().map_err(AppError::from)?;
        if !bind.ip().is_loopback() && !has_keys {
            return Err(ServeError::Unprotected(bind));
        }
        let refused = |source| ServeError::Listen { address: bind, source };
        let listener = TcpListener::bind(bind).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(ProtectedListener { listener, address, is_open: !has_keys })
    }
}

/// The routes with their middleware.
pub(crate) fn guard_routes(router: Router<Server>, server: Server) -> GuardedRouter {
    let origins = cors::layer(&server.cors);
    let routes = router
        .method_not_allowed_fallback(async || {
            let message = "this route does not support the method; for its methods: GET /openapi.json";
            Problem::new(Code::RequestInvalid, message).with_status(StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(middleware::from_fn_with_state(server.clone(), guard::authorize));
    let compressing = routes.clone().layer(CompressionLayer::new().compress_when(compressible()));
    let [plain, compressing] = [routes, compressing].map(|routes| {
        // Outside of what asks for a key: a page may read why it was refused, and a preflight has no key.
        let routes = match &origins {
            Some(origins) => routes.layer(origins.clone()),
            None => routes,
        };
        routes.with_state(server.clone())
    });
    GuardedRouter { server, plain, compressing }
}

/// Which responses are compressed, if the client accepts that: those that are large enough, except streams of events and
/// problems, which other routes convert.
fn compressible() -> impl Predicate {
    SizeAbove::new(MIN_COMPRESSED_BYTES)
        .and(NotForContentType::SSE)
        .and(NotForContentType::const_new("application/problem+json"))
}

/// Reclaims abandoned runs and starts the background tasks, which run until the server stops.
async fn start_background_tasks(server: &Server, shutdown: &CancellationToken) -> Result<TaskTracker, AppError> {
    let (host, shutdown) = (server.host.clone(), shutdown.clone());
    let mut recovery = RecoveryTask::new(host.service.clone());
    recovery.reclaim_runs().await?;
    let tasks = TaskTracker::new();
    tasks.spawn(recovery.run_periodically(shutdown.clone()));
    tasks.spawn(run_retention_task(host.app.store.clone(), host.app.config.retention.clone(), shutdown.clone()));
    tasks.spawn(run_scheduler(host.service.clone(), shutdown.clone()));
    tasks.spawn(revoked::run_revocation_task(server.calls.clone(), host.app.store.clone(), shutdown.clone()));
    tasks.spawn(async move {
        shutdown.run_until_cancelled(host.app.blocks.run_embedding_task()).await;
    });
    tasks.close();
    Ok(tasks)
}

/// Resolves when the program receives a stop signal. From then on the server is not ready, and drives no further runs. A
/// second signal ends the program immediately.
async fn wait_for_stop(live: &RunSupervisor, signals: [Signal; 2], stopping: CancellationToken) {
    let [mut interrupt, mut terminate] = signals;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    live.close();
    stopping.cancel();
    tracing::info!(live = live.count(), "stopping");
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // A second signal means: do not wait. Unfinished runs are reclaimed as after a crash.
        std::process::exit(FORCED_EXIT_CODE);
    });
}

/// Continues to answer until the live runs have ended or had their time, and load balancers have noticed that the
/// server is not ready.
async fn drain_runs(live: &RunSupervisor, settings: &ServerSettings) {
    let all = async {
        for id in live.run_ids() {
            live.wait_for_run(id).await;
        }
    };
    // Unfinished runs are left to other servers, or to the next start.
    let drained = tokio::time::timeout(settings.drain_time(), all);
    let _ = tokio::join!(drained, tokio::time::sleep(settings.unready_time()));
}
