//! Pages of other sites that may call: those that the configuration lists, and no others. They name a key themselves;
//! cookies do not count here, so none are asked for.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, \
     mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
);
const SHOWN: HeaderValue = HeaderValue::from_static("location, retry-after, mcp-session-id");
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origin of a call, if it is one of `listed`.
pub(crate) fn listed(listed: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    listed.iter().any(|one| one.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// The answer to a browser that asks whether it may call, if that is what a request is.
pub(crate) fn preflight(request: &Parts) -> Option<Response> {
    let asks = request.method == Method::OPTIONS
        && request.headers.contains_key(header::ORIGIN)
        && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let answers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    asks.then(|| (StatusCode::NO_CONTENT, answers).into_response())
}

/// Lets the page at `origin` read an answer.
pub(crate) fn allow(answer: &mut HeaderMap, origin: HeaderValue) {
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN);
}
