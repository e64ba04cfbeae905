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

use super::failure::ProviderFailure;

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);

/// Both clients; each is created on first use.
pub(super) struct HttpClient {
    proxy: Option<String>,
    web: OnceLock<reqwest::Client>,
    plain: OnceLock<plain::PlainClient>,
}

/// The head of a response; its body is read with [`Reply::piece`].
pub(super) struct HttpReply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: ReplyBody,
}

enum ReplyBody {
    Web(Box<reqwest::Response>),
    Plain(body::PlainBody),
}

impl HttpClient {
    /// Nothing is opened before the first request.
    pub(super) fn new(proxy: Option<String>) -> HttpClient {
        HttpClient { proxy, web: OnceLock::new(), plain: OnceLock::new() }
    }

    /// Posts JSON.
    pub(super) async fn post_json(
        &self,
        url: &str,
        headers: HeaderMap,
        body: String,
    ) -> Result<HttpReply, ProviderFailure> {
        let url = Url::parse(url)
            .map_err(|error| ProviderFailure::new(Code::ModelFailed, format!("invalid base URL: {error}")))?;
        if self.proxy.is_none() && url.scheme() == "http" && url.username().is_empty() && url.password().is_none() {
            return self.plain.get_or_init(plain::PlainClient::new).post_json(&url, headers, body).await;
        }
        // Boxed, so that the future of a plain call has no room for it.
        let sent = Box::pin(self.web_client()?.post(url).headers(headers).body(body).send()).await;
        let reply = sent.map_err(|error| ProviderFailure::unreachable(&error))?;
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        Ok(HttpReply { status, headers, body: ReplyBody::Web(Box::new(reply)) })
    }

    /// The reqwest client.
    pub(super) fn web_client(&self) -> Result<reqwest::Client, ProviderFailure> {
        if let Some(client) = self.web.get() {
            return Ok(client.clone());
        }
        let failed = |error: reqwest::Error| {
            ProviderFailure::new(Code::ModelFailed, format!("cannot create the HTTP client: {}", error.without_url()))
        };
        // No redirects: they would send the prompt, and with some protocols the key, to another host.
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT);
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(failed)?);
        }
        let client = builder.build().map_err(failed)?;
        Ok(self.web.get_or_init(|| client).clone())
    }
}

impl HttpReply {
    /// The next bytes of the body; `None` after its end. Fails if the body is cut off.
    pub(super) async fn next_piece(&mut self) -> Result<Option<Bytes>, ProviderFailure> {
        let piece = match &mut self.body {
            ReplyBody::Web(reply) => reply.chunk().await.ok(),
            ReplyBody::Plain(body) => body.next_piece().await.ok(),
        };
        piece.ok_or_else(|| ProviderFailure::cut_off("the connection was lost in the middle of the answer"))
    }

    /// A header as text, by its name in lower case; empty if it is missing.
    pub(super) fn get_header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A header value that is not logged.
pub(super) fn secret_header(value: &str) -> Result<HeaderValue, ProviderFailure> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        ProviderFailure::new(Code::ModelKeyMissing, "the key contains characters that are not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
