//! `flowloom worker`: drives the runs of a Restate server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::config::server::LogStyle;
use flowloom_app::engines::App;
use flowloom_app::redaction::build_log_redactor;
use flowloom_app::restate::{RestateAdmin, RestateWorker, admin_address};
use flowloom_core::code::Code;
use flowloom_runtime::descriptors;
use flowloom_server::WorkerMonitor;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::cli::{Global, WorkerArgs};
use crate::failure::{CommandError, CommandResult};
use crate::stop;
use crate::terminal::log;

pub(crate) async fn drive_runs(global: &Global, arguments: WorkerArgs) -> CommandResult {
    let config = global.load_config();
    let asked = arguments.log.map(LogStyle::from);
    let style = asked.unwrap_or_else(|| config.as_ref().map_or(LogStyle::Text, |config| config.server.log));
    log::start_logging(style, config.as_ref().ok().and_then(build_log_redactor));
    let driven = match config {
        Ok(config) => drive_configured(config, arguments, style).await,
        Err(error) => Err(error.into()),
    };
    log::report_in_style(style, driven)
}

async fn drive_configured(mut config: Config, arguments: WorkerArgs, style: LogStyle) -> CommandResult {
    let Some(ingress) = arguments.restate.or_else(|| config.engine.restate.clone()) else {
        return Err(CommandError::usage("no Restate server is given; add --restate URL, or set it in flowloom.toml"));
    };
    config.engine.restate = Some(ingress.clone());
    config.validate_engine()?;
    let admin = arguments.admin.map_or_else(|| admin_address(&ingress), Ok)?;
    let app = Arc::new(App::open(config)?);
    let telemetry = app.start_telemetry()?;
    let refused =
        |error| CommandError::new(Code::BindRefused, format!("cannot listen on {}: {error}", arguments.listen));
    let monitor = match arguments.monitor {
        Some(address) => Some(WorkerMonitor::bind_address(app.clone(), address).await?),
        None => None,
    };
    let (admin, worker) = (RestateAdmin::new(&admin), Arc::new(app.build_restate_worker(&ingress)?));
    check_neighbours(&worker, &admin, arguments.listen, arguments.url.as_deref()).await?;
    // A few calls share a connection.
    descriptors::raise_limit();
    let listener = listen_shared(arguments.listen).map_err(refused)?;
    let url = match arguments.url {
        Some(url) => url,
        None => build_worker_url(listener.local_addr().map_err(refused)?)?,
    };
    let guard = stop::defer_stop();
    let stopped = async {
        guard.wait_for_request().await;
        tracing::info!("stopping: sessions that have begun may end");
    };
    // It ends with the process.
    if let Some(monitor) = monitor {
        tracing::info!(address = %monitor.local_address(), "answering health checks");
        tokio::spawn(monitor.answer_calls());
    }
    let registered_address = worker.service_address(&url);
    let serving = worker.clone().serve(listener, stopped);
    let registered = worker.register(&admin, &registered_address);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return Ok(0),
        registered = registered => registered?,
    }
    tracing::info!(restate = ingress, url, "driving runs");
    if style == LogStyle::Text {
        eprintln!("Driving the runs of {ingress} at {url}");
    }
    tokio::select! {
        () = serving => {}
        () = worker.keep_registered(&admin, &registered_address) => {}
    }
    if let Some(telemetry) = telemetry {
        telemetry.flush_traces().await;
    }
    tracing::info!("stopped");
    Ok(0)
}

/// The URL at which Restate reaches a worker that listens on an address of this machine. Fails if that is all of them.
fn build_worker_url(address: SocketAddr) -> Result<String, CommandError> {
    match address.ip().is_unspecified() {
        false => Ok(format!("http://{address}")),
        true => Err(CommandError::usage(format!(
            "Restate cannot call the address {address}; add --url with the address at which it reaches this worker, for \
             example --url http://worker.example:{}",
            address.port()
        ))),
    }
}

/// Fails if workers that drive other runs listen on an address: a call could reach either of them.
async fn check_neighbours(
    worker: &RestateWorker,
    admin: &RestateAdmin,
    listen: SocketAddr,
    url: Option<&str>,
) -> Result<(), CommandError> {
    if TcpStream::connect(listen).await.is_err() {
        return Ok(());
    }
    let url = url.map_or_else(|| format!("http://{listen}"), str::to_owned);
    match worker.finds_strangers(admin, &url).await {
        false => Ok(()),
        true => Err(CommandError::new(
            Code::BindRefused,
            format!(
                "workers of another version, database, project or configuration listen on {listen}; choose another address: --listen ADDRESS"
            ),
        )),
    }
}

/// Maximum number of connections that wait to be accepted.
const MAX_PENDING_CONNECTIONS: u32 = 1024;

/// Listens on an address that other workers of this machine may share: the system distributes connections among them.
/// Accepted connections inherit TCP_NODELAY. Without it, a message of a few bytes waits up to 40 ms for the
/// acknowledgement of the one before.
fn listen_shared(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(MAX_PENDING_CONNECTIONS)
}
