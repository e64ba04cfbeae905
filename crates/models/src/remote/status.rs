//! Answers of providers with an error status: the provider's message, and how long it asks to wait.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use super::error::ProviderError;

/// Maximum wait that a provider can request between two attempts.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(60);

/// The error of an answer with an error status.
pub(crate) fn status_error(status: u16, headers: &HeaderMap, body: &str, now: SystemTime) -> ProviderError {
    ProviderError::Status { status, message: find_provider_message(body), wait: parse_retry_after(headers, now) }
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
}
