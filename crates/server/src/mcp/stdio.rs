//! `flowloom mcp`: MCP on standard input and output, for the client that started this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flowloom_app::engines::App;
use flowloom_app::runs::supervisor::RunSupervisor;
use rmcp::service::{QuitReason, ServerInitializeError};
use tokio::signal::unix::{SignalKind, signal};

use super::message_pipes::MessagePipes;
use super::{LocalClient, McpHandler};
use crate::caller::Caller;
use crate::error::ServeError;
use crate::state::RunHost;

/// How long the last answers may take to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves until the client disconnects or the program is stopped. Runs of unanswered calls are cancelled. Fails if the
/// export of traces cannot be started, or if the client breaks the protocol.
pub async fn serve_stdio(app: App, folder: PathBuf, user: &str) -> Result<(), ServeError> {
    let telemetry = app.start_telemetry()?;
    let host = RunHost::new(Arc::new(app), folder, RunSupervisor::new(usize::MAX, telemetry));
    let alone = LocalClient { caller: Caller::local(user), thread: uuid::Uuid::new_v4().to_string() };
    let handler = McpHandler { host: host.clone(), local_client: Some(alone) };
    let served = serve_client(handler).await;
    let ids = host.supervisor.run_ids();
    let all = async {
        for id in ids {
            host.supervisor.wait_for_run(id).await;
        }
    };
    // Unfinished runs are left to the next server.
    let _ = tokio::time::timeout(host.app.config.server.drain_time(), all).await;
    host.supervisor.close();
    host.supervisor.flush_traces().await;
    // If this fails, other workers notice by the expired lease.
    let _ = host.app.store.announce_shutdown().await;
    served
}

async fn serve_client(handler: McpHandler) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| ServeError::Protocol(error.to_string()))?;
    let mut stop = std::pin::pin!(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    });
    let MessagePipes { input, output, written } = MessagePipes::connect_stdio();
    let active = tokio::select! {
        active = rmcp::serve_server(handler, (input, output)) => active,
        () = &mut stop => return Ok(()),
    };
    let running = match active {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Protocol(error.to_string())),
    };
    let shutdown = running.cancellation_token();
    let mut waiting = std::pin::pin!(running.waiting());
    let ended = tokio::select! {
        ended = &mut waiting => ended,
        () = &mut stop => {
            shutdown.cancel();
            waiting.await
        }
    };
    // If it fails or takes longer, the client is gone.
    let _ = tokio::time::timeout(WRITE_TIMEOUT, written).await;
    match ended {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::Protocol(error.to_string())),
        Ok(_) => Ok(()),
    }
}
