//! The HTTP client that this crate sends everything with.
//!
//! This file defines the client and its limits. Request headers are in `headers`, hops and redirects in `exchange`,
//! reading responses in `body`, and errors in `error`. Permitted addresses: [`crate::egress`].

mod body;
pub(crate) mod error;
mod exchange;
mod headers;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flowloom_core::bound::MAX_REDIRECTS;
use flowloom_core::effect::{HttpReply, HttpRequest};
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_runtime::effects::{EffectContext, EffectFuture, HttpSender};
use flowloom_runtime::fair::FairSemaphore;
use url::Url;

use crate::egress::{EgressPolicy, GuardedResolver, HostResolver, Route, SystemResolver};
use crate::secrets::{Requester, Secrets};
use error::{ExchangeError, HttpError};
pub use exchange::Download;
pub(crate) use exchange::HttpResponse;

/// Default value of the `User-Agent` header.
pub const USER_AGENT: &str = concat!("flowloom/", env!("CARGO_PKG_VERSION"));

/// Timeouts and size limits.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Timeout for connecting, including TLS.
    pub connect: Duration,
    /// Timeout between two pieces of a response body.
    pub idle: Duration,
    /// Timeout of the whole request, including redirects.
    pub total: Duration,
    /// Maximum size of a response body, in decompressed bytes.
    pub reply_bytes: usize,
    /// Maximum ratio of a body's decompressed size to its compressed size, checked above 1 MiB.
    pub ratio: usize,
    /// Maximum number of headers of a request or a response.
    pub headers: usize,
    /// Maximum number of bytes of all headers of a request or a response.
    pub header_bytes: usize,
    /// Maximum number of redirects to follow.
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
            redirects: MAX_REDIRECTS as usize,
        }
    }
}

/// On whose behalf a request is sent.
pub(crate) struct RequestSender<'a> {
    /// The user of the run.
    pub(crate) user: Arc<str>,
    /// The idempotency key of requests that change something.
    key: String,
    /// The trace that the request belongs to, as the header `traceparent`.
    pub(crate) traceparent: Option<String>,
    /// The requester who names the secrets of the URL and the headers.
    head: Requester<'a>,
    /// The requester who names the secrets of the body.
    body: Requester<'a>,
}

impl<'a> RequestSender<'a> {
    /// For a request that a definition describes.
    pub(crate) fn of_definition(context: &'a EffectContext) -> RequestSender<'a> {
        let requester = Requester::Definition(&context.definition);
        let (key, traceparent) = (context.idempotency_key(), context.traceparent());
        RequestSender { user: context.user.clone(), key, traceparent, head: requester, body: requester }
    }

    /// For what a person asks for outside a run.
    fn of_person() -> RequestSender<'static> {
        let (head, body) = (Requester::Configuration, Requester::Configuration);
        RequestSender { user: "local".into(), key: String::new(), traceparent: None, head, body }
    }

    /// For a test: with an idempotency key, and all secrets named by the configuration.
    #[cfg(test)]
    pub(crate) fn with_key(key: &str) -> RequestSender<'static> {
        let (head, body) = (Requester::Configuration, Requester::Configuration);
        RequestSender { user: "local".into(), key: key.to_owned(), traceparent: None, head, body }
    }

    /// For a request whose URL and headers are configured, with a body from a definition.
    pub(crate) fn of_configuration(context: &'a EffectContext) -> RequestSender<'a> {
        RequestSender { head: Requester::Configuration, ..RequestSender::of_definition(context) }
    }
}

/// The HTTP client, subject to the egress policy.
pub struct HttpClient {
    policy: EgressPolicy,
    secrets: Arc<dyn Secrets>,
    limits: HttpLimits,
    large_bodies: FairSemaphore,
    lookup: Arc<dyn HostResolver>,
    // Built at the first request: reading the machine's certificates takes longer than a small run.
    public: OnceLock<Result<reqwest::Client, Arc<reqwest::Error>>>,
    allowed: OnceLock<Result<reqwest::Client, Arc<reqwest::Error>>>,
}

impl HttpClient {
    /// A client that uses the operating system's resolver.
    pub fn new(policy: EgressPolicy, secrets: Arc<dyn Secrets>, limits: HttpLimits) -> HttpClient {
        HttpClient::with_resolver(policy, secrets, limits, Arc::new(SystemResolver))
    }

    /// A client that uses `lookup` as its resolver.
    pub fn with_resolver(
        policy: EgressPolicy,
        secrets: Arc<dyn Secrets>,
        limits: HttpLimits,
        lookup: Arc<dyn HostResolver>,
    ) -> HttpClient {
        let (public, allowed) = (OnceLock::new(), OnceLock::new());
        HttpClient { policy, secrets, limits, large_bodies: body::large_body_places(), lookup, public, allowed }
    }

    /// The effect class of a call of a function at a URL that declares none.
    pub(crate) fn class_of_call(&self, url: &Rich) -> EffectClass {
        match self.policy.recognizes_repetitions(url) {
            true => EffectClass::AtLeastOnce,
            false => EffectClass::AtMostOnce,
        }
    }

    /// The source of secret values.
    pub(crate) fn secrets(&self) -> &dyn Secrets {
        &*self.secrets
    }

    /// The client for a route. There are two connection pools, so that a connection made under `egress.allow` never
    /// serves another host and port.
    fn client_for(&self, route: Route) -> Result<&reqwest::Client, ExchangeError> {
        let slot = match route {
            Route::Public => &self.public,
            Route::Allowed => &self.allowed,
        };
        let built = slot.get_or_init(|| {
            self.client_builder(route)
                .build()
                // A machine without certificates can still use plain HTTP.
                .or_else(|_| self.client_builder(route).tls_certs_only([]).build())
                .map_err(Arc::new)
        });
        built.as_ref().map_err(|error| ExchangeError::ClientNotCreated(error.clone()))
    }

    /// A client for one configured and permitted URL, for protocols on top of HTTP. It follows no redirects.
    pub(crate) fn guarded_client(&self, url: &Url) -> Result<reqwest::Client, HttpError> {
        Ok(self.client_for(self.policy.check_configured_url(url)?)?.clone())
    }

    fn client_builder(&self, route: Route) -> reqwest::ClientBuilder {
        reqwest::Client::builder()
            // A proxy from the environment would connect on our behalf and bypass the policy.
            .no_proxy()
            // Another crate of the build may enable these features; our own decoder applies the limits.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            // Followed by our code, because every hop is checked.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .dns_resolver(GuardedResolver { lookup: self.lookup.clone(), route })
            .connect_timeout(self.limits.connect)
            .http1_max_headers(self.limits.headers)
            .http2_max_header_list_size(self.limits.header_bytes as u32)
    }
}

impl HttpSender for HttpClient {
    fn effect_class(&self, request: &HttpRequest) -> EffectClass {
        self.policy.effect_class(request)
    }

    fn send_request<'a>(&'a self, request: &'a HttpRequest, context: &'a EffectContext) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            let sender = match request.uses_tool_host {
                true => RequestSender::of_configuration(context),
                false => RequestSender::of_definition(context),
            };
            let received = self.exchange(request, &sender).await?;
            Ok(HttpReply { status: received.status, headers: received.headers, body: received.text })
        })
    }
}
