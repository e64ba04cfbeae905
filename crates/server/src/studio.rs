//! Serves the studio: its page at the addresses of its places, and its files. Requests that no route answers come here.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use flowloom_core::code::Code;
use flowloom_studio::PageFile;

use crate::problem::Problem;
use crate::public_url::PublicUrl;
use crate::state::Server;

/// The page loads and reads only what this server sends. Pictures may also be data of a run.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'self'; \
                                       form-action 'none'; frame-ancestors 'none'";

/// Names of files in `assets` contain a hash of their content.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Browsers ask whether the content is still the same.
const REVALIDATED: &str = "no-cache";

/// The first segments of addresses that are places of the page.
const PAGE_SEGMENTS: [&str; 11] =
    ["", "chat", "compare", "create", "inbox", "library", "new", "runs", "settings", "tests", "workflows"];

/// Answers a request that no route answers.
pub(crate) async fn answer_other(
    State(server): State<Server>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let is_read = method == Method::GET || method == Method::HEAD;
    let path = uri.path().trim_start_matches('/');
    if !is_read || !server.has_studio {
        return refuse_unknown();
    }
    if PAGE_SEGMENTS.contains(&path.split('/').next().unwrap_or_default()) {
        return send_page(StatusCode::OK, server.public_url.as_ref());
    }
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match flowloom_studio::find_file(path, accepted) {
        Some(file) => send_file(path, file, &headers),
        // A person has mistyped an address: the page reports it, and links to its places.
        None if asks_for_page(&headers) => send_page(StatusCode::NOT_FOUND, server.public_url.as_ref()),
        None => refuse_unknown(),
    }
}

/// Whether a browser opens the address as a page. Programs that read the API accept anything, or JSON.
fn asks_for_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|one| one.split(';').next().map(str::trim) == Some("text/html"))
}

fn refuse_unknown() -> Response {
    let message = "there is no such route; GET /docs shows all of them, GET /openapi.json describes them";
    Problem::new(Code::NotThere, message).into_response()
}

fn send_page(status: StatusCode, public_url: Option<&PublicUrl>) -> Response {
    let head = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, REVALIDATED),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    ];
    (status, head, flowloom_studio::render_page(public_url.map_or("", PublicUrl::prefix))).into_response()
}

fn send_file(path: &str, file: PageFile, request: &HeaderMap) -> Response {
    let caching = if path.starts_with("assets/") { IMMUTABLE } else { REVALIDATED };
    let is_known = request.get(header::IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == file.tag.as_bytes());
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, file.content_type)], file.content).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(encoding) = file.encoding.filter(|_| !is_known) {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    if let Ok(tag) = HeaderValue::from_str(&file.tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
