//! AgentFlow's API: blocks, pipelines, their executions, notifications and memory (docs/formats/pipeline.md).

mod author;
mod automate;
mod blocks;
mod executions;
mod memory;
mod node_events;
mod notifications;
mod owner;
mod pipelines;
mod run_stream;
mod wire;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes of AgentFlow's API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(author::clarify_goal))
        .routes(routes!(author::create_agent))
        .routes(routes!(author::create_agent_stream, author::follow_create_agent))
        .routes(routes!(automate::automate_goal))
        .routes(routes!(automate::automate_stream, automate::follow_automate))
        .routes(routes!(blocks::list_blocks, blocks::put_block))
        .routes(routes!(blocks::get_block, blocks::update_block, blocks::delete_block))
        .routes(routes!(blocks::get_source))
        .routes(routes!(blocks::search_blocks))
        .routes(routes!(pipelines::list_pipelines, pipelines::create_pipeline))
        .routes(routes!(pipelines::get_pipeline, pipelines::delete_pipeline))
        .routes(routes!(pipelines::run_workflow))
        .routes(routes!(pipelines::run_unstored))
        .routes(routes!(run_stream::stream_unstored))
        .routes(routes!(run_stream::stream_stored, run_stream::follow_stored))
        .routes(routes!(executions::list_executions))
        .routes(routes!(executions::get_execution))
        .routes(routes!(executions::list_native))
        .routes(routes!(executions::get_native))
        .routes(routes!(notifications::list_notifications))
        .routes(routes!(notifications::read_notification))
        .routes(routes!(notifications::list_native))
        .routes(routes!(notifications::get_native))
        .routes(routes!(notifications::read_native))
        .routes(routes!(memory::get_memory, memory::replace_memory))
        .routes(routes!(memory::put_one, memory::remove_one))
        .routes(routes!(memory::get_native, memory::replace_native))
        .routes(routes!(memory::put_native, memory::remove_native))
}
