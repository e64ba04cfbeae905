//! One request from the first hop to the last: secrets are filled in, every hop is checked, and redirects are followed
//! as in `fetch`.

use flowloom_core::effect::HttpRequest;
use flowloom_core::rich::{Rich, RichPiece};
use flowloom_runtime::descriptors::{acquire_for_call, retry_without_descriptors};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use url::Url;

use super::body::LargeBodyPlace;
use super::error::{ExchangeError, HttpError, RequestError};
use super::headers::RequestHeaders;
use super::{HttpClient, HttpLimits, RequestSender, body};
use crate::egress::{HostPort, display_origin};
use crate::error::ToolError;
use crate::secrets::{Destination, Requester, SecretEncoding, UsedSecrets};

/// A complete response; secrets are replaced by their names.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    /// Headers; the names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
    /// URL of the last hop.
    pub(crate) url: String,
}

impl HttpResponse {
    pub(crate) fn get_header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The media type without its parameters, in lower case; empty if there is none.
    pub(crate) fn media_type(&self) -> String {
        body::media_type(self.get_header("content-type").unwrap_or_default())
    }
}

/// A file or a page that was downloaded.
#[derive(Debug)]
pub struct Download {
    /// Status code.
    pub status: u16,
    /// The media type without its parameters, in lower case; empty if there is none.
    pub media_type: String,
    /// The body.
    pub bytes: Vec<u8>,
    /// URL of the last hop.
    pub url: String,
}

/// The response at the end of all redirects, before its body is read.
struct LastHop {
    response: Response,
    url: Url,
}

/// The request of the current hop.
struct OutgoingRequest {
    method: Method,
    url: Url,
    rows: RequestHeaders,
    body: Option<String>,
    body_is_private: bool,
}

impl HttpClient {
    /// Sends a request and reads the response, whatever its status.
    pub(crate) async fn exchange(
        &self,
        request: &HttpRequest,
        sender: &RequestSender<'_>,
    ) -> Result<HttpResponse, ToolError> {
        let url = parse_named_url(&request.url)?;
        let place = HostPort::of_url(&url);
        let destination = place.as_ref().map_or(Destination::Machine, Destination::Host);
        let mut used = UsedSecrets::new(self.secrets(), destination);
        let limit = self.limits.total;
        // The time in which the call waits for a descriptor does not count.
        let _permit = acquire_for_call(&sender.user).await;
        let result = match tokio::time::timeout(limit, self.follow_hops(request, sender, &mut used)).await {
            Ok(result) => result,
            Err(_) => Err(ExchangeError::TotalTimeout { origin: display_origin(&url), limit }.into()),
        };
        match result {
            Ok(received) => Ok(redact_response(received, &used)),
            Err(error) => Err(used.redact_error(error).into()),
        }
    }

    /// Downloads a URL that a person names. Redirects are followed, and no secrets are sent. Fails if the host
    /// may not be reached, if no complete response arrives in time, or if the response is too large.
    pub async fn download_url(&self, url: &str) -> Result<Download, ToolError> {
        let (method, url) = ("GET".to_owned(), Rich::from(url));
        let request = HttpRequest { method, url, headers: Vec::new(), body: None, uses_tool_host: false };
        let sender = RequestSender::of_person();
        let mut used = UsedSecrets::new(self.secrets(), Destination::Machine);
        let limit = self.limits.total;
        let work = async {
            let mut last = self.open_response(&request, &sender, &mut used).await?;
            let mut place = LargeBodyPlace::new(&self.large_bodies, &sender.user);
            let bytes = body::read_body(&mut last.response, &last.url, &self.limits, &mut place).await?;
            let kind = last.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = body::media_type(kind.unwrap_or_default());
            Ok(Download { status: last.response.status().as_u16(), media_type, bytes, url: last.url.into() })
        };
        let origin = request.url.to_redacted_text();
        let read = tokio::time::timeout(limit, work).await;
        let read: Result<Download, HttpError> =
            read.unwrap_or_else(|_| Err(ExchangeError::TotalTimeout { origin, limit }.into()));
        read.map_err(|error| used.redact_error(error).into())
    }

    async fn follow_hops(
        &self,
        request: &HttpRequest,
        sender: &RequestSender<'_>,
        used: &mut UsedSecrets<'_>,
    ) -> Result<HttpResponse, HttpError> {
        let last = self.open_response(request, sender, used).await?;
        let place = LargeBodyPlace::new(&self.large_bodies, &sender.user);
        body::read_response(last.response, last.url, &self.limits, place).await
    }

    /// The response that is no redirect.
    async fn open_response(
        &self,
        request: &HttpRequest,
        sender: &RequestSender<'_>,
        used: &mut UsedSecrets<'_>,
    ) -> Result<LastHop, HttpError> {
        let mut hop = OutgoingRequest::new(request, sender, used, &self.limits)?;
        for _ in 0..=self.limits.redirects {
            let route = match sender.head {
                Requester::Configuration => self.policy.check_configured_url(&hop.url)?,
                Requester::Definition(_) => self.policy.check_url(&hop.url)?,
            };
            let client = self.client_for(route)?;
            let response = retry_without_descriptors(|| hop.send_with(client)).await;
            let response = response.map_err(|error| HttpError::from_request(error, &hop.url, &self.limits))?;
            match redirect_target(&response) {
                Some(next) => hop.follow_redirect(response.status(), &next, used)?,
                None => return Ok(LastHop { response, url: hop.url }),
            }
        }
        let origin = display_origin(&hop.url);
        Err(ExchangeError::TooManyRedirects { origin, limit: self.limits.redirects }.into())
    }
}

