//! Names in responses of OpenAI's interface: routes, runs and times.

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

/// The id of an answer: `prefix` and the run's id. If the client has given the run answers or tool results before, their
/// number follows, because a run that continues has several answers.
pub(crate) fn answer_id(prefix: &str, run: RunId, given_answers: usize) -> String {
    match given_answers {
        0 => format!("{prefix}{run}"),
        _ => format!("{prefix}{run}_{given_answers}"),
    }
}

/// The creation time of a run in seconds since the Unix epoch, taken from its id.
pub(crate) fn created_seconds(run: RunId) -> u64 {
    run.0.get_timestamp().map_or(0, |at| at.to_unix().0)
}
