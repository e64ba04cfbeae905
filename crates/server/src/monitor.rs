//! [`WorkerMonitor`]: the health checks and the metrics of a worker of Restate.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use flowloom_app::engines::App;
use flowloom_app::runs::supervisor::RunSupervisor;

use crate::error::ServeError;
use crate::health::worker_routes;
use crate::listen::serve_connections;
use crate::problem::Problem;
use crate::serve::{ProtectedListener, build_parts, guard_routes};
use crate::state::{RunHost, Server, ServerParts};

/// Answers `GET /health/live`, `/health/ready` and `/metrics` for a worker. Callers need a key as on a server.
pub struct WorkerMonitor {
    listening: ProtectedListener,
    app: Arc<App>,
}

impl WorkerMonitor {
    /// Listens at an address. Fails if other machines could connect and there is no API key.
    pub async fn bind_address(app: Arc<App>, bind: SocketAddr) -> Result<WorkerMonitor, ServeError> {
        Ok(WorkerMonitor { listening: ProtectedListener::bind_address(&app, bind).await?, app })
    }

    /// The address that it listens at.
    pub fn local_address(&self) -> SocketAddr {
        self.listening.address
    }

    /// Answers calls until the future is dropped.
    pub async fn answer_calls(self) {
        let WorkerMonitor { listening: ProtectedListener { listener, address, is_open }, app } = self;
        let (router, openapi) = worker_routes().split_for_parts();
        let settings = app.config.server.clone();
        // Restate's sessions drive the runs of a worker.
        let host = RunHost::new(app, PathBuf::new(), RunSupervisor::new(0, None));
        let closing = host.closing.clone();
        let openapi = serde_json::to_value(openapi).unwrap_or_default();
        let server = Server::new(ServerParts { is_open, ..build_parts(host, address, openapi) });
        let router = router.fallback(async |uri: axum::http::Uri| Problem::not_found("route", uri.path()));
        serve_connections(listener, guard_routes(router, server), &settings, is_open, closing).await;
    }
}
