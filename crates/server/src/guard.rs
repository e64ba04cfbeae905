//! Checks every request before a handler runs: its host, its origin, its scope and its content type. Adds security
//! headers to every response.

use std::time::Instant;

use axum::Router;
use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flowloom_core::code::Code;
use tower_service::Service as _;

use crate::body::MAX_BODY_BYTES;
use crate::caller::Caller;
use crate::definitions::upload::BodyKind as Upload;
use crate::problem::Problem;
use crate::state::Server;
use crate::{cors, openai};

/// The routes behind the checks that every request must pass. Not a layer of the router: it copies all its layers for
/// each request.
#[derive(Clone)]
pub(crate) struct GuardedRouter {
    server: Server,
    router: Router,
}

impl GuardedRouter {
    pub(crate) fn new(server: Server, router: Router) -> GuardedRouter {
        GuardedRouter { server, router }
    }

    /// Responds to a request, and logs it.
    pub(crate) async fn handle_request(self, request: Request) -> Response {
        if !tracing::enabled!(tracing::Level::INFO) {
            return guard_request(&self.server, request, self.router).await;
        }
        let (started, method, path) = (Instant::now(), request.method().clone(), request.uri().path().to_owned());
        let answer = guard_request(&self.server, request, self.router).await;
        let (status, ms) = (answer.status().as_u16(), started.elapsed().as_secs_f64() * 1e3);
        tracing::info!(%method, path, status, ms, "call");
        answer
    }
}

async fn guard_request(server: &Server, request: Request, mut router: Router) -> Response {
    let is_openai = request.uri().path().starts_with(openai::names::ROUTE_PREFIX);
    let (parts, body) = request.into_parts();
    let is_listed = cors::is_listed(&server.cors, &parts.headers);
    let is_preflight = is_listed && cors::is_preflight(&parts.method, &parts.headers);
    let mut answer = match check_request(server, &parts, is_listed) {
        Ok(()) => router.call(Request::from_parts(parts, body)).await.into_response(),
        Err(problem) => problem.into_response(),
    };
    if is_preflight && answer.status() == StatusCode::OK {
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    if is_openai {
        openai::failure::convert_problem(&mut answer);
    }
    add_security_headers(answer.headers_mut());
    answer
}

/// Lets a call through whose key allows it. A stream that answers it ends with the key.
pub(crate) async fn authorize(State(server): State<Server>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(problem) = authenticate(&server, &mut parts).await {
        return problem.into_response();
    }
    let key = parts.extensions.get::<Caller>().and_then(|caller| caller.key.as_ref());
    let secret = key.map(|key| key.secret_hash.clone());
    let answer = next.run(Request::from_parts(parts, body)).await;
    server.streams.bind_to_secret(secret, answer)
}

/// Authenticates the caller before the body is read. The required scope comes from the operation's OpenAPI description.
/// Handlers find the caller in the request extensions and check what depends on the body.
async fn authenticate(server: &Server, request: &mut Parts) -> Result<(), Problem> {
    let path = request.extensions.get::<MatchedPath>().and_then(|path| server.scopes.get(path.as_str()));
    let required = path.and_then(|methods| methods.iter().find(|(method, _)| *method == request.method));
    if let Some((_, scopes)) = required {
        let caller = Caller::from_request_parts(request, server).await?;
        scopes.iter().try_for_each(|scope| caller.require_scope(*scope))?;
        request.extensions.insert(caller);
    }
    Ok(())
}

/// Adds security headers: no content sniffing, no caching, no embedding in other pages.
fn add_security_headers(answer: &mut HeaderMap) {
    let all = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ];
    for (name, value) in all {
        answer.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

fn check_request(server: &Server, request: &Parts, is_listed: bool) -> Result<(), Problem> {
    let headers = &request.headers;
    reject_repeated_headers(headers)?;
    reject_null_characters(&request.uri)?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // An authority in the request line takes precedence over the Host header.
    let host = request.uri.authority().map(|host| host.as_str()).or_else(|| text(header::HOST)).unwrap_or_default();
    if !server.is_own_host(host) {
        let message = format!("unknown host {host:?}; accept it with --host");
        return Err(Problem::new(Code::OriginRefused, message));
    }
    // The own origin includes the scheme and the port: another port of this machine is another site. Behind a proxy that
    // encrypts, `cors` names the origin.
    let is_own = |origin: &str| {
        origin.split_once("://").is_some_and(|(scheme, own)| scheme == "http" && own.eq_ignore_ascii_case(host))
    };
    if headers.contains_key(header::ORIGIN) && !is_listed && !text(header::ORIGIN).is_some_and(is_own) {
        let message = format!(
            "requests from pages of {} are not allowed; see [server] cors",
            text(header::ORIGIN).unwrap_or("that site")
        );
        return Err(Problem::new(Code::OriginRefused, message));
    }
    check_content(request)
}

/// Rejects requests that say twice what counts once. Programs in front of the server may read the other one.
fn reject_repeated_headers(headers: &HeaderMap) -> Result<(), Problem> {
    let repeated =
        [header::HOST, header::CONTENT_TYPE].into_iter().find(|name| headers.get_all(name).iter().nth(1).is_some());
    match repeated {
        Some(name) => Err(Problem::new(Code::RequestInvalid, format!("the header {name} is given more than once"))
            .with_status(StatusCode::BAD_REQUEST)),
        None => Ok(()),
    }
}

/// Rejects addresses with a null character: no id contains one, and Postgres cannot search for one.
fn reject_null_characters(uri: &Uri) -> Result<(), Problem> {
    let has_null = uri.path().contains("%00") || uri.query().is_some_and(|query| query.contains("%00"));
    match has_null {
        true => Err(Problem::new(Code::RequestInvalid, "the address contains a null character (%00)")
            .with_status(StatusCode::BAD_REQUEST)),
        false => Ok(()),
    }
}

/// Rejects requests that a page of another site made a browser send. A cross-site GET is only recognisable by this
/// header, which matters where a GET changes something.
pub(crate) fn reject_cross_site(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    match site.is_none_or(|site| matches!(site, "same-origin" | "none")) {
        true => Ok(()),
        false => Err(Problem::new(Code::OriginRefused, "requests from pages of other sites are not allowed")),
    }
}

/// Checks content type and length. Forms of another site can be sent without preflight, but never with the type JSON.
fn check_content(request: &Parts) -> Result<(), Problem> {
    let Parts { method, uri, headers, .. } = request;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let changes = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    // A chunked body has no declared length.
    let has_body = length.map_or_else(|| headers.contains_key(header::TRANSFER_ENCODING), |length| length > 0);
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let is_taken = Upload::from_content_type(kind).is_some_and(|kind| kind.is_accepted(method, uri));
    if changes && !is_taken && (has_body || headers.contains_key(header::CONTENT_TYPE)) {
        let message = format!("the body must be application/json, not {kind:?}");
        return Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if length.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        let message = format!("the body exceeds {MAX_BODY_BYTES} bytes");
        return Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::PAYLOAD_TOO_LARGE));
    }
    Ok(())
}
