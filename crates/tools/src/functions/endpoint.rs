//! Functions that are HTTP endpoints from the configuration.

use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, HttpRequest, is_retryable_status, normalize_url};
use flowloom_core::error::{Retry, StepError};
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_core::value::Value;
use flowloom_runtime::effects::EffectContext;

use super::arguments::payload_json;
use super::builtin::parse_json_or_text;
use crate::http::{HttpClient, HttpResponse};

/// Maximum number of characters of an error response in a message.
const MAX_EXCERPT_CHARS: usize = 300;

/// Longest wait, in seconds, that an endpoint can request.
const MAX_RETRY_AFTER_SECONDS: u64 = 3600;

/// The error for a response whose status is not a success.
pub(super) fn error_from_response(who: &str, received: &HttpResponse) -> StepError {
    let excerpt: String = received.text.trim().chars().take(MAX_EXCERPT_CHARS).collect();
    let detail = if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") };
    let message = format!("{who} answered with status {}{detail}", received.status);
    let mut error = StepError::new(Code::FunctionFailed, message);
    if is_retryable_status(received.status) {
        let wait = received.get_header("retry-after").and_then(|text| text.trim().parse::<u64>().ok());
        error.retry = wait.map_or(Retry::Maybe, |seconds| Retry::After(seconds.min(MAX_RETRY_AFTER_SECONDS) * 1000));
    }
    error
}

/// An endpoint that receives the payload as JSON and responds with the result.
#[derive(Clone, Debug)]
pub struct HttpFunction {
    /// URL; [`crate::secrets::read_text`] parses secrets in configured text.
    pub url: Rich,
    /// Method in upper case; `POST` is usual. `GET` and `HEAD` send no payload.
    pub method: String,
    /// Headers.
    pub headers: Vec<(String, Rich)>,
    /// Effect class; at most once if `None`.
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
    ) -> Result<Value, StepError> {
        let id = &call.function;
        let request = self.build_request(call)?;
        let key = context.idempotency_key();
        let exchange = client.exchange(&request, &key);
        let received = match self.timeout_ms {
            None => exchange.await?,
            Some(limit) => match tokio::time::timeout(Duration::from_millis(limit), exchange).await {
                Ok(result) => result?,
                Err(_) => {
                    let message = format!("the function {id} did not answer within {limit} ms");
                    return Err(StepError::new_retryable(Code::FunctionFailed, message));
                }
            },
        };
        if (200..300).contains(&received.status) {
            return Ok(if received.text.is_empty() { Value::Null } else { parse_json_or_text(&received) });
        }
        Err(error_from_response(&format!("the function {id}"), &received))
    }

    fn build_request(&self, call: &CallRequest) -> Result<HttpRequest, StepError> {
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
        Ok(HttpRequest { method, url: self.url.map_text(normalize_url)?, headers, body })
    }
}
