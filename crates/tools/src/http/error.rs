//! Errors of requests without a complete response. Texts contain the host and port, never path, query or header
//! values.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::{Retry, StepFailure};
use url::Url;

use super::HttpLimits;
use crate::egress::{EgressError, HostPort, ResolveError, describe_missing_address, display_origin};
use crate::secrets::SecretError;

/// Why a request has no complete response. The text may contain a secret that a server sent back.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The host may not be reached.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// A secret of the request may not be used, or is not set.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The request is not valid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The response exceeds a limit.
    #[error(transparent)]
    TooLarge(#[from] TooLargeError),
    /// The exchange failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

/// Why a request is not valid.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The method is not known.
    #[error("{method:?} is not an HTTP method; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    UnknownMethod {
        /// The method.
        method: String,
    },
    /// A secret would be sent to the name server.
    #[error("the secret {name} is in the host of the URL; secrets are allowed after the host only")]
    SecretInHost {
        /// Name of the secret.
        name: String,
    },
    /// The URL cannot be parsed with its secrets.
    #[error("Failed to parse URL from {url}")]
    InvalidUrl {
        /// The URL with the names of its secrets.
        url: String,
    },
    /// The request has too many headers.
    #[error("the request has {count} headers; at most {limit} are allowed")]
    TooManyHeaders {
        /// Number of headers.
        count: usize,
        /// Maximum number of headers.
        limit: usize,
    },
    /// The headers are too large.
    #[error("the headers take {bytes} bytes; at most {limit_bytes} are allowed")]
    HeadersTooLarge {
        /// Size of the headers.
        bytes: usize,
        /// Maximum size of the headers.
        limit_bytes: usize,
    },
    /// The name of a header is not a token.
    #[error("{name:?} is not a header name")]
    InvalidHeaderName {
        /// The name.
        name: String,
    },
    /// The value of a header cannot be sent.
    #[error("the value of header {name} contains a line break or another control character, which is not allowed")]
    InvalidHeaderValue {
        /// Name of the header.
        name: String,
    },
    /// The value of a header has a character outside of Latin-1.
    #[error("the value of header {name} contains {character:?}, and headers can only have the characters of Latin-1")]
    HeaderNotLatin {
        /// Name of the header.
        name: String,
        /// The first such character.
        character: char,
    },
    /// The argument `headers` of `tool::http_request` is of another kind.
    #[error("the argument headers must be an object")]
    HeadersNotAnObject,
    /// The method has no body.
    #[error("a {method} request cannot have a body; use another method or omit body")]
    BodyNotAllowed {
        /// The method.
        method: String,
    },
    /// A rule for all requests, which the core checks.
    #[error(transparent)]
    Refused(#[from] StepFailure),
}

/// Which limit a response exceeds.
#[derive(Debug, thiserror::Error)]
pub enum TooLargeError {
    /// Number or size of the headers.
    #[error("the response of {origin} has more than {limit} headers or {limit_bytes} bytes of headers")]
    Headers {
        /// Scheme, host and port.
        origin: String,
        /// Maximum number of headers.
        limit: usize,
        /// Maximum size of all headers.
        limit_bytes: usize,
    },
    /// Size of the body.
    #[error("the response of {origin} is larger than {limit_bytes} bytes")]
    Body {
        /// Scheme, host and port.
        origin: String,
        /// Maximum size, decompressed.
        limit_bytes: usize,
    },
    /// Ratio of the decompressed to the compressed size.
    #[error("the response of {origin} decompresses to more than {limit} times its size")]
    Ratio {
        /// Scheme, host and port.
        origin: String,
        /// Maximum ratio.
        limit: usize,
    },
}

