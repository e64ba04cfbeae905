//! `/v1`: workflows as the models of OpenAI's interface, so that its clients talk to one unchanged (docs/protocols.md). The
//! handlers translate; what runs is a run like every other.

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

/// Where these routes are.
pub(crate) const ROUTES: &str = "/v1/";

/// The header that names the run of an answer.
const RUN: HeaderName = HeaderName::from_static("x-flowloom-run-id");

/// The routes.
pub(crate) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .routes(routes!(chat::complete))
        .routes(routes!(responses::create))
        .routes(routes!(responses::get))
}

/// The headers that name a run.
fn named(run: RunId) -> [(HeaderName, HeaderValue); 1] {
    let id = HeaderValue::from_str(&run.to_string()).unwrap_or(HeaderValue::from_static(""));
    [(RUN, id)]
}

/// When a run was created, in seconds since 1970: its id says so.
fn created(run: RunId) -> u64 {
    run.0.get_timestamp().map_or(0, |at| at.to_unix().0)
}
