//! Health checks, metrics and error pages.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::blocks::BlockRegistry;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::Store;
use flowloom_store::StoreError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// The routes of health checks, metrics and error pages.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(get_health))
        .routes(routes!(get_live))
        .routes(routes!(get_ready))
        .routes(routes!(get_metrics))
        .routes(routes!(get_error_page))
}

/// Returns 200 while the process is running.
#[utoipa::path(get, path = "/health/live", tag = "health", operation_id = "is_live",
    responses((status = 200, description = "The process is running", body = String, content_type = "text/plain")))]
pub(crate) async fn get_live() -> &'static str {
    "ok"
}

/// Returns the health in AgentFlow's form; `embeddings` is `failing` while block search uses full text only.
#[utoipa::path(get, path = "/health", tag = "health", operation_id = "health",
    responses((status = 200, description = "`{status: \"ok\", embeddings: \"ok\" | \"failing\"}`")))]
pub(crate) async fn get_health(State(blocks): State<Arc<BlockRegistry>>) -> Json<serde_json::Value> {
    let embeddings = if blocks.embedding_failure().is_some() { "failing" } else { "ok" };
    Json(serde_json::json!({"status": "ok", "embeddings": embeddings}))
}

/// Returns 200 if the database can be read and accepts commits.
#[utoipa::path(get, path = "/health/ready", tag = "health", operation_id = "is_ready",
    responses((status = 200, description = "The server is ready", body = String, content_type = "text/plain"),
        (status = 500, description = "The database failed"),
        (status = 503, description = "The database is locked or cannot be reached")))]
pub(crate) async fn get_ready(State(store): State<Arc<Store>>) -> ApiResult<&'static str> {
    let readable = store.clone();
    crate::blocking::run_blocking(move || readable.list_runs(1)).await??;
    store.check_writable().await?;
    Ok("ok")
}

/// Returns metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics", security(("key" = ["read"])),
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
pub(crate) async fn get_metrics(State(server): State<Server>, caller: Caller) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    // The server itself holds one reference.
    let without_vectors = u64::from(server.app.blocks.embedding_failure().is_some());
    let (live, followers) = (server.supervisor.count(), Arc::strong_count(&server.followers) - 1);
    let (bytes, commits, counts, oldest) = crate::blocking::run_blocking(move || {
        let store = &server.app.store;
        Ok::<_, StoreError>((
            store.size_bytes()?,
            store.commit_count(),
            store.count_by_status()?,
            store.oldest_unfinished_at()?,
        ))
    })
    .await??;
    let mut text = String::new();
    let mut figure = |name: &str, kind: &str, help: &str, rows: &[(String, u64)]| {
        let _ = writeln!(text, "# HELP flowloom_{name} {help}\n# TYPE flowloom_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(text, "flowloom_{name}{labels} {value}");
        }
    };
    let plain = |value: u64| [(String::new(), value)];
    figure("runs_live", "gauge", "Runs that this process drives.", &plain(live as u64));
    figure("followers", "gauge", "Clients that follow a run.", &plain(followers as u64));
    figure("embeddings_failing", "gauge", "1 while block search uses full text only.", &plain(without_vectors));
    figure("journal_bytes", "gauge", "Bytes of the database.", &plain(bytes));
    figure("commits_total", "counter", "Commits since the start.", &plain(commits));
    let age = oldest.map_or(0, |created| SystemClock.now_ms().saturating_sub(created) / 1000);
    let help = "Age of the oldest unfinished run in seconds; 0 if there is none.";
    figure("oldest_unfinished_seconds", "gauge", help, &plain(age));
    let rows: Vec<_> = counts.iter().map(|(status, count)| (format!("{{status=\"{status}\"}}"), *count)).collect();
    figure("runs", "gauge", "Runs in the database by status.", &rows);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
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