/// Why an exchange failed. Errors of reqwest name no URL.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The client cannot be created.
    #[error("cannot create the HTTP client: {0}")]
    ClientNotCreated(#[source] Arc<reqwest::Error>),
    /// The server redirects again and again.
    #[error("{origin}: more than {limit} redirects")]
    TooManyRedirects {
        /// Scheme, host and port of the last redirect.
        origin: String,
        /// Maximum number of redirects.
        limit: usize,
    },
    /// The target of a redirect is not a URL.
    #[error("{origin} redirects to an invalid URL")]
    InvalidRedirect {
        /// Scheme, host and port of the redirect.
        origin: String,
        /// The reason.
        source: url::ParseError,
    },
    /// A redirect leads a body or a URL with a secret to another origin.
    #[error("{origin} redirects to {target}; the secret of the request is not sent to another origin")]
    SecretRedirected {
        /// Scheme, host and port of the redirect.
        origin: String,
        /// Scheme, host and port of its target.
        target: String,
    },
    /// The whole exchange took too long.
    #[error("no complete response from {origin} within {}", format_duration(*limit))]
    TotalTimeout {
        /// Scheme, host and port.
        origin: String,
        /// The maximum time for the whole response.
        limit: Duration,
    },
    /// The response paused for too long.
    #[error("{origin} sent nothing for {}", format_duration(*limit))]
    IdleTimeout {
        /// Scheme, host and port.
        origin: String,
        /// The maximum time without data.
        limit: Duration,
    },
    /// The host has no address.
    #[error("{}", describe_missing_address(host, source.as_deref()))]
    NoAddress {
        /// The host.
        host: String,
        /// The resolver's error; `None` if it found no address.
        source: Option<Arc<io::Error>>,
    },
    /// The connection took too long.
    #[error("{place} did not accept a connection within {}", format_duration(*limit))]
    ConnectTimeout {
        /// Host and port.
        place: String,
        /// The connect timeout.
        limit: Duration,
        /// The reason.
        source: reqwest::Error,
    },
    /// Nothing listens at the port.
    #[error("connection refused by {place}")]
    ConnectionRefused {
        /// Host and port.
        place: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The connection was closed before the response.
    #[error("{place} closed the connection before it responded")]
    ConnectionReset {
        /// Host and port.
        place: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// There is no way to the address.
    #[error("{place} is not reachable from this machine")]
    Unreachable {
        /// Host and port.
        place: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The connection was closed in the middle of the response.
    #[error("the response of {place} was cut off")]
    CutOff {
        /// Host and port.
        place: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The connection failed otherwise, for example in its TLS handshake.
    #[error("no connection to {place}: {}", find_innermost(source).text)]
    NotConnected {
        /// Host and port.
        place: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The exchange failed otherwise.
    #[error("{place} did not respond: {}", find_innermost(source).text)]
    NoResponse {
        /// Host and port.
        place: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The body is compressed in a way that was not requested.
    #[error("{origin} compressed its response as {codings}, which was not requested; only gzip is supported")]
    UnsupportedCoding {
        /// Scheme, host and port.
        origin: String,
        /// The content codings.
        codings: String,
    },
    /// The compressed body is damaged.
    #[error("the response of {origin} is not valid gzip")]
    InvalidGzip {
        /// Scheme, host and port.
        origin: String,
        /// The reason.
        source: io::Error,
    },
}

impl HttpError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            HttpError::Egress(error) => error.code(),
            HttpError::Secret(error) => error.code(),
            HttpError::Request(_) => Code::HttpRequestInvalid,
            HttpError::TooLarge(_) => Code::ReplyTooLarge,
            HttpError::Exchange(_) => Code::HttpFailed,
        }
    }

    /// Whether a retry may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            HttpError::Exchange(error) => error.retry(),
            HttpError::Egress(_) | HttpError::Secret(_) | HttpError::Request(_) | HttpError::TooLarge(_) => {
                Retry::Never
            }
        }
    }

    /// The error of a request to `url` that reqwest did not complete.
    pub(super) fn from_request(error: reqwest::Error, url: &Url, limits: &HttpLimits) -> HttpError {
        let source = error.without_url();
        let innermost = find_innermost(&source);
        if let Some(unresolved) = innermost.unresolved {
            return unresolved.to_http_error(url);
        }
        if innermost.text.contains("head is too large") {
            return TooLargeError::for_headers(url, limits).into();
        }
        let (kind, place) = (innermost.kind, display_host_port(url));
        let failed = match kind {
            _ if source.is_timeout() && source.is_connect() => {
                ExchangeError::ConnectTimeout { place, limit: limits.connect, source }
            }
            Some(io::ErrorKind::ConnectionRefused) => ExchangeError::ConnectionRefused { place, source },
            Some(io::ErrorKind::ConnectionReset) => ExchangeError::ConnectionReset { place, source },
            Some(io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) => {
                ExchangeError::Unreachable { place, source }
            }
            _ if source.is_body() || source.is_decode() => ExchangeError::CutOff { place, source },
            _ if source.is_connect() => ExchangeError::NotConnected { place, source },
            _ => ExchangeError::NoResponse { place, source },
        };
        failed.into()
    }
}

impl ExchangeError {
    fn retry(&self) -> Retry {
        match self {
            ExchangeError::ClientNotCreated(_)
            | ExchangeError::TooManyRedirects { .. }
            | ExchangeError::InvalidRedirect { .. }
            | ExchangeError::SecretRedirected { .. }
            | ExchangeError::UnsupportedCoding { .. }
            | ExchangeError::InvalidGzip { .. } => Retry::Never,
            ExchangeError::TotalTimeout { .. }
            | ExchangeError::IdleTimeout { .. }
            | ExchangeError::NoAddress { .. }
            | ExchangeError::ConnectTimeout { .. }
            | ExchangeError::ConnectionRefused { .. }
            | ExchangeError::ConnectionReset { .. }
            | ExchangeError::Unreachable { .. }
            | ExchangeError::CutOff { .. }
            | ExchangeError::NotConnected { .. }
            | ExchangeError::NoResponse { .. } => Retry::Maybe,
        }
    }
}

impl TooLargeError {
    pub(super) fn for_headers(url: &Url, limits: &HttpLimits) -> TooLargeError {
        TooLargeError::Headers { origin: display_origin(url), limit: limits.headers, limit_bytes: limits.header_bytes }
    }
}

impl ResolveError {
    /// `url` is the requested URL, because a resolver does not see the port.
    fn to_http_error(&self, url: &Url) -> HttpError {
        match self {
            ResolveError::Refused { host, address, reason } => {
                let place = HostPort::new(host.clone(), url.port_or_known_default().unwrap_or_default());
                EgressError::SpecialAddress { place, address: *address, reason: reason.clone() }.into()
            }
            ResolveError::NoAddress { host, source } => {
                ExchangeError::NoAddress { host: host.clone(), source: source.clone() }.into()
            }
        }
    }
}

/// The end of a chain of causes.
struct Innermost<'a> {
    text: String,
    /// Kind of the innermost `io::Error`.
    kind: Option<io::ErrorKind>,
    unresolved: Option<&'a ResolveError>,
}

fn find_innermost(error: &reqwest::Error) -> Innermost<'_> {
    let mut link: Option<&(dyn Error + 'static)> = Some(error);
    let mut found = Innermost { text: String::new(), kind: None, unresolved: None };
    while let Some(cause) = link {
        found.text = cause.to_string();
        found.unresolved = cause.downcast_ref::<ResolveError>();
        // Its own cause states only that reading failed.
        if found.unresolved.is_some() || found.text.contains("head is too large") {
            break;
        }
        link = match cause.downcast_ref::<io::Error>() {
            Some(io) => {
                found.kind = Some(io.kind());
                // An `io::Error` returns its inner error's source as its own, and so hides the inner error.
                io.get_ref().map(|inner| inner as &(dyn Error + 'static))
            }
            None => cause.source(),
        };
    }
    found
}

fn display_host_port(url: &Url) -> String {
    match (url.host_str(), url.port_or_known_default()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        _ => display_origin(url),
    }
}

fn format_duration(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}
