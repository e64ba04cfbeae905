//! The HTTP client that everything here sends with.
//!
//! This file holds its parts and limits; a request's headers are made in `headers`, hops and redirects in `exchange`,
//! reading a reply in `body`, and the words of a failure in `failure`. Which addresses are allowed: [`crate::egress`].

mod body;
mod exchange;
mod failure;
mod headers;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::{HttpReply, HttpRequest};
use flowloom_core::error::StepError;
use flowloom_runtime::effects::{Context, Http, Reply};
use url::Url;

use crate::egress::{EgressPolicy, Lookup, Resolver, Route, SystemLookup};
use crate::secrets::Secrets;

pub(crate) use exchange::Received;

/// What is sent as `User-Agent` unless the author says otherwise.
pub const USER_AGENT: &str = concat!("flowloom/", env!("CARGO_PKG_VERSION"));

/// How long and how much.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// Between two pieces of a reply's body.
    pub idle: Duration,
    /// For everything, redirects included.
    pub total: Duration,
    /// Bytes of a reply's body, decompressed.
    pub reply_bytes: usize,
    /// How many times larger than what was sent a decompressed body may be, once it is over 1 MiB.
    pub ratio: usize,
    /// Header rows of a request or a reply.
    pub headers: usize,
    /// Bytes of all header rows of a request or a reply.
    pub header_bytes: usize,
    /// Redirects followed.
    pub redirects: usize,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(300),
            reply_bytes: 10 << 20,
            ratio: 100,
            headers: 200,
            header_bytes: 64 << 10,
            redirects: 5,
        }
    }
}

/// The HTTP client behind the egress guard.
pub struct HttpClient {
    policy: EgressPolicy,
    secrets: Arc<dyn Secrets>,
    limits: HttpLimits,
    lookup: Arc<dyn Lookup>,
    // Built at the first request: reading the machine's certificates takes longer than a small run.
    public: OnceLock<Result<reqwest::Client, String>>,
    allowed: OnceLock<Result<reqwest::Client, String>>,
}

impl HttpClient {
    /// A client that asks the operating system for addresses.
    pub fn new(policy: EgressPolicy, secrets: Arc<dyn Secrets>, limits: HttpLimits) -> HttpClient {
        HttpClient::with_lookup(policy, secrets, limits, Arc::new(SystemLookup))
    }

    /// A client that asks `lookup` for addresses.
    pub fn with_lookup(
        policy: EgressPolicy,
        secrets: Arc<dyn Secrets>,
        limits: HttpLimits,
        lookup: Arc<dyn Lookup>,
    ) -> HttpClient {
        let (public, allowed) = (OnceLock::new(), OnceLock::new());
        HttpClient { policy, secrets, limits, lookup, public, allowed }
    }

    /// Where the values of secrets come from.
    pub(crate) fn secrets(&self) -> &dyn Secrets {
        &*self.secrets
    }

    /// The connections for a route. Two pools, so that a connection made under `egress.allow` never serves another
    /// host and port.
    fn client(&self, route: Route) -> Result<&reqwest::Client, StepError> {
        let slot = match route {
            Route::Public => &self.public,
            Route::Allowed => &self.allowed,
        };
        let built = slot.get_or_init(|| {
            self.builder(route)
                .build()
                // A machine without certificates can still speak plain http.
                .or_else(|_| self.builder(route).tls_certs_only([]).build())
                .map_err(|error| error.to_string())
        });
        built.as_ref().map_err(|why| StepError::new(Code::HttpFailed, format!("no HTTP client could be set up: {why}")))
    }

    /// A client for one address that was vetted, for what speaks a protocol of its own over HTTP. It follows no redirects.
    pub(crate) fn guarded(&self, url: &Url) -> Result<reqwest::Client, StepError> {
        Ok(self.client(self.policy.vet(url)?)?.clone())
    }

    fn builder(&self, route: Route) -> reqwest::ClientBuilder {
        reqwest::Client::builder()
            // A proxy of the environment would dial for us, past the guard.
            .no_proxy()
            // Another crate of the build may switch these on; our own decoder has the caps.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            // Followed by hand, because every hop is vetted.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .dns_resolver(Resolver { lookup: self.lookup.clone(), route })
            .connect_timeout(self.limits.connect)
            .http1_max_headers(self.limits.headers)
            .http2_max_header_list_size(self.limits.header_bytes as u32)
    }
}

impl Http for HttpClient {
    fn send<'a>(&'a self, request: &'a HttpRequest, context: &'a Context) -> Reply<'a, HttpReply> {
        Box::pin(async move {
            let received = self.exchange(request, &context.key()).await?;
            Ok(HttpReply { status: received.status, headers: received.headers, body: received.text })
        })
    }
}
