//! `/v1`: an OpenAI-compatible API in which workflows are models, so that existing clients work unchanged
//! (docs/protocols.md). The handlers only translate; the runs are ordinary runs.

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

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .routes(routes!(chat::complete))
        .routes(routes!(responses::create))
        .routes(routes!(responses::get))
}
