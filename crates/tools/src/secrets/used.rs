//! The secrets of one request.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use flowloom_core::rich::{Rich, RichPiece};
use flowloom_runtime::causes::format_chain;
use flowloom_runtime::redact::Redactor as _;

use super::redactor::{HiddenSecret, SecretRedactor};
use super::{Destination, Requester, SecretEncoding, SecretError, SecretPurpose, Secrets};

/// Minimum length in bytes of values that are redacted from responses; shorter ones occur there by chance.
pub(super) const MIN_REDACTED_BYTES: usize = 6;

/// The secrets that one request has used.
pub(crate) struct UsedSecrets<'a> {
    source: &'a dyn Secrets,
    destination: Destination<'a>,
    values: BTreeMap<String, String>,
}

impl<'a> UsedSecrets<'a> {
    /// No secrets yet, for a request to a destination.
    pub(crate) fn new(source: &'a dyn Secrets, destination: Destination<'a>) -> UsedSecrets<'a> {
        UsedSecrets { source, destination, values: BTreeMap::new() }
    }

    /// Replaces the secrets in a text with their values. Fails if the requester may not use one of them.
    pub(crate) fn fill_text(
        &mut self,
        text: &Rich,
        encoding: SecretEncoding,
        requester: Requester<'_>,
    ) -> Result<String, SecretError> {
        let purpose = SecretPurpose { requester, destination: self.destination };
        for piece in text.pieces() {
            if let RichPiece::Secret(name) = piece {
                // Read for each text, because another requester may not use what one may.
                let value = self.source.read_secret(name, &purpose)?;
                self.values.insert(name.to_string(), value);
            }
        }
        Ok(text
            .fill_secrets(|name| self.values.get(name).map(|value| encoding.encode_value(value)).unwrap_or_default()))
    }

    /// The value of a secret that was filled in before.
    pub(crate) fn value_of(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether one of the values is in a text, in any encoding.
    pub(crate) fn occur_in(&self, text: &str) -> bool {
        let is_plain = self.values.values().any(|value| !value.is_empty() && text.contains(value.as_str()));
        is_plain || matches!(self.build_redactor().redact_text(text), Cow::Owned(_))
    }

    fn build_redactor(&self) -> SecretRedactor {
        let hidden =
            |(name, value): (&String, &String)| HiddenSecret { name: Some(name.clone()), value: value.clone() };
        SecretRedactor::new(self.values.iter().map(hidden))
    }

    /// Redacts all secret values from the text and the causes of an error.
    pub(crate) fn redact_error<E: Error>(&self, inner: E) -> Box<Redacted<E>> {
        let text = self.replace_values(&inner.to_string(), 1);
        let causes = inner.source().map(|cause| RedactedCauses(self.replace_values(&format_chain(cause), 1)));
        Box::new(Redacted { inner, text, causes })
    }

    /// Redacts secret values from `text` that are long enough not to occur by chance. For responses: servers echo
    /// requests. Before a response is recorded, a [`super::redactor::SecretRedactor`] redacts all other secrets.
    pub(crate) fn redact_reply(&self, text: String) -> String {
        if self.values.is_empty() { text } else { self.replace_values(&text, MIN_REDACTED_BYTES) }
    }

    fn replace_values(&self, text: &str, min_bytes: usize) -> String {
        let mut out = text.to_owned();
        // Longest first, so that no remainder is left of a secret that contains another one.
        let mut values: Vec<_> = self.values.iter().filter(|(_, value)| value.len() >= min_bytes).collect();
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        for (name, value) in values {
            for encoding in SecretEncoding::ALL {
                let encoded = encoding.encode_value(value);
                if out.contains(&encoded) {
                    out = out.replace(&encoded, &format!("${{secret.{name}}}"));
                }
            }
        }
        out
    }
}

/// An error whose own text may contain secrets, with its text and its causes without them.
pub struct Redacted<E> {
    inner: E,
    text: String,
    causes: Option<RedactedCauses>,
}

/// The texts of the causes of an error, without secrets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RedactedCauses(String);

impl<E> Redacted<E> {
    /// The error itself. Its text must not be shown.
    pub fn inner(&self) -> &E {
        &self.inner
    }
}

impl<E> fmt::Display for Redacted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<E> fmt::Debug for Redacted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redacted").field(&self.text).finish()
    }
}

impl<E> Error for Redacted<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.causes.as_ref().map(|causes| causes as _)
    }
}
