//! Checks every request before a handler runs: its host, its origin, its scope and its content type. Adds security
//! headers to every response.

use std::time::Instant;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{FromRequestParts as _, MatchedPath, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::trace::TraceContext;
use tower_service::Service as _;
use uuid::Uuid;

use crate::blocking::ServedRequest;
use crate::body::{MAX_BODY_BYTES, body_too_large, discard_body};
use crate::body_budget::OpenBody;
use crate::caller::{Caller, UsedKey};
use crate::definitions::upload::BodyKind as Upload;
use crate::mcp::http::MCP_PATH;
use crate::problem::Problem;
use crate::public_url::PublicUrl;
use crate::revoked::is_event_stream;
use crate::state::Server;
use crate::{cors, hook_credential, hooks, openai};

/// The header with the id of a request, in requests and responses.
const REQUEST_ID_HEADER: &str = "x-request-id";
/// Maximum length of a request's id that a client chooses, in characters.
const MAX_REQUEST_ID_CHARS: usize = 128;

/// The routes behind the checks that every request must pass. Not a layer of the router: it copies all its layers for
/// each request.
#[derive(Clone)]
pub(crate) struct GuardedRouter {
    pub(crate) server: Server,
    /// For clients that accept no encoding. The layer that compresses costs as much as a small route, even if it has
    /// nothing to do.
    pub(crate) plain: Router,
    /// For clients that accept an encoding.
    pub(crate) compressing: Router,
}

impl GuardedRouter {
    /// Responds to a request, and logs it.
    pub(crate) async fn handle_request(self, request: Request) -> Response {
        let (started, method) = (Instant::now(), request.method().clone());
        let logged = tracing::enabled!(tracing::Level::INFO).then(|| LoggedRequest::new(&request));
        let request_id = find_request_id(request.headers());
        let accepts_encoding = request.headers().contains_key(header::ACCEPT_ENCODING);
        let router = if accepts_encoding { self.compressing } else { self.plain };
        let mut answer = guard_request(&self.server, request, router).await;
        if let Ok(value) = HeaderValue::from_str(&request_id) {
            answer.headers_mut().entry(REQUEST_ID_HEADER).or_insert(value);
        }
        let elapsed = started.elapsed();
        let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.server.requests.record_request(&method, &answer, duration_ms);
        if let Some(LoggedRequest { path, trace }) = logged {
            let (status, ms) = (answer.status().as_u16(), elapsed.as_secs_f64() * 1e3);
            let key = answer.extensions().get::<Caller>().and_then(|caller| caller.key.as_ref()).map(UsedKey::id);
            let run = run_of(answer.headers());
            tracing::info!(%method, path, status, ms, key, run, trace, request = request_id, "call");
        }
        answer
    }
}

/// The id of a request: the client's or the proxy's, or else a new one.
fn find_request_id(headers: &HeaderMap) -> String {
    let is_plain = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    let given = headers.get(REQUEST_ID_HEADER).and_then(|value| value.to_str().ok());
    let given = given.filter(|id| (1..=MAX_REQUEST_ID_CHARS).contains(&id.len()) && is_plain(id));
    given.map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned)
}

/// The logged fields of a request.
struct LoggedRequest {
    path: String,
    /// The id of the trace that the request belongs to.
    trace: Option<String>,
}

/// Maximum number of bytes of a path in the log.
const MAX_LOGGED_PATH_BYTES: usize = 1024;

impl LoggedRequest {
    fn new(request: &Request) -> LoggedRequest {
        let header = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
        let trace = header.and_then(TraceContext::parse).map(|context| context.trace);
        let path = request.uri().path();
        // Anyone can send a long path.
        let path = path[..path.floor_char_boundary(MAX_LOGGED_PATH_BYTES)].to_owned();
        LoggedRequest { path, trace }
    }
}

/// The run that a response names.
fn run_of(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let in_location = || text("location")?.split_once("/api/v1/runs/")?.1.split('/').next();
    text("x-flowloom-run-id").or_else(in_location)
}

/// A route of AgentFlow without the slash at its end: FastAPI leads clients from the one to the other.
fn drop_trailing_slash(mut request: Request) -> Request {
    let uri = request.uri();
    let is_compat = uri.path().starts_with("/api/") && !uri.path().starts_with("/api/v1/");
    let Some(path) = uri.path().strip_suffix('/').filter(|_| is_compat) else { return request };
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    if let Ok(uri) = format!("{path}{query}").parse() {
        *request.uri_mut() = uri;
    }
    request
}

