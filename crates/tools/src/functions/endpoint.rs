//! Functions that are HTTP endpoints from the configuration.

use std::time::Duration;

use flowloom_core::effect::{CallRequest, HttpRequest, is_retryable_status, normalize_url};
use flowloom_core::error::Retry;
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_core::value::Value;
use flowloom_runtime::effects::EffectContext;

use super::arguments::payload_json;
use super::builtin::parse_json_or_text;
use super::error::FunctionError;
use crate::error::ToolError;
use crate::http::error::RequestError;
use crate::http::{HttpClient, HttpResponse, RequestSender};

/// Maximum number of characters of an error response in a message.
const MAX_EXCERPT_CHARS: usize = 300;

/// Longest wait, in seconds, that an endpoint can request.
const MAX_RETRY_AFTER_SECONDS: u64 = 3600;

/// The error for a response whose status is not a success.
pub(super) fn error_from_response(endpoint: String, received: &HttpResponse) -> FunctionError {
    FunctionError::ErrorStatus {
        endpoint,
        status: received.status,
        excerpt: received.text.trim().chars().take(MAX_EXCERPT_CHARS).collect(),
        retry: find_retry(received),
    }
}

fn find_retry(received: &HttpResponse) -> Retry {
    if !is_retryable_status(received.status) {
        return Retry::Never;
    }
    let wait = received.get_header("retry-after").and_then(|text| text.trim().parse::<u64>().ok());
    wait.map_or(Retry::Maybe, |seconds| Retry::After(seconds.min(MAX_RETRY_AFTER_SECONDS) * 1000))
}

/// An endpoint that receives the payload as JSON and responds with the result.
#[derive(Clone, Debug)]
pub struct HttpFunction {
    /// URL; [`crate::secrets::parse_secret_text`] parses secrets in configured text.
    pub url: Rich,
    /// Method in upper case; `POST` is usual. `GET` and `HEAD` send no payload.
    pub method: String,
    /// Headers.
    pub headers: Vec<(String, Rich)>,
    /// Effect class; if `None`, at most once unless the server is configured as one that recognises repeated requests.
    pub effect: Option<EffectClass>,
    /// Timeout of the whole call in milliseconds, within the client's own limit.
    pub timeout_ms: Option<u64>,
}

impl HttpFunction {
    /// A `POST` to `url` without further settings.
    pub fn with_post(url: impl Into<Rich>) -> HttpFunction {
        HttpFunction { url: url.into(), method: "POST".to_owned(), headers: Vec::new(), effect: None, timeout_ms: None }
    }

    pub(super) async fn call_endpoint(
        &self,
        client: &HttpClient,
        call: &CallRequest,
        context: &EffectContext,
    ) -> Result<Value, ToolError> {
        let id = &call.function;
        let request = self.build_request(call)?;
        let sender = RequestSender::of_configuration(context);
        let exchange = client.exchange(&request, &sender);
        let received = match self.timeout_ms {
            None => exchange.await?,
            Some(limit) => match tokio::time::timeout(Duration::from_millis(limit), exchange).await {
                Ok(result) => result?,
                Err(_) => {
                    return Err(FunctionError::EndpointTimeout { function: id.to_string(), limit_ms: limit }.into());
                }
            },
        };
        if (200..300).contains(&received.status) {
            return Ok(if received.text.is_empty() { Value::Null } else { parse_json_or_text(&received) });
        }
        Err(error_from_response(format!("the function {id}"), &received).into())
    }

    fn build_request(&self, call: &CallRequest) -> Result<HttpRequest, RequestError> {
        let method = self.method.to_ascii_uppercase();
        let mut headers = self.headers.clone();
        let body = (!matches!(method.as_str(), "GET" | "HEAD")).then(|| payload_json(&call.payload));
        let mut add = |name: &str| {
            if !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                headers.push((name.to_owned(), "application/json".into()));
            }
        };
        add("accept");
        if body.is_some() {
            add("content-type");
        }
        Ok(HttpRequest { method, url: self.url.map_text(normalize_url)?, headers, body, uses_tool_host: false })
    }
}
