//! `/v1`: workflows as the models of OpenAI's interface, so that its clients talk to one unchanged (docs/protocols.md). The
//! handlers translate; what runs is a run like every other.

mod chat;
mod chunks;
pub(crate) mod failure;
mod inputs;
mod messages;
mod models;
pub(crate) mod names;
mod reply;
mod response_events;
mod responses;
mod run;
mod speaker;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .routes(routes!(chat::complete))
        .routes(routes!(responses::create))
        .routes(routes!(responses::get))
}
