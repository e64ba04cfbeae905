//! Errors of network calls, and how to report them without secrets.

use std::error::Error;
use std::time::Duration;

use flowloom_core::Code;
use flowloom_core::effect::is_retryable_status;
use flowloom_core::error::Retry;
use flowloom_runtime::causes::format_chain;

/// Maximum length of a provider's text in a message, in bytes.
const MAX_PROVIDER_TEXT_BYTES: usize = 2 << 10;

type BoxError = Box<dyn Error + Send + Sync>;

/// Why one attempt of a call has no answer. Its text and its causes may contain secrets; see [`ProviderCallError`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// The base URL is not a URL.
    #[error("invalid base URL: {0}")]
    InvalidBaseUrl(#[source] BoxError),
    /// The HTTP client cannot be created; the error names no URL.
    #[error("cannot create the HTTP client: {0}")]
    ClientNotCreated(#[source] reqwest::Error),
    /// A key cannot be sent.
    #[error("the key contains characters that are not allowed in a header")]
    KeyNotAHeader,
    /// No connection, or it was closed before the answer; the error names no URL.
    #[error("the provider cannot be reached: {}", describe_failed_request(.0))]
    Unreachable(#[source] reqwest::Error),
    /// No connection through a plain socket, or it was closed before the answer.
    #[error("the provider cannot be reached: {}", format_chain(&**.0))]
    ConnectionFailed(#[source] BoxError),
    /// The provider answered with an error status.
    #[error("HTTP {status} {}: {message}", status_reason(*status))]
    Status {
        /// The status.
        status: u16,
        /// The provider's text.
        message: String,
        /// How long the provider asks to wait.
        wait: Option<Duration>,
    },
    /// The whole call, including its retries, took too long.
    #[error("no complete answer within {} s", limit.as_secs_f64())]
    TotalTimeout {
        /// The time limit that was exceeded.
        limit: Duration,
    },
    /// The provider was silent for too long.
    #[error("received no data for {} s", limit.as_secs_f64())]
    IdleTimeout {
        /// The time limit that was exceeded.
        limit: Duration,
    },
    /// The connection broke in the middle of the answer, or the answer is larger than any real one.
    #[error("the connection was lost in the middle of the answer")]
    ConnectionLost(#[source] Option<BoxError>),
    /// The provider did not mark the end of the answer.
    #[error("the answer was cut off")]
    AnswerCutOff,
    /// The answer is not a stream of events.
    #[error("cannot read the answer: {0}")]
    UnreadableStream(#[source] super::sse::Unreadable),
    /// The answer is not JSON of the expected shape.
    #[error("cannot parse the answer: {0}")]
    AnswerNotJson(#[source] serde_json::Error),
    /// The answer is larger than any real one.
    #[error("the answer is too large")]
    AnswerTooLarge,
    /// The answer has more tool calls than any real one.
    #[error("the answer has more than {limit} tool calls")]
    TooManyToolCalls {
        /// Maximum number of calls.
        limit: usize,
    },
    /// The provider stopped the answer because of its content.
    #[error("the provider's content filter stopped the answer{}", in_parentheses(reason.as_deref()))]
    ContentFilter {
        /// The provider's reason.
        reason: Option<String>,
    },
    /// The provider marked the end of the answer as an error.
    #[error("the provider ended the answer with an error")]
    EndedWithError,
    /// The provider sent an error in place of the rest of the answer.
    #[error("the provider ended the answer with an error: {message}")]
    StreamFailed {
        /// The provider's text.
        message: String,
        /// Whether the text names a temporary problem.
        is_transient: bool,
    },
    /// The answer has no usable embedding for a text.
    #[error("the provider returned no usable embedding for text {number}")]
    EmbeddingMissing {
        /// Number of the text, from 1.
        number: usize,
    },
    /// The library for other protocols than OpenAI's failed.
    #[error("{0}")]
    Library(#[source] Box<genai::Error>),
}

impl ProviderError {
    /// The error of a request that reqwest did not complete.
    pub(crate) fn from_request(error: reqwest::Error) -> ProviderError {
        // The error's own text contains the address, which may contain a password.
        ProviderError::Unreachable(error.without_url())
    }

    pub(crate) fn code(&self) -> Code {
        match self {
            ProviderError::KeyNotAHeader => Code::ModelKeyMissing,
            ProviderError::IdleTimeout { .. } | ProviderError::ConnectionLost(_) | ProviderError::AnswerCutOff => {
                Code::ModelTruncated
            }
            ProviderError::AnswerTooLarge => Code::ReplyTooLarge,
            ProviderError::InvalidBaseUrl(_)
            | ProviderError::ClientNotCreated(_)
            | ProviderError::Unreachable(_)
            | ProviderError::ConnectionFailed(_)
            | ProviderError::Status { .. }
            | ProviderError::TotalTimeout { .. }
            | ProviderError::UnreadableStream(_)
            | ProviderError::AnswerNotJson(_)
            | ProviderError::TooManyToolCalls { .. }
            | ProviderError::ContentFilter { .. }
            | ProviderError::EndedWithError
            | ProviderError::StreamFailed { .. }
            | ProviderError::EmbeddingMissing { .. }
            | ProviderError::Library(_) => Code::ModelFailed,
        }
    }

    /// Whether the call may be sent again here.
    pub(crate) fn can_retry(&self) -> bool {
        match self {
            ProviderError::Unreachable(error) => error.is_connect() || error.is_request(),
            // Providers answer 409 while they process the same request.
            ProviderError::Status { status, .. } => is_retryable_status(*status) || *status == 409,
            ProviderError::StreamFailed { is_transient, .. } => *is_transient,
            ProviderError::ConnectionFailed(_) | ProviderError::ConnectionLost(_) | ProviderError::AnswerCutOff => true,
            _ => false,
        }
    }

    /// Whether a later call may succeed; the caller decides whether to retry.
    fn retry(&self) -> Retry {
        // After a timeout the provider may still be working, so the call is not repeated here.
        let is_timeout = matches!(self, ProviderError::TotalTimeout { .. } | ProviderError::IdleTimeout { .. });
        match self.wait() {
            _ if !self.can_retry() && !is_timeout => Retry::Never,
            None => Retry::Maybe,
            Some(wait) => Retry::After(wait.as_millis() as u64),
        }
    }

    /// How long the provider asks to wait.
    pub(crate) fn wait(&self) -> Option<Duration> {
        match self {
            ProviderError::Status { wait, .. } => *wait,
            _ => None,
        }
    }

    /// Whether the provider rejected the way in which we asked for JSON.
    pub(crate) fn refuses_schema(&self) -> bool {
        let about_schema = ["response_format", "json_schema", "output_config", "responseSchema", "response_schema"];
        match self {
            ProviderError::Status { status: 400 | 404 | 422, message, .. } => {
                about_schema.iter().any(|word| message.contains(word))
            }
            _ => false,
        }
    }
}

/// A failed call of a provider. Neither its text nor its causes contain a secret.
#[derive(Debug, thiserror::Error)]
#[error("{provider}: {text}")]
pub struct ProviderCallError {
    provider: String,
    text: String,
    code: Code,
    retry: Retry,
    #[source]
    causes: Option<RedactedCauses>,
}

/// The texts of the causes of an error, without secrets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RedactedCauses(String);

impl ProviderCallError {
    /// The error of a call to `provider`. Secrets are redacted before the text is cut, because a cut could leave a part
    /// of one.
    pub(crate) fn new(provider: &str, error: &ProviderError, secrets: &[&str]) -> ProviderCallError {
        let redact = |text: &str| truncate_text(&redact_secrets(text, secrets), MAX_PROVIDER_TEXT_BYTES);
        ProviderCallError {
            provider: provider.to_owned(),
            text: redact(&error.to_string()),
            code: error.code(),
            retry: error.retry(),
            causes: error.source().map(|cause| RedactedCauses(redact(&format_chain(cause)))),
        }
    }

    /// The error code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether a later call may succeed.
    pub fn retry(&self) -> Retry {
        self.retry
    }
}

fn describe_failed_request(error: &reqwest::Error) -> String {
    match (error.source(), error.is_timeout()) {
        (Some(cause), _) => format_chain(cause),
        (None, true) => "timed out".to_owned(),
        (None, false) => "the connection failed".to_owned(),
    }
}

fn status_reason(status: u16) -> &'static str {
    let status = reqwest::StatusCode::from_u16(status).ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or_default()
}

fn in_parentheses(text: Option<&str>) -> String {
    text.map(|text| format!(" ({text})")).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn status_error(status: u16, message: String) -> ProviderError {
        ProviderError::Status { status, message, wait: None }
    }

    #[test]
    fn only_passing_statuses_are_tried_again() {
        let again = |status| status_error(status, String::new()).can_retry();
        assert!([408, 409, 429, 500, 502, 503, 529].into_iter().all(again));
        assert!(![400, 401, 403, 404, 413, 422, 302].into_iter().any(again));
    }

    #[test]
    fn a_key_never_shows_even_at_the_cut() {
        let error = status_error(401, format!("{}sk-secret-key", "x".repeat(MAX_PROVIDER_TEXT_BYTES - 20)));
        let message = ProviderCallError::new("openai", &error, &["sk-secret-key"]).to_string();
        assert!(!message.contains("sk-"), "{message}");
        assert!(message.len() < MAX_PROVIDER_TEXT_BYTES + 50);
    }

    #[test]
    fn causes_contain_no_key() {
        let cause = std::io::Error::other("refused sk-secret-key");
        let error = ProviderError::ConnectionLost(Some(cause.into()));
        let failed = ProviderCallError::new("openai", &error, &["sk-secret-key"]);
        assert_eq!(failed.to_string(), "openai: the connection was lost in the middle of the answer");
        assert_eq!(format_chain(failed.source().unwrap()), "refused [redacted]");
    }
}
