//! CORS: only the configured origins may call from a browser. Calls authenticate with a key; cookies are not used, so
//! credentials are not allowed.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tower_http::cors::CorsLayer;

/// How long a browser may remember what it was allowed.
const MAX_AGE_SECONDS: Duration = Duration::from_secs(600);

/// Headers that pages may send.
const SENT: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];

/// Headers of answers that pages may read.
const EXPOSED_HEADERS: [HeaderName; 3] =
    [header::LOCATION, header::RETRY_AFTER, HeaderName::from_static("mcp-session-id")];

/// What lets pages of the listed origins call; `None` if there are none.
pub(crate) fn layer(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    let layer = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers(SENT)
        .expose_headers(EXPOSED_HEADERS)
        .max_age(MAX_AGE_SECONDS)
        .vary([header::ORIGIN]);
    Some(layer)
}

/// Whether a call comes from a page of one of the listed origins.
pub(crate) fn is_listed(origins: &[String], headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN);
    origin.is_some_and(|origin| origins.iter().any(|one| one.as_bytes() == origin.as_bytes()))
}

/// Whether a call is a browser's question whether a page may call.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}
