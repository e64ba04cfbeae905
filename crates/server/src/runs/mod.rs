//! `/api/v1/runs`: runs are started, read, followed, and told what to do.

pub(crate) mod answer;
pub(crate) mod events;
mod read;
mod shown;
mod signals;
pub(crate) mod start;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(read::list, start::start))
        .routes(routes!(read::get))
        .routes(routes!(read::follow))
        .routes(routes!(read::replay))
        .routes(routes!(signals::cancel))
        .routes(routes!(signals::resume))
        .routes(routes!(signals::reply))
        .routes(routes!(signals::resolve))
}
