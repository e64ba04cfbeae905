//! `flowloom serve`: serves the definitions of a folder over HTTP. Handlers are thin; the runtime knows nothing about
//! the server.

mod agents;
mod body;
pub(crate) mod catalog;
mod cors;
mod definitions;
mod describe;
mod docs;
mod events;
mod guard;
mod health;
pub(crate) mod hooks;
pub(crate) mod keys;
mod listen;
mod live;
pub(crate) mod mcp;
mod models;
mod openai;
mod params;
mod problem;
mod rate;
mod revoked;
mod run;
mod runs;
pub(crate) mod schedules;
mod seeds;
pub(crate) mod settings;
mod shown;
mod start;
mod sweep;
mod takeup;
mod tell;
mod threads;
mod workflows;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::{Json, Router, middleware};
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_store::{RunRow, SHARED};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::log::Style;
use crate::telemetry::Telemetry;
use catalog::Catalog;
use definitions::parts;
use keys::Scope;
use live::Live;
use problem::{Answer, Problem};
use rate::Rates;
use revoked::Streams;
use takeup::TakeUp;
use threads::Busy;

/// How long live runs may take to reach their next step when the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// How long sending pending responses may take when the server stops.
const LAST: Duration = Duration::from_secs(1);

/// Interval of polling a run that another worker drives.
const LOOK: Duration = Duration::from_millis(100);

/// Options of a server.
pub(crate) struct Options {
    /// Folder of the definitions.
    pub(crate) folder: PathBuf,
    /// Address to listen on.
    pub(crate) bind: SocketAddr,
    /// Additional accepted host names.
    pub(crate) hosts: Vec<String>,
    /// Maximum number of live runs.
    pub(crate) max_runs: usize,
    /// Log format.
    pub(crate) log: Style,
}

/// State shared by all handlers.
pub(crate) struct Server {
    pub(crate) app: Arc<App>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) live: Arc<Live>,
    /// Each follower of a run holds a clone; the reference count is their number.
    pub(crate) followers: Arc<()>,
    /// Threads with a turn in progress.
    pub(crate) busy: Busy,
    /// Whether requests without a key are accepted: no keys exist, and only this machine can connect.
    pub(crate) is_open: bool,
    pub(crate) rates: Rates,
    /// Open streams, by the key that opened them.
    streams: Streams,
    /// Origins of other sites whose pages may send requests.
    cors: Vec<String>,
    hosts: Vec<String>,
    openapi: serde_json::Value,
    /// Required scopes by path and method.
    scopes: HashMap<String, Vec<(Method, Scope)>>,
}

impl Server {
    /// A server without network access, for use inside this process.
    fn private(app: Arc<App>, folder: PathBuf, live: Arc<Live>) -> Server {
        Server {
            catalog: Arc::new(Catalog::new(folder, app.clone())),
            live,
            followers: Arc::default(),
            busy: Busy::default(),
            is_open: true,
            rates: Rates::new(None),
            streams: Streams::default(),
            cors: Vec::new(),
            hosts: Vec::new(),
            openapi: serde_json::Value::Null,
            scopes: HashMap::new(),
            app,
        }
    }

    /// Whether `host` (with or without a port) is a name of this server.
    fn answers_to(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1") || self.hosts.contains(&name)
    }

    /// Whether a worker drives a run or will: a run with status `running` is reclaimed if its worker is dead.
    pub(crate) fn goes_on(&self, id: RunId) -> bool {
        matches!(self.app.store.run(id), Ok(Some(run)) if goes_on(&run))
    }

    /// Waits until no worker drives a run.
    pub(crate) async fn wait(&self, id: RunId) {
        self.live.wait(id).await;
        while self.goes_on(id) {
            tokio::time::sleep(LOOK).await;
            self.live.wait(id).await;
        }
    }
}

/// Whether a worker drives a run or will.
fn goes_on(run: &RunRow) -> bool {
    run.finished_at.is_none() && (run.is_driven || run.status == Status::Running.name())
}

