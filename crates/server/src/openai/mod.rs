//! `/v1`: an OpenAI-compatible API in which workflows are models, so that existing clients work unchanged
//! (docs/protocols.md). The handlers only translate; the runs are ordinary runs.

mod chat;
mod chunks;
pub(crate) mod failure;
mod inputs;
mod messages;
mod models;
mod reply;
mod response_events;
mod responses;
mod run;
mod speaker;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use flowloom_core::id::RunId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Server;

/// Prefix of these routes.
pub(crate) const ROUTES: &str = "/v1/";

/// The response header that names the run.
const RUN: HeaderName = HeaderName::from_static("x-flowloom-run-id");

/// The routes of the OpenAI-compatible API.
pub(crate) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .routes(routes!(chat::complete))
        .routes(routes!(responses::create))
        .routes(routes!(responses::get))
}

/// The response headers of a run.
fn named(run: RunId) -> [(HeaderName, HeaderValue); 1] {
    let id = HeaderValue::from_str(&run.to_string()).unwrap_or(HeaderValue::from_static(""));
    [(RUN, id)]
}

/// The creation time of a run in seconds since the Unix epoch, taken from its id.
fn created(run: RunId) -> u64 {
    run.0.get_timestamp().map_or(0, |at| at.to_unix().0)
}
