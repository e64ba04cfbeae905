//! CORS: only the configured origins may call from a browser. Calls authenticate with a key; cookies are not used, so
//! credentials are not allowed.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tower_http::cors::CorsLayer;

/// How long a browser may remember what it was allowed.
const MAX_AGE_SECONDS: Duration = Duration::from_secs(600);

/// Headers that pages may send.
const ALLOWED_HEADERS: [HeaderName; 29] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("x-flowloom-thread"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    // OpenAI's SDKs send these with each request.
    HeaderName::from_static("openai-beta"),
    HeaderName::from_static("openai-organization"),
    HeaderName::from_static("openai-project"),
    HeaderName::from_static("x-stainless-arch"),
    HeaderName::from_static("x-stainless-async"),
    HeaderName::from_static("x-stainless-custom-poll-interval"),
    HeaderName::from_static("x-stainless-helper-method"),
    HeaderName::from_static("x-stainless-lang"),
    HeaderName::from_static("x-stainless-os"),
    HeaderName::from_static("x-stainless-package-version"),
    HeaderName::from_static("x-stainless-poll-helper"),
    HeaderName::from_static("x-stainless-raw-response"),
    HeaderName::from_static("x-stainless-read-timeout"),
    HeaderName::from_static("x-stainless-retry-count"),
    HeaderName::from_static("x-stainless-runtime"),
    HeaderName::from_static("x-stainless-runtime-version"),
    HeaderName::from_static("x-stainless-timeout"),
];

/// Headers of answers that pages may read.
const EXPOSED_HEADERS: [HeaderName; 6] = [
    header::ETAG,
    header::LOCATION,
    header::RETRY_AFTER,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("x-flowloom-run-id"),
    HeaderName::from_static("x-request-id"),
];

/// The layer that lets pages of the listed origins call; `None` if there are none.
pub(crate) fn layer(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    let layer = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers(ALLOWED_HEADERS)
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
