//! How a value is encoded at its place in a request.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// How a value is encoded at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretEncoding {
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

impl SecretEncoding {
    pub(super) const ALL: [SecretEncoding; 4] =
        [SecretEncoding::Plain, SecretEncoding::Url, SecretEncoding::Form, SecretEncoding::Json];

    pub(super) fn encode_value(self, value: &str) -> String {
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
