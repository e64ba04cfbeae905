//! `/api/v1/runs`: starts, reads and follows runs, and sends them commands.

pub(crate) mod answer;
mod choice;
mod commands;
mod delete;
pub(crate) mod events;
mod family;
mod fork;
mod graph;
mod read;
mod read_command;
pub(crate) mod run_schema;
pub(crate) mod start;
mod statistics;
mod steps;
mod variables;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes of runs.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(read::list_runs, start::post_run))
        .routes(routes!(read::get_run))
        .routes(routes!(steps::list_steps))
        .routes(routes!(variables::get_run_variables))
        .routes(routes!(graph::get_run_graph))
        .routes(routes!(family::get_run_family))
        .routes(routes!(statistics::get_run_statistics))
        .routes(routes!(statistics::get_model_statistics))
        .routes(routes!(read::follow_run))
        .routes(routes!(read::replay_run))
        .routes(routes!(delete::delete_run))
        .routes(routes!(commands::cancel_run))
        .routes(routes!(commands::resume_run))
        .routes(routes!(commands::retry_run))
        .routes(routes!(fork::fork_run))
        .routes(routes!(commands::answer_run))
        .routes(routes!(commands::resolve_run))
        .routes(routes!(read_command::get_command))
}
