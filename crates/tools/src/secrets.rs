//! Fills in the values of secrets, encoded as their place in a request requires, and redacts them from later output.
//!
//! The [`Secrets`] trait supplies the values; this module does not know where they are stored.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use flowloom_core::rich::{Rich, RichPiece};
use flowloom_runtime::causes::format_chain;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A source of secret values.
pub trait Secrets: Send + Sync {
    /// The value of the secret `name`; `None` if it is not set.
    fn secret_value(&self, name: &str) -> Option<String>;
}

impl Secrets for BTreeMap<String, String> {
    fn secret_value(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }
}

/// A secret that is not set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret {name} is not set; set FLOWLOOM_SECRET_{name}")]
pub struct UnknownSecret {
    /// Its name.
    pub name: String,
}

/// How a value is encoded at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretEncoding {
    /// Unchanged.
    Plain,
    /// Percent-encoded, for paths and queries.
    Url,
    /// Form-encoded.
    Form,
    /// Escaped for the inside of a JSON string.
    Json,
}

/// The characters that `encodeURIComponent` leaves unchanged, except those that some servers decode wrongly.
const COMPONENT_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Minimum length in bytes of values that are redacted from responses; shorter ones occur there by chance.
const MIN_REDACTED_BYTES: usize = 6;

impl SecretEncoding {
    fn encode_value(self, value: &str) -> String {
        match self {
            SecretEncoding::Plain => value.to_owned(),
            SecretEncoding::Url => utf8_percent_encode(value, COMPONENT_ESCAPES).to_string(),
            SecretEncoding::Form => url::form_urlencoded::byte_serialize(value.as_bytes()).collect(),
            SecretEncoding::Json => {
                let quoted = flowloom_core::render::to_json(&value.into());
                quoted[1..quoted.len() - 1].to_owned()
            }
        }
    }
}

/// The secrets that one request has used.
pub(crate) struct UsedSecrets<'a> {
    source: &'a dyn Secrets,
    values: BTreeMap<String, String>,
}

impl<'a> UsedSecrets<'a> {
    pub(crate) fn new(source: &'a dyn Secrets) -> UsedSecrets<'a> {
        UsedSecrets { source, values: BTreeMap::new() }
    }

    /// Replaces the secrets in a text with their values.
    pub(crate) fn fill_text(&mut self, text: &Rich, writing: SecretEncoding) -> Result<String, UnknownSecret> {
        for piece in text.pieces() {
            if let RichPiece::Secret(name) = piece
                && !self.values.contains_key(&**name)
            {
                let value = self.source.secret_value(name).ok_or_else(|| UnknownSecret { name: name.to_string() })?;
                self.values.insert(name.to_string(), value);
            }
        }
        Ok(text.fill_secrets(|name| self.values.get(name).map(|value| writing.encode_value(value)).unwrap_or_default()))
    }

    /// The value of a secret that was filled in before.
    pub(crate) fn value_of(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Redacts all secret values from the text and the causes of an error.
    pub(crate) fn redact_error<E: Error>(&self, inner: E) -> Box<Redacted<E>> {
        let text = self.replace_values(&inner.to_string(), 1);
        let causes = inner.source().map(|cause| RedactedCauses(self.replace_values(&format_chain(cause), 1)));
        Box::new(Redacted { inner, text, causes })
    }

    /// Redacts secret values from `text` that are long enough not to occur by chance. For responses: servers echo
    /// requests, and responses are recorded.
    pub(crate) fn redact_reply(&self, text: String) -> String {
        if self.values.is_empty() { text } else { self.replace_values(&text, MIN_REDACTED_BYTES) }
    }

    fn replace_values(&self, text: &str, shortest: usize) -> String {
        let mut out = text.to_owned();
        // Longest first, so that no remainder is left of a secret that contains another one.
        let mut values: Vec<_> = self.values.iter().filter(|(_, value)| value.len() >= shortest).collect();
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        for (name, value) in values {
            for writing in [SecretEncoding::Plain, SecretEncoding::Url, SecretEncoding::Form, SecretEncoding::Json] {
                let written = writing.encode_value(value);
                if out.contains(&written) {
                    out = out.replace(&written, &format!("${{secret.{name}}}"));
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

/// Parses configured text in which `${secret.NAME}` stands for a secret.
pub fn parse_secret_text(text: &str) -> Rich {
    let mut rich = Rich::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${secret.") {
        let Some((name, tail)) = after.split_once('}') else { break };
        rich.push_text(before);
        rich.push_secret(name);
        rest = tail;
    }
    rich.push_text(rest);
    rich
}