async fn guard_request(server: &Server, request: Request, mut router: Router) -> Response {
    let request = drop_trailing_slash(request);
    let is_openai = request.uri().path().starts_with(openai::names::ROUTE_PREFIX);
    let (mut parts, body) = request.into_parts();
    let open_body = (!body.is_end_stream()).then(|| OpenBody::new(server.bodies.clone()));
    // It counts until the request is answered.
    open_body.clone().and_then(|open_body| parts.extensions.insert(open_body));
    let is_listed = cors::is_listed(&server.cors, &parts.headers);
    let is_preflight = is_listed && cors::is_preflight(&parts.method, &parts.headers);
    let mut answer = match check_request(server, &parts, is_listed) {
        Ok(()) => router.call(Request::from_parts(parts, body)).await.into_response(),
        Err(problem) => {
            discard_body(&parts.headers, body).await;
            let mut answer = problem.into_response();
            // Where such a body ends depends on who reads it.
            if has_unknown_transfer_coding(&parts.headers) {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        }
    };
    if is_preflight && answer.status() == StatusCode::OK {
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    if is_openai {
        openai::failure::convert_problem(&mut answer);
    }
    if let Some(public_url) = &server.public_url {
        public_url.add_prefix(&mut answer);
    }
    add_security_headers(answer.headers_mut());
    answer
}

/// Lets a call through whose key allows it. It ends with the key, and so does a stream that answers it.
pub(crate) async fn authorize(State(server): State<Server>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(problem) = authenticate(&server, &mut parts).await {
        discard_body(&parts.headers, body).await;
        let mut answer = problem.into_response();
        parts.extensions.remove::<MatchedPath>().and_then(|route| answer.extensions_mut().insert(route));
        return answer;
    }
    let caller = parts.extensions.get::<Caller>().cloned();
    let route = parts.extensions.get::<MatchedPath>().cloned();
    let work = caller.as_ref().map(|caller| server.host.places.request_of(caller.user_id()));
    let mut answer = match server.calls.enter_call(caller.as_ref()) {
        Ok(call) => call.answer_with(answer_in_places(work, next.run(Request::from_parts(parts, body)))).await,
        Err(problem) => {
            discard_body(&parts.headers, body).await;
            problem.into_response()
        }
    };
    // For the log and the metrics.
    caller.and_then(|caller| answer.extensions_mut().insert(caller));
    route.and_then(|route| answer.extensions_mut().insert(route));
    answer
}

/// The answer of a handler whose work takes places of the caller's user, also while it streams events.
async fn answer_in_places(work: Option<ServedRequest>, handled: impl Future<Output = Response>) -> Response {
    let Some(work) = work else { return handled.await };
    let answer = work.clone().serve_handler(handled).await;
    if is_event_stream(&answer) { answer.map(|body| work.serve_body(body)) } else { answer }
}

/// Authenticates the caller before the body is read. The required scope comes from the operation's OpenAPI description.
/// Handlers find the caller in the request extensions and check what depends on the body.
async fn authenticate(server: &Server, request: &mut Parts) -> Result<(), Problem> {
    let Some(path) = request.extensions.get::<MatchedPath>().cloned() else { return Ok(()) };
    // A handler of GET answers HEAD, too.
    let is_head = request.method == Method::HEAD;
    let method = if is_head { &Method::GET } else { &request.method };
    let methods = server.scopes.get(path.as_str());
    let required = methods.and_then(|methods| methods.iter().find(|(known, _)| known == method));
    let scopes = required.map(|(_, scopes)| scopes.as_slice());
    if scopes.is_none() && path.as_str() != MCP_PATH {
        return Ok(());
    }
    let takes_parameters = server.bare_methods.get(path.as_str()).is_none_or(|methods| !methods.contains(method));
    let caller = Caller::from_request_parts(request, server).await?;
    let scopes = scopes.unwrap_or_default();
    scopes.iter().try_for_each(|scope| caller.require_scope(*scope))?;
    if is_head && scopes.iter().any(|scope| matches!(scope, Scope::Run | Scope::Write)) {
        let message = "this route starts something, so it does not answer HEAD; send a GET";
        return Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::METHOD_NOT_ALLOWED));
    }
    request.extensions.insert(caller);
    if takes_parameters { Ok(()) } else { reject_parameters(&request.uri) }
}

