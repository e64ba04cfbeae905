//! Health checks, metrics and error pages.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::blocks::BlockRegistry;
use flowloom_app::error::AppError;
use flowloom_core::code::Code;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::metrics;
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem};
use crate::state::{RunHost, Server};

/// The routes of health checks, metrics and error pages.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(get_health))
        .routes(routes!(get_live))
        .routes(routes!(get_ready))
        .routes(routes!(metrics::get_metrics))
        .routes(routes!(get_error_page))
}

/// The routes by which operators watch a worker of Restate.
pub(crate) fn worker_routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(get_live))
        .routes(routes!(get_ready))
        .routes(routes!(metrics::get_worker_metrics))
}

/// Returns 200 while the process is running.
#[utoipa::path(get, path = "/health/live", tag = "health", operation_id = "is_live",
    responses((status = 200, description = "The process is running", body = String, content_type = "text/plain")))]
pub(crate) async fn get_live() -> &'static str {
    "ok"
}

/// Returns the health in AgentFlow's form; `embeddings` is `failing` while block search uses full text only.
#[utoipa::path(get, path = "/health", tag = "health", operation_id = "health",
    responses((status = 200, description = "The process is running", body = Health)))]
pub(crate) async fn get_health(State(blocks): State<Arc<BlockRegistry>>) -> Json<Health> {
    let embeddings = if blocks.embedding_failure().is_some() { "failing" } else { "ok" };
    Json(Health { status: "ok", embeddings })
}

/// The health of the process.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    /// `ok` or `failing`.
    embeddings: &'static str,
}

/// Returns 200 if the database can be read and accepts commits, and the server is not stopping.
#[utoipa::path(get, path = "/health/ready", tag = "health", operation_id = "is_ready",
    responses((status = 200, description = "The server is ready", body = String, content_type = "text/plain"),
        (status = 500, description = "The database failed"),
        (status = 503, description = "The database is locked, cannot be reached or cannot be written, or the server is stopping"),
        (status = 507, description = "The disk is full")))]
pub(crate) async fn get_ready(State(host): State<Arc<RunHost>>) -> ApiResult<&'static str> {
    check_ready(&host).await?;
    Ok("ok")
}

/// Maximum time of a readiness check: the store reports an outage after five seconds, and here a read precedes a write.
const READY_TIMEOUT: Duration = Duration::from_millis(5500);

/// Fails if the database cannot be read or accepts no commits within [`READY_TIMEOUT`], or if the server is stopping.
pub(crate) async fn check_ready(host: &RunHost) -> ApiResult<()> {
    let timed = tokio::time::timeout(READY_TIMEOUT, check_database(host));
    timed.await.unwrap_or_else(|_| {
        let message = format!("the database does not respond within {} ms", READY_TIMEOUT.as_millis());
        Err(Problem::new(Code::StoreUnreachable, message))
    })
}

async fn check_database(host: &RunHost) -> ApiResult<()> {
    if host.supervisor.is_closed() {
        return Err(AppError::Stopping.into());
    }
    let store = host.app.store.clone();
    let readable = store.clone();
    crate::blocking::run_blocking(move || readable.list_runs(1)).await??;
    Ok(store.check_writable().await?)
}

/// Returns the documentation of an error code.
#[utoipa::path(get, path = "/errors/{code}", tag = "health", operation_id = "explain_code",
    params(("code" = String, Path)),
    responses((status = 200, description = "Markdown page", body = String, content_type = "text/markdown"),
        (status = 404, description = "Unknown error code")))]
pub(crate) async fn get_error_page(PathParam(code): PathParam<String>) -> ApiResult<Response> {
    let page = Code::parse(&code).and_then(flowloom_app::error_pages::find_page);
    let page = page.ok_or_else(|| Problem::not_found("code", &code))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response())
}