/// Serves until the program is stopped. Fails with `BindRefused` if the address is unavailable, or public without any
/// API key.
pub(crate) async fn serve(app: App, options: Options) -> Result<(), StepError> {
    crate::log::start(options.log);
    let is_local = options.bind.ip().is_loopback();
    let has_keys = app.store.keys()?.iter().any(|key| key.revoked_at.is_none());
    if !is_local && !has_keys {
        let message = format!(
            "{} is reachable from other machines, but there is no API key; create one with flowloom keys create",
            options.bind
        );
        return Err(StepError::new(Code::BindRefused, message));
    }
    let refused = |error| StepError::new(Code::BindRefused, format!("cannot listen on {}: {error}", options.bind));
    let listener = TcpListener::bind(options.bind).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let _alone = app.store.serve_alone()?;
    let (router, openapi) = routes();
    let app = Arc::new(app);
    let mut hosts: Vec<String> = options.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
    hosts.push(address.ip().to_string());
    let settings = app.config.server.clone();
    let telemetry = app.config.telemetry.otlp.as_deref().map(Telemetry::start).transpose()?;
    let openapi = describe::complete(serde_json::to_value(openapi).unwrap_or_default());
    let server = Arc::new(Server {
        is_open: !has_keys,
        rates: Rates::new(settings.rate(is_local)),
        streams: Streams::default(),
        cors: settings.cors.clone(),
        hosts,
        scopes: describe::scopes(&openapi),
        openapi,
        ..Server::private(app, options.folder, Live::new(options.max_runs, telemetry))
    });
    // Signal handlers are installed before the server announces itself, so that it can be stopped at once.
    let signals =
        [signal(SignalKind::interrupt()).map_err(refused)?, signal(SignalKind::terminate()).map_err(refused)?];
    let told = CancellationToken::new();
    let keepers = keepers(&server, &told).await?;
    match options.log {
        Style::Text => greet(&server, address)?,
        Style::Json => tracing::info!(%address, "serving"),
    }
    let (live, store) = (server.live.clone(), server.app.store.clone());
    let router = router
        .route(mcp::http::PATH, mcp::http::route(&server))
        .fallback(async || Problem::new(Code::NotThere, "there is no such route; for a list: GET /openapi.json"))
        .method_not_allowed_fallback(async || {
            let message = "this route does not support the method; for its methods: GET /openapi.json";
            Problem::new(Code::RequestInvalid, message).with_status(StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(middleware::from_fn_with_state(server.clone(), guard::guard))
        .with_state(server);
    let mut serving = std::pin::pin!(listen::listen(listener, router, &settings, told.clone()));
    let mut stopping = std::pin::pin!(stop(&live, signals, told));
    tokio::select! {
        // All connections are closed; live runs still get their time.
        () = &mut serving => stopping.await,
        () = &mut stopping => {
            // Requests that wait for a run receive their response.
            let _ = tokio::time::timeout(LAST, &mut serving).await;
        }
    }
    // Background tasks hold the store, which marks this worker as ended when it is dropped.
    let _ = tokio::time::timeout(LAST, keepers.wait()).await;
    // If this fails, other workers notice by the expired lease.
    let _ = store.leave().await;
    match options.log {
        Style::Text => eprintln!("Stopped; {} runs continue at the next start", live.count()),
        Style::Json => tracing::info!(unfinished = live.count(), "stopped"),
    }
    Ok(())
}

/// Reclaims abandoned runs and starts the background tasks, which run until the server stops.
async fn keepers(server: &Arc<Server>, told: &CancellationToken) -> Result<TaskTracker, StepError> {
    let mut take_up = TakeUp::new(server.clone());
    take_up.look().await?;
    let keepers = TaskTracker::new();
    keepers.spawn(take_up.keep_looking(told.clone()));
    keepers.spawn(sweep::keep_sweeping(server.clone(), told.clone()));
    keepers.spawn(schedules::keep_time(server.clone(), told.clone()));
    keepers.spawn(revoked::keep_looking(server.clone(), told.clone()));
    let (shared, told) = (server.clone(), told.clone());
    keepers.spawn(async move {
        told.run_until_cancelled(shared.app.blocks.keep_embedding()).await;
    });
    keepers.close();
    Ok(keepers)
}

/// The routes and their OpenAPI document.
fn routes() -> (Router<Arc<Server>>, utoipa::openapi::OpenApi) {
    #[derive(OpenApi)]
    #[openapi(
        info(
            title = "Flowloom",
            description = "Runs agent workflows in six formats.",
            license(name = "MIT OR Apache-2.0")
        ),
        components(schemas(problem::Document, openai::failure::Failure))
    )]
    struct Api;
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(workflows::list, definitions::sync::put_all))
        .routes(routes!(workflows::get, definitions::put::put, definitions::put::remove))
        .routes(routes!(definitions::put::written))
        .routes(routes!(definitions::put::versions))
        .routes(routes!(definitions::check::check))
        .routes(routes!(parts::blocks::list))
        .routes(routes!(parts::blocks::get, parts::blocks::put, parts::blocks::remove))
        .routes(routes!(parts::blocks::versions))
        .routes(routes!(parts::agents::list))
        .routes(routes!(parts::agents::get, parts::agents::put, parts::agents::remove))
        .routes(routes!(parts::agents::versions))
        .routes(routes!(parts::tools::list))
        .routes(routes!(parts::tools::get, parts::tools::put, parts::tools::remove))
        .routes(routes!(parts::tools::versions))
        .routes(routes!(runs::list, start::start))
        .routes(routes!(runs::get))
        .routes(routes!(runs::follow))
        .routes(routes!(runs::replay))
        .routes(routes!(threads::list))
        .routes(routes!(threads::get, threads::say, threads::remove))
        .routes(routes!(agents::chat))
        .routes(routes!(models::list))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::put, schedules::remove))
        .routes(routes!(hooks::list))
        .routes(routes!(hooks::put, hooks::remove))
        .routes(routes!(hooks::call))
        .routes(routes!(tell::cancel))
        .routes(routes!(tell::resume))
        .routes(routes!(tell::reply))
        .routes(routes!(tell::resolve))
        .routes(routes!(health::health))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(health::explain))
        .routes(routes!(description))
        .routes(routes!(docs::page))
        .routes(routes!(docs::part))
        .merge(openai::routes())
        .merge(seeds())
        .split_for_parts()
}

