//! What answers of OpenAI's interface name: their routes, their runs and times.

use axum::http::{HeaderName, HeaderValue};
use flowloom_core::id::RunId;

/// Prefix of these routes.
pub(crate) const ROUTE_PREFIX: &str = "/v1/";

/// The response header that names the run.
const RUN_ID_HEADER: HeaderName = HeaderName::from_static("x-flowloom-run-id");

/// The response headers of a run.
pub(crate) fn run_headers(run: RunId) -> [(HeaderName, HeaderValue); 1] {
    let id = HeaderValue::from_str(&run.to_string()).unwrap_or(HeaderValue::from_static(""));
    [(RUN_ID_HEADER, id)]
}

/// The answers of a run have different ids, although a run that waited for its client goes on: `prefix` and the run's id,
/// and from the second answer on the number of answers and results that its client had given it.
pub(crate) fn answer_id(prefix: &str, run: RunId, given: usize) -> String {
    if given == 0 { format!("{prefix}{run}") } else { format!("{prefix}{run}_{given}") }
}

/// The creation time of a run in seconds since the Unix epoch, taken from its id.
pub(crate) fn created_seconds(run: RunId) -> u64 {
    run.0.get_timestamp().map_or(0, |at| at.to_unix().0)
}
