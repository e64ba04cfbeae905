//! What every call must be before a handler sees it: addressed to this server, from no other site, and JSON where it
//! changes something.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flowloom_core::code::Code;

use super::Server;
use super::definitions::upload::Kind as Upload;
use super::problem::Problem;

/// Bytes of a body at most.
pub(crate) const BODY: usize = 16 << 20;

pub(crate) async fn guard(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    match check(&server, request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check(server: &Server, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).or_else(|| uri.host()).unwrap_or_default();
    if !server.answers_to(host) {
        let message = format!("this server does not answer to the host {host:?}");
        return Err(Problem::new(Code::OriginRefused, message));
    }
    if let Some(origin) = text(header::ORIGIN)
        && !origin.split_once("://").is_some_and(|(_, host)| server.answers_to(host))
    {
        let message = format!("calls from pages of {origin} are not taken");
        return Err(Problem::new(Code::OriginRefused, message));
    }
    let changes = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    // A body without a declared length is one, too.
    let has_body = length.map_or_else(|| headers.contains_key(header::TRANSFER_ENCODING), |length| length > 0);
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let is_taken = Upload::of(kind).is_some_and(|kind| kind.is_taken(method, uri));
    // What a form of another site can send without asking is never JSON by its type.
    if changes && !is_taken && (has_body || !kind.is_empty()) {
        let message = format!("the body must be application/json, not {kind:?}");
        return Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if length.is_some_and(|length| length > BODY as u64) {
        let message = format!("the body has more than {BODY} bytes");
        return Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::PAYLOAD_TOO_LARGE));
    }
    Ok(())
}
