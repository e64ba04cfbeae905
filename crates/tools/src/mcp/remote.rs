//! An MCP server at a URL, called through the egress policy, with headers whose secrets are filled in here.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::rich::Rich;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use super::connection::McpConnection;
use super::error::ConnectError;
use crate::egress::HostPort;
use crate::http::HttpClient;
use crate::http::error::HttpError;
use crate::secrets::{Requester, SecretEncoding, UsedSecrets};

/// URL and headers of a server.
#[derive(Clone)]
pub struct RemoteServer {
    /// URL of the server.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, Rich)>,
    /// Client to send with.
    pub client: Arc<HttpClient>,
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl RemoteServer {
    /// Its host and port; `None` if its URL is not valid.
    pub(super) fn host_port(&self) -> Option<HostPort> {
        HostPort::of_url(&Url::parse(&self.url).ok()?)
    }

    /// Connects to the server. Redirects are not followed, because the headers are meant for this URL only.
    pub(super) async fn open_connection(
        &self,
        used: &mut UsedSecrets<'_>,
        limit: Duration,
    ) -> Result<McpConnection, ConnectError> {
        let url = Url::parse(&self.url).map_err(|_| ConnectError::NotAUrl { url: self.url.clone() })?;
        let client = self.client.guarded_client(&url)?;
        let header = |(name, value): &(String, Rich)| {
            let unfit = || ConnectError::InvalidHeader { name: name.clone() };
            let value =
                used.fill_text(value, SecretEncoding::Plain, Requester::Configuration).map_err(HttpError::from)?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| unfit())?;
            value.set_sensitive(true);
            Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?, value))
        };
        let headers = self.headers.iter().map(header).collect::<Result<HashMap<_, _>, ConnectError>>()?;
        let at = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers);
        let connected = tokio::time::timeout(limit, McpConnection::connect_remote(client, at)).await;
        connected.unwrap_or_else(|_| Err(ConnectError::Timeout { limit_ms: limit.as_millis() }))
    }
}