/// The target of a redirect, if the response is one.
fn redirect_target(response: &Response) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let value = response.headers().get(LOCATION).filter(|_| redirects)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

impl OutgoingRequest {
    fn new(
        request: &HttpRequest,
        sender: &RequestSender<'_>,
        used: &mut UsedSecrets<'_>,
        limits: &HttpLimits,
    ) -> Result<OutgoingRequest, HttpError> {
        let method = parse_method(&request.method)?;
        let url = fill_url(&request.url, used, sender.head)?;
        let mut rows = RequestHeaders::new(&request.headers, used, sender.head, limits)?;
        let changes = matches!(method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
        rows.add_defaults(changes.then_some(&sender.key), sender.traceparent.as_deref());
        let encoding = body_encoding(rows.get_header("content-type").unwrap_or_default());
        let body = request.body.as_ref().map(|body| used.fill_text(body, encoding, sender.body)).transpose()?;
        let body_is_private = request.body.as_ref().is_some_and(Rich::has_secrets);
        Ok(OutgoingRequest { method, url, rows, body, body_is_private })
    }

    fn send_with(&self, client: &Client) -> impl Future<Output = reqwest::Result<Response>> + use<> {
        let send = client.request(self.method.clone(), self.url.clone()).headers(self.rows.to_header_map());
        // As fetch does: some servers insist on a length.
        match &self.body {
            Some(body) if body.is_empty() => send.header(CONTENT_LENGTH, 0).send(),
            Some(body) => send.body(body.clone()).send(),
            None if matches!(self.method, Method::POST | Method::PUT) => send.header(CONTENT_LENGTH, 0).send(),
            None => send.send(),
        }
    }

    /// Changes this hop into the one that a redirect requests. A secret is not taken to another host, neither in the body nor
    /// in a URL into which the server has copied it.
    fn follow_redirect(
        &mut self,
        status: StatusCode,
        location: &str,
        used: &UsedSecrets<'_>,
    ) -> Result<(), ExchangeError> {
        let origin = display_origin(&self.url);
        let mut next = match self.url.join(location) {
            Ok(next) => next,
            Err(source) => return Err(ExchangeError::InvalidRedirect { origin, source }),
        };
        next.set_fragment(None);
        let to_get = match status.as_u16() {
            301 | 302 => self.method == Method::POST,
            303 => !matches!(self.method, Method::GET | Method::HEAD),
            _ => false,
        };
        if to_get {
            self.method = Method::GET;
            self.body = None;
            self.rows.drop_body();
        }
        if next.origin() != self.url.origin() {
            if self.body.is_some() && self.body_is_private || used.occur_in(next.as_str()) {
                return Err(ExchangeError::SecretRedirected { origin, target: display_origin(&next) });
            }
            self.rows.drop_private();
        }
        self.url = next;
        Ok(())
    }
}

fn parse_method(name: &str) -> Result<Method, RequestError> {
    match name {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        "OPTIONS" => Ok(Method::OPTIONS),
        _ => Err(RequestError::UnknownMethod { method: name.to_owned() }),
    }
}

/// The URL with the names of its secrets. They are allowed in the path and the query only: a secret in the host would
/// be sent to the name server.
fn parse_named_url(url: &Rich) -> Result<Url, RequestError> {
    if let Some(name) = url.first_secret() {
        let before = match url.pieces().first() {
            Some(RichPiece::Text(text)) => text.as_str(),
            _ => "",
        };
        let past_host = before.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?']));
        if !past_host {
            return Err(RequestError::SecretInHost { name: name.to_string() });
        }
    }
    let named = url.to_redacted_text();
    Url::parse(&named).map_err(|_| RequestError::InvalidUrl { url: named })
}

/// The URL with its secrets filled in.
fn fill_url(url: &Rich, used: &mut UsedSecrets<'_>, requester: Requester<'_>) -> Result<Url, HttpError> {
    let text = used.fill_text(url, SecretEncoding::Url, requester)?;
    let invalid = || RequestError::InvalidUrl { url: url.to_redacted_text() };
    let mut parsed = Url::parse(&text).map_err(|_| invalid())?;
    // The secrets were read for the host of the URL without them.
    let named = parse_named_url(url)?;
    if (parsed.scheme(), parsed.host(), parsed.port()) != (named.scheme(), named.host(), named.port()) {
        return Err(invalid().into());
    }
    parsed.set_fragment(None);
    Ok(parsed)
}

/// How a secret is encoded in a body of this type.
fn body_encoding(content_type: &str) -> SecretEncoding {
    let media = body::media_type(content_type);
    if media == "application/x-www-form-urlencoded" {
        SecretEncoding::Form
    } else if media.ends_with("/json") || media.ends_with("+json") {
        SecretEncoding::Json
    } else {
        SecretEncoding::Plain
    }
}

fn redact_response(received: HttpResponse, used: &UsedSecrets<'_>) -> HttpResponse {
    let headers = received.headers.into_iter().map(|(name, value)| (name, used.redact_reply(value))).collect();
    HttpResponse {
        headers,
        text: used.redact_reply(received.text),
        url: used.redact_reply(received.url),
        status: received.status,
    }
}
