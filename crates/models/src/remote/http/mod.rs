//! HTTP client for providers, one exchange at a time. Requests that need TLS, a proxy or a password use reqwest.
//! Servers with plain HTTP/1.1, such as local model servers, are called over a plain socket: each waiting run has a
//! connection, and hyper needs 25 KB for each (docs/decisions/waiting-runs.md).

mod body;
mod head;
mod plain;
mod pool;

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue};

use super::error::ProviderError;

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

/// The head of a response; its body is read with [`HttpReply::next_piece`].
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

    /// Posts JSON; the future completes with the head of the response. Fails if there can be no such request.
    pub(super) fn post_json<'a>(
        &'a self,
        url: &str,
        headers: HeaderMap,
        body: String,
    ) -> Result<impl Future<Output = Result<HttpReply, ProviderError>> + use<'a>, ProviderError> {
        let url = Url::parse(url).map_err(|error| ProviderError::InvalidBaseUrl(error.into()))?;
        if self.proxy.is_none() && url.scheme() == "http" && url.username().is_empty() && url.password().is_none() {
            let plain = self.plain.get_or_init(plain::PlainClient::new);
            return Ok(Either::Left(plain.post_json(url, &headers, &body)));
        }
        let request = self.web_client()?.post(url).headers(headers).body(body);
        // Boxed, so that the future of a plain call has no room for it.
        Ok(Either::Right(Box::pin(async move {
            let reply = request.send().await.map_err(ProviderError::from_request)?;
            let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
            Ok(HttpReply { status, headers, body: ReplyBody::Web(Box::new(reply)) })
        })))
    }

    /// The reqwest client.
    pub(super) fn web_client(&self) -> Result<reqwest::Client, ProviderError> {
        if let Some(client) = self.web.get() {
            return Ok(client.clone());
        }
        let failed = |error: reqwest::Error| ProviderError::ClientNotCreated(error.without_url());
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
    pub(super) async fn next_piece(&mut self) -> Result<Option<Bytes>, ProviderError> {
        match &mut self.body {
            ReplyBody::Web(reply) => {
                let piece = reply.chunk().await;
                piece.map_err(|error| ProviderError::ConnectionLost(Some(error.without_url().into())))
            }
            ReplyBody::Plain(body) => {
                body.next_piece().await.map_err(|error| ProviderError::ConnectionLost(Some(error.into())))
            }
        }
    }

    /// A header as text, by its name in lower case; empty if it is missing.
    pub(super) fn get_header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A header value that is not logged.
pub(super) fn secret_header(value: &str) -> Result<HeaderValue, ProviderError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| ProviderError::KeyNotAHeader)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
