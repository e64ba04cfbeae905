//! HTTP routes of definitions: create, change and delete workflows and the blocks, agents and tools that they share.

pub(crate) mod alone;
pub(crate) mod analyze;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod estimate;
pub(crate) mod etag;
pub(crate) mod graph;
pub(crate) mod inspect;
pub(crate) mod opened;
pub(crate) mod parts;
pub(crate) mod put;
pub(crate) mod skeleton;
pub(crate) mod sync;
pub(crate) mod upload;
pub(crate) mod workflows;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes of definitions.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(workflows::list_workflows, sync::sync_workflows))
        .routes(routes!(workflows::get_workflow, put::put_workflow, put::delete_workflow))
        .routes(routes!(workflows::list_deleted_workflows))
        .routes(routes!(put::get_source))
        .routes(routes!(put::list_versions))
        .routes(routes!(check::check_definition))
        .routes(routes!(convert::convert_definition))
        .routes(routes!(diff::compare_workflows))
        .routes(routes!(estimate::estimate_cost))
        .routes(routes!(alone::get_step_inputs))
        .routes(routes!(graph::get_workflow_graph))
        .routes(routes!(graph::draw_definition))
        .routes(routes!(analyze::analyze_definition))
        .routes(routes!(inspect::inspect_open_definition))
        .routes(routes!(inspect::edit_open_definition))
        .routes(routes!(skeleton::get_skeleton))
        .merge(parts::routes())
}
