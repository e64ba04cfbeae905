//! HTTP client for providers, one exchange at a time. Requests that need TLS, a proxy or a password use reqwest.
//! Servers with plain HTTP/1.1, such as local model servers, are called over a plain socket: each waiting run has a
//! connection, and hyper needs 25 KB for each (docs/decisions/waiting-runs.md).

mod body;
mod head;
mod plain;
mod pool;

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use flowloom_core::Code;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue};

use super::failure::Failure;

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept.
const KEEP: Duration = Duration::from_secs(90);

/// Both clients; each is created on first use.
pub(super) struct Http {
    proxy: Option<String>,
    web: OnceLock<reqwest::Client>,
    plain: OnceLock<plain::Plain>,
}

/// The head of a response; its body is read with [`Reply::piece`].
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: Body,
}

enum Body {
    Web(Box<reqwest::Response>),
    Plain(body::Body),
}

impl Http {
    /// Nothing is opened before the first request.
    pub(super) fn new(proxy: Option<String>) -> Http {
        Http { proxy, web: OnceLock::new(), plain: OnceLock::new() }
    }

    /// Posts JSON.
    pub(super) async fn post(&self, url: &str, headers: HeaderMap, body: String) -> Result<Reply, Failure> {
        let url =
            Url::parse(url).map_err(|error| Failure::new(Code::ModelFailed, format!("invalid base URL: {error}")))?;
        if self.proxy.is_none() && url.scheme() == "http" && url.username().is_empty() && url.password().is_none() {
            return self.plain.get_or_init(plain::Plain::new).post(&url, headers, body).await;
        }
        // Boxed, so that the future of a plain call has no room for it.
        let sent = Box::pin(self.web()?.post(url).headers(headers).body(body).send()).await;
        let reply = sent.map_err(|error| Failure::unreachable(&error))?;
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        Ok(Reply { status, headers, body: Body::Web(Box::new(reply)) })
    }

    /// The reqwest client.
    pub(super) fn web(&self) -> Result<reqwest::Client, Failure> {
        if let Some(client) = self.web.get() {
            return Ok(client.clone());
        }
        let failed = |error: reqwest::Error| {
            Failure::new(Code::ModelFailed, format!("cannot create the HTTP client: {}", error.without_url()))
        };
        // No redirects: they would send the prompt, and with some protocols the key, to another host.
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .pool_idle_timeout(KEEP);
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(failed)?);
        }
        let client = builder.build().map_err(failed)?;
        Ok(self.web.get_or_init(|| client).clone())
    }
}

impl Reply {
    /// The next bytes of the body; `None` after its end. Fails if the body is cut off.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        let piece = match &mut self.body {
            Body::Web(reply) => reply.chunk().await.ok(),
            Body::Plain(body) => body.piece().await.ok(),
        };
        piece.ok_or_else(|| Failure::truncated("the connection was lost in the middle of the answer"))
    }

    /// A header as text, by its name in lower case; empty if it is missing.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A header value that is not logged.
pub(super) fn secret(value: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        Failure::new(Code::ModelKeyMissing, "the key contains characters that are not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
