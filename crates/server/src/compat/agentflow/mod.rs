//! AgentFlow's API: blocks, pipelines, their executions, notifications and memory (docs/formats/pipeline.md).

mod author;
mod automate;
mod blocks;
mod doer;
mod doing;
mod executions;
mod memory;
mod notifications;
mod pipelines;
mod wire;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
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
