//! The routes, and their description.

use std::sync::Arc;

use axum::extract::State;
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::definitions::{self, parts};
use crate::state::Server;
use crate::{agents, docs, health, hooks, models, openai, problem, runs, schedules, threads};

/// The routes and their OpenAPI document.
pub(crate) fn routes() -> (Router<Arc<Server>>, utoipa::openapi::OpenApi) {
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
        .routes(routes!(definitions::workflows::list, definitions::sync::put_all))
        .routes(routes!(definitions::workflows::get, definitions::put::put, definitions::put::remove))
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
        .routes(routes!(runs::read::list, runs::start::start))
        .routes(routes!(runs::read::get))
        .routes(routes!(runs::read::follow))
        .routes(routes!(runs::read::replay))
        .routes(routes!(threads::list))
        .routes(routes!(threads::get, threads::say, threads::remove))
        .routes(routes!(agents::chat))
        .routes(routes!(models::list))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::put, schedules::remove))
        .routes(routes!(hooks::list))
        .routes(routes!(hooks::put, hooks::remove))
        .routes(routes!(hooks::call))
        .routes(routes!(runs::signals::cancel))
        .routes(routes!(runs::signals::resume))
        .routes(routes!(runs::signals::reply))
        .routes(routes!(runs::signals::resolve))
        .routes(routes!(health::health))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(health::explain))
        .routes(routes!(description))
        .routes(routes!(docs::page))
        .routes(routes!(docs::part))
        .merge(openai::routes())
        .merge(compat_routes())
        .split_for_parts()
}

/// The routes of the original systems.
fn compat_routes() -> OpenApiRouter<Arc<Server>> {
    use crate::compat::agentflow::{author, automate, blocks, doer, executions, memory, notifications, pipelines};
    use crate::compat::{agentos, anythingllm};
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
