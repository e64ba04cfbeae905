//! `/v1`: an OpenAI-compatible API in which workflows are models, so that existing clients work unchanged
//! (docs/protocols.md). The handlers only translate; the runs are ordinary runs.

mod answer_stream;
mod chat;
mod chunks;
pub(crate) mod failure;
mod format;
mod inputs;
mod messages;
mod models;
pub(crate) mod names;
mod repeated;
mod reply;
mod response_events;
mod responses;
mod run;
mod stored_response;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// The routes of the OpenAI-compatible API.
pub(crate) fn openai_routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(models::list_models))
        .routes(routes!(models::get_model))
        .routes(routes!(chat::complete_chat))
        .routes(routes!(responses::create_response))
        .routes(routes!(stored_response::get_response))
}
