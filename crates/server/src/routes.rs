//! The route table: what every area of the server adds to it, and its description.

use axum::Router;
use axum::extract::State;
use flowloom_core::Hash;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::definitions::etag::{IfContent, Tagged};
use crate::state::Server;
use crate::{
    agents, audit, caller_info, compat, definitions, docs, functions, health, hooks, keys, models, openai, problem,
    runs, schedules, secrets, threads, usage, workflow_tests,
};

/// The routes and their OpenAPI document.
pub(crate) fn build_routes() -> (Router<Server>, utoipa::openapi::OpenApi) {
    #[derive(OpenApi)]
    #[openapi(
        info(
            title = "Flowloom",
            description = "Runs agent workflows in six formats.",
            license(name = "MIT OR Apache-2.0")
        ),
        components(schemas(problem::ProblemDocument, openai::failure::OpenAiError))
    )]
    struct Api;
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(get_openapi))
        .merge(definitions::routes())
        .merge(runs::routes())
        .merge(threads::routes())
        .merge(agents::routes())
        .merge(models::routes())
        .merge(schedules::routes())
        .merge(hooks::routes())
        .merge(functions::routes())
        .merge(keys::routes())
        .merge(secrets::routes())
        .merge(workflow_tests::routes())
        .merge(audit::routes())
        .merge(caller_info::routes())
        .merge(usage::routes())
        .merge(health::routes())
        .merge(docs::routes())
        .merge(openai::openai_routes())
        .merge(compat::routes())
        .split_for_parts()
}

/// Returns this OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "about", operation_id = "describe",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value),
        (status = 304, description = "The client has this document already")))]
async fn get_openapi(State(server): State<Server>, IfContent(condition): IfContent) -> Tagged<serde_json::Value> {
    let document = server.openapi.clone();
    let tag = Hash::of_bytes(document.to_string().as_bytes()).to_string();
    Tagged::read(&condition, Some(tag), document)
}
