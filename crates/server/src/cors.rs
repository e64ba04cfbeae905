//! CORS: only the configured origins may call from a browser. Calls authenticate with a key; cookies are not used, so
//! credentials are not allowed.

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

/// The origin of a request, if it is one of `listed`.
pub(crate) fn listed(listed: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    listed.iter().any(|one| one.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// The response to a preflight request; `None` for other requests.
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

/// Allows the page at `origin` to read a response.
pub(crate) fn allow(answer: &mut HeaderMap, origin: HeaderValue) {
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN);
}