/// The routes of the original systems.
fn seeds() -> OpenApiRouter<Arc<Server>> {
    use seeds::agentflow::{author, automate, blocks, doer, executions, memory, notifications, pipelines};
    use seeds::{agentos, anythingllm};
    OpenApiRouter::new()
        .routes(routes!(agentos::create, agentos::list))
        .routes(routes!(agentos::run_stored))
        .routes(routes!(agentos::runs))
        .routes(routes!(anythingllm::save))
        .routes(routes!(anythingllm::list))
        .routes(routes!(anythingllm::get, anythingllm::remove))
        .routes(routes!(anythingllm::toggle))
        .routes(routes!(anythingllm::run_flow))
        .routes(routes!(author::clarify))
        .routes(routes!(author::create_agent))
        .routes(routes!(author::create_agent_stream, author::follow_create_agent))
        .routes(routes!(automate::automate))
        .routes(routes!(automate::automate_stream, automate::follow_automate))
        .routes(routes!(blocks::list, blocks::put))
        .routes(routes!(blocks::get, blocks::update, blocks::remove))
        .routes(routes!(blocks::source))
        .routes(routes!(blocks::search))
        .routes(routes!(pipelines::list, pipelines::create))
        .routes(routes!(pipelines::get, pipelines::remove))
        .routes(routes!(pipelines::run_kept))
        .routes(routes!(pipelines::run_once))
        .routes(routes!(doer::run_once))
        .routes(routes!(doer::run_kept, doer::follow_kept))
        .routes(routes!(executions::list))
        .routes(routes!(executions::get))
        .routes(routes!(executions::list_native))
        .routes(routes!(executions::get_native))
        .routes(routes!(notifications::list))
        .routes(routes!(notifications::read))
        .routes(routes!(notifications::list_native))
        .routes(routes!(notifications::read_native))
        .routes(routes!(memory::get, memory::replace))
        .routes(routes!(memory::put_one, memory::remove_one))
        .routes(routes!(memory::get_native, memory::replace_native))
        .routes(routes!(memory::put, memory::remove))
}

/// Returns this OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "about", operation_id = "describe",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)))]
async fn description(State(server): State<Arc<Server>>) -> Json<serde_json::Value> {
    Json(server.openapi.clone())
}

fn greet(server: &Server, address: SocketAddr) -> Result<(), StepError> {
    let definitions = server.catalog.list(SHARED)?;
    eprintln!("Serving {} workflows at http://{address}", definitions.iter().filter(|one| !one.is_refused).count());
    for definition in &definitions {
        let mark = if definition.is_refused { "✗" } else { "✓" };
        eprintln!("  {mark} {:<32} {}", definition.id, definition.file().unwrap_or("(stored in the database)"));
    }
    if let Some(first) = definitions.iter().find(|one| !one.is_refused) {
        let key = if server.is_open { "" } else { " -H 'Authorization: Bearer fl_…'" };
        eprintln!("Try: curl{key} --json '{{\"workflow\": \"{}\"}}' 'http://{address}/api/v1/runs?wait=60'", first.id);
    }
    eprintln!("OpenAI-compatible API: http://{address}/v1; MCP: http://{address}/mcp");
    eprintln!("All routes: http://{address}/openapi.json");
    Ok(())
}

/// Resolves when the program is stopped and live runs have had their time. Unfinished runs are reclaimed at the next
/// start.
async fn stop(live: &Live, mut signals: [Signal; 2], told: CancellationToken) {
    let [interrupt, terminate] = &mut signals;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    live.close();
    told.cancel();
    let all = async {
        for id in live.ids() {
            live.wait(id).await;
        }
    };
    // Unfinished runs are left to the next start.
    let _ = tokio::time::timeout(GRACE, all).await;
}

/// Runs file or database work on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(Code::StoreFailed, format!("the background task failed: {error}")))
}
