//! Failures of network calls: whether and when to retry, and how to report them without secrets.

use std::error::Error;
use std::time::{Duration, SystemTime};

use flowloom_core::effect::is_retryable_status;
use flowloom_core::error::Retry;
use flowloom_core::{Code, StepError};
use reqwest::header::HeaderMap;

/// Maximum wait that a provider can request between two attempts.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(60);
/// Maximum length of a provider's text in a message, in bytes.
const MAX_PROVIDER_TEXT_BYTES: usize = 2 << 10;

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct ProviderFailure {
    code: Code,
    message: String,
    /// Whether the call may be sent again here.
    pub(crate) can_retry: bool,
    /// Whether a later call may succeed; the caller decides whether to retry.
    pub(crate) is_transient: bool,
    /// How long the provider asks to wait.
    pub(crate) wait: Option<Duration>,
    /// HTTP status, if the provider answered with an error.
    pub(crate) status: Option<u16>,
}

impl ProviderFailure {
    /// A failure that is not retried here.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> ProviderFailure {
        ProviderFailure {
            code,
            message: message.into(),
            can_retry: false,
            is_transient: false,
            wait: None,
            status: None,
        }
    }

    /// A failure that the caller may retry.
    pub(crate) fn transient(code: Code, message: impl Into<String>) -> ProviderFailure {
        ProviderFailure { is_transient: true, ..ProviderFailure::new(code, message) }
    }

    /// An answer that was cut off.
    pub(crate) fn cut_off(message: impl Into<String>) -> ProviderFailure {
        ProviderFailure { can_retry: true, ..ProviderFailure::new(Code::ModelTruncated, message) }
    }

    /// The provider could not be reached, or closed the connection before it answered.
    pub(crate) fn unreachable(error: &reqwest::Error) -> ProviderFailure {
        let passes = error.is_connect() || error.is_request();
        // The error's own text contains the address, which may contain a password.
        let why = match (error.source(), error.is_timeout()) {
            (Some(cause), _) => format_causes(cause),
            (None, true) => "timed out".to_owned(),
            (None, false) => "the connection failed".to_owned(),
        };
        ProviderFailure { can_retry: passes, ..ProviderFailure::cannot_reach(&why) }
    }

    /// The same for a plain socket.
    pub(crate) fn connection_lost(error: &(dyn Error + 'static)) -> ProviderFailure {
        ProviderFailure::cannot_reach(&format_causes(error))
    }

    fn cannot_reach(why: &str) -> ProviderFailure {
        let message = format!("the provider cannot be reached: {why}");
        ProviderFailure { can_retry: true, ..ProviderFailure::new(Code::ModelFailed, message) }
    }

    /// The provider answered with an error status.
    pub(crate) fn from_status(status: u16, headers: &HeaderMap, body: &str, now: SystemTime) -> ProviderFailure {
        let reason = reqwest::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let message = format!("HTTP {status} {}: {}", reason.unwrap_or_default(), find_provider_message(body));
        ProviderFailure {
            // Providers answer 409 while they process the same request.
            can_retry: is_retryable_status(status) || status == 409,
            wait: parse_retry_after(headers, now),
            status: Some(status),
            ..ProviderFailure::new(Code::ModelFailed, message)
        }
    }

    /// Converts to a step's error. Secrets are redacted before the text is cut, because a cut could leave a part of
    /// one.
    pub(crate) fn into_error(self, provider: &str, secrets: &[&str]) -> StepError {
        let text = truncate_text(&redact_secrets(&self.message, secrets), MAX_PROVIDER_TEXT_BYTES);
        let retry = match (self.can_retry || self.is_transient, self.wait) {
            (false, _) => Retry::Never,
            (true, None) => Retry::Maybe,
            (true, Some(wait)) => Retry::After(wait.as_millis() as u64),
        };
        StepError { code: self.code, message: format!("{provider}: {text}"), retry }
    }

    /// Whether the provider rejected the way in which we asked for JSON.
    pub(crate) fn refuses_schema(&self) -> bool {
        let about_schema = ["response_format", "json_schema", "output_config", "responseSchema", "response_schema"];
        matches!(self.status, Some(400 | 404 | 422)) && about_schema.iter().any(|word| self.message.contains(word))
    }
}

/// The text of an error and its causes.
fn format_causes(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> =
        std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

/// The message in a provider's error body, or the whole body.
pub(crate) fn find_provider_message(body: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let found = parsed.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        error.get("message").unwrap_or(error).as_str()
    });
    found.unwrap_or(body.trim()).to_owned()
}

fn redact_secrets(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= 4) {
        text = text.replace(secret, "[redacted]");
    }
    text
}

fn truncate_text(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// `retry-after-ms`, or `Retry-After` in seconds or as a date; at most [`MAX_RETRY_WAIT`].
fn parse_retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?;
        Some(Duration::from_secs_f64((number * unit).min(MAX_RETRY_WAIT.as_secs_f64())))
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| seconds(text, 1e-3)) {
        return Some(wait);
    }
    let value = text("retry-after")?;
    seconds(value, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(value).ok()?;
        Some(date.duration_since(now).unwrap_or_default().min(MAX_RETRY_WAIT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_wait_ms(name: &'static str, value: &str) -> Option<u128> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        parse_retry_after(&headers, now).map(|wait| wait.as_millis())
    }

    #[test]
    fn the_retry_delay_is_read_in_every_form_and_bounded() {
        assert_eq!(retry_wait_ms("retry-after", "2"), Some(2_000));
        assert_eq!(retry_wait_ms("retry-after", "0.5"), Some(500));
        assert_eq!(retry_wait_ms("retry-after-ms", "250"), Some(250));
        assert_eq!(retry_wait_ms("retry-after", "Wed, 21 Oct 2026 07:28:07 GMT"), Some(7_000));
        assert_eq!(retry_wait_ms("retry-after", "Wed, 21 Oct 2020 07:28:07 GMT"), Some(0));
        assert_eq!(retry_wait_ms("retry-after", "Wed, 21 Oct 2099 07:28:07 GMT"), Some(60_000));
        assert_eq!(retry_wait_ms("retry-after", "99999999999999999999"), Some(60_000));
        assert_eq!(retry_wait_ms("retry-after", "-3"), None);
        assert_eq!(retry_wait_ms("retry-after", "soon"), None);
        assert_eq!(retry_wait_ms("retry-after", "NaN"), None);
    }

    #[test]
    fn only_passing_statuses_are_tried_again() {
        let again =
            |status| ProviderFailure::from_status(status, &HeaderMap::new(), "", SystemTime::UNIX_EPOCH).can_retry;
        assert!([408, 409, 429, 500, 502, 503, 529].into_iter().all(again));
        assert!(![400, 401, 403, 404, 413, 422, 302].into_iter().any(again));
    }

    #[test]
    fn a_key_never_shows_even_at_the_cut() {
        let body = format!("{}sk-secret-key", "x".repeat(MAX_PROVIDER_TEXT_BYTES - 20));
        let failure = ProviderFailure::from_status(401, &HeaderMap::new(), &body, SystemTime::UNIX_EPOCH);
        let error = failure.into_error("openai", &["sk-secret-key"]);
        assert!(!error.message.contains("sk-"), "{}", error.message);
        assert!(error.message.len() < MAX_PROVIDER_TEXT_BYTES + 50);
    }
}
