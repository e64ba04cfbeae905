//! HTTP to providers, one exchange at a time. What speaks TLS, stands behind a proxy or wants a password goes over
//! reqwest. Servers that speak plain HTTP/1.1, which models at home do, are asked over a bare socket: there is one
//! connection for each run that waits, and hyper keeps 25 KB for each (docs/decisions/waiting-runs.md).

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

/// How long it may take until a connection stands.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept that nobody uses.
const KEEP: Duration = Duration::from_secs(90);

/// Both ways.
pub(super) struct Http {
    proxy: Option<String>,
    web: OnceLock<reqwest::Client>,
    plain: OnceLock<plain::Plain>,
}

/// The beginning of an answer; its body comes by [`Reply::piece`].
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
        let url = Url::parse(url)
            .map_err(|error| Failure::new(Code::ModelFailed, format!("the base URL is none: {error}")))?;
        if self.proxy.is_none() && url.scheme() == "http" && url.username().is_empty() && url.password().is_none() {
            return self.plain.get_or_init(plain::Plain::new).post(&url, headers, body).await;
        }
        // Boxed, so that calls over a bare socket have no room for it.
        let sent = Box::pin(self.web()?.post(url).headers(headers).body(body).send()).await;
        let reply = sent.map_err(|error| Failure::unreachable(&error))?;
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        Ok(Reply { status, headers, body: Body::Web(Box::new(reply)) })
    }

    /// The client for what is not asked over a bare socket.
    pub(super) fn web(&self) -> Result<reqwest::Client, Failure> {
        if let Some(client) = self.web.get() {
            return Ok(client.clone());
        }
        let failed = |error: reqwest::Error| {
            Failure::new(Code::ModelFailed, format!("the HTTP client cannot be set up: {}", error.without_url()))
        };
        // No redirects: they would carry the prompt, and some protocols' keys, to another host.
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
    /// The next bytes of the body; nothing after its end. An error says that it broke off.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        let piece = match &mut self.body {
            Body::Web(reply) => reply.chunk().await.ok(),
            Body::Plain(body) => body.piece().await.ok(),
        };
        piece.ok_or_else(|| Failure::truncated("the connection was lost in the middle of the answer"))
    }

    /// A header in lower case letters, as text.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A header that no log shows.
pub(super) fn secret(value: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| Failure::new(Code::ModelKeyMissing, "the key has characters that no key has"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