/// Rejects the query parameters of a route that has none.
fn reject_parameters(uri: &Uri) -> Result<(), Problem> {
    let given = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(given)| given).unwrap_or_default();
    match given.first() {
        Some((name, _)) => {
            let message = format!("invalid URL: unknown field `{name}`, there are no fields");
            Err(Problem::new(Code::RequestInvalid, message))
        }
        None => Ok(()),
    }
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
    // The probes of a cluster know the address only, and health checks need no key.
    let is_probe = matches!(request.uri.path(), "/health" | "/health/live" | "/health/ready");
    if !is_probe && !server.is_own_host(host) {
        let message = format!("unknown host {host:?}; start the server with every name under which callers reach it");
        return Err(Problem::new(Code::OriginRefused, message));
    }
    let is_own = |origin: &str| is_own_origin(server.public_url.as_ref(), host, origin);
    if headers.contains_key(header::ORIGIN) && !is_listed && !text(header::ORIGIN).is_some_and(is_own) {
        let message = format!(
            "requests from pages of {} are not allowed; see [server] cors",
            text(header::ORIGIN).unwrap_or("that site")
        );
        return Err(Problem::new(Code::OriginRefused, message));
    }
    check_content(request)
}

/// Whether pages of `origin` belong to the server that a request calls `host`. The own origin includes the scheme and the port:
/// another port of this machine is another site. Under the name of the public address, only that address is the own one.
/// Behind a proxy that encrypts without one, `cors` names the origin.
fn is_own_origin(public_url: Option<&PublicUrl>, host: &str, origin: &str) -> bool {
    let is_this = |(scheme, own): (&str, &str)| scheme == "http" && own.eq_ignore_ascii_case(host);
    match public_url {
        Some(public) if public.origin.eq_ignore_ascii_case(origin) => true,
        Some(public) if public.is_called(host) => false,
        _ => origin.split_once("://").is_some_and(is_this),
    }
}

/// Rejects requests that say twice what counts once. Programs in front of the server may read the other one.
fn reject_repeated_headers(headers: &HeaderMap) -> Result<(), Problem> {
    // Most requests repeat no header at all.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let known = [header::HOST, header::CONTENT_TYPE, header::AUTHORIZATION, header::ORIGIN].into_iter();
    let hook = [hook_credential::SECRET_HEADER, hook_credential::SIGNATURE_HEADER].into_iter();
    let keys = hooks::DELIVERY_HEADERS.into_iter().map(HeaderName::from_static);
    let repeated = known.chain(hook).chain(keys).find(|name| headers.get_all(name).iter().nth(1).is_some());
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

/// Rejects compressed bodies: a small one could expand to a very large one.
fn reject_encoded_body(headers: &HeaderMap) -> Result<(), Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim().to_owned());
    match encoding.filter(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity")) {
        Some(encoding) => {
            let message = format!("the body has the Content-Encoding {encoding}; send it without one");
            Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
        }
        None => Ok(()),
    }
}

/// Whether a body is transferred in another coding than in chunks, such as `gzip, chunked`.
fn has_unknown_transfer_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    codings.next().is_some_and(|coding| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
        || codings.next().is_some()
}

/// Checks content type and length. Forms of another site can be sent without preflight, but never with the type JSON.
fn check_content(request: &Parts) -> Result<(), Problem> {
    let Parts { method, uri, headers, .. } = request;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let changes = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if has_unknown_transfer_coding(headers) {
        let message = "the only Transfer-Encoding that this server knows is chunked";
        return Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::NOT_IMPLEMENTED));
    }
    reject_encoded_body(headers)?;
    // A chunked body has no declared length.
    let has_body = length.map_or_else(|| headers.contains_key(header::TRANSFER_ENCODING), |length| length > 0);
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let is_taken = Upload::from_content_type(kind).is_some_and(|kind| kind.is_accepted(method, uri));
    if changes && !is_taken && (has_body || headers.contains_key(header::CONTENT_TYPE)) {
        let message = format!("the body must be application/json, not {kind:?}");
        return Err(Problem::new(Code::RequestInvalid, message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if length.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(body_too_large());
    }
    Ok(())
}
