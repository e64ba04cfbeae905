//! An MCP server at an address: reached through the egress guard, with headers whose secrets are filled in here.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::rich::Rich;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use super::live::Live;
use crate::http::HttpClient;
use crate::secrets::{Used, Writing};

/// Where a server is.
#[derive(Clone)]
pub struct Remote {
    /// Its address.
    pub url: String,
    /// What is sent with every request.
    pub headers: Vec<(String, Rich)>,
    /// What sends it.
    pub client: Arc<HttpClient>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl Remote {
    /// Reaches the server. Redirects are not followed: what goes to this address is for nobody else.
    pub(super) async fn live(&self, used: &mut Used<'_>, limit: Duration) -> Result<Live, StepError> {
        let failed = |message: String| StepError::passing(Code::McpFailed, message);
        let url = Url::parse(&self.url).map_err(|_| failed(format!("{} is no address", self.url)))?;
        let client = self.client.guarded(&url)?;
        let header = |(name, value): &(String, Rich)| {
            let unfit = || failed(format!("the header {name} cannot be sent"));
            let mut value = HeaderValue::from_str(&used.fill(value, Writing::Plain)?).map_err(|_| unfit())?;
            value.set_sensitive(true);
            Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?, value))
        };
        let headers = self.headers.iter().map(header).collect::<Result<HashMap<_, _>, StepError>>()?;
        let at = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers);
        let late = |_| failed(format!("it was not ready within {} ms", limit.as_millis()));
        tokio::time::timeout(limit, Live::reach(client, at)).await.map_err(late)?.map_err(failed)
    }
}
