//! What answers of OpenAI's interface name: their routes, their runs and times.

use axum::http::{HeaderName, HeaderValue};
use flowloom_core::id::RunId;

/// Where these routes are.
pub(crate) const ROUTES: &str = "/v1/";

/// The header that names the run of an answer.
const RUN: HeaderName = HeaderName::from_static("x-flowloom-run-id");

/// The headers that name a run.
pub(crate) fn named(run: RunId) -> [(HeaderName, HeaderValue); 1] {
    let id = HeaderValue::from_str(&run.to_string()).unwrap_or(HeaderValue::from_static(""));
    [(RUN, id)]
}

/// When a run was created, in seconds since 1970: its id says so.
pub(crate) fn created(run: RunId) -> u64 {
    run.0.get_timestamp().map_or(0, |at| at.to_unix().0)
}
