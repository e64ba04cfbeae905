//! HTTP routes of definitions: create, change and delete workflows and the blocks, agents and tools that they share.

pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod parts;
pub(crate) mod put;
pub(crate) mod sync;
pub(crate) mod upload;
pub(crate) mod workflows;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(workflows::list, sync::put_all))
        .routes(routes!(workflows::get, put::put, put::remove))
        .routes(routes!(put::written))
        .routes(routes!(put::versions))
        .routes(routes!(check::check))
        .merge(parts::routes())
}
