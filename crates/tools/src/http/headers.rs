//! Headers of a request: which may be sent, which are added, and which must not follow a redirect to another origin.

use flowloom_core::effect::check_header_name;
use flowloom_core::rich::Rich;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::error::{HttpError, RequestError};
use super::{HttpLimits, USER_AGENT};
use crate::secrets::{Requester, SecretEncoding, UsedSecrets};

/// Parts of the names of headers that contain a credential.
const CREDENTIAL_NAME_PARTS: [&str; 7] = ["auth", "cookie", "token", "key", "secret", "password", "session"];

/// Headers that describe a body, and are removed with it.
const BODY_HEADERS: [&str; 5] =
    ["content-type", "content-encoding", "content-language", "content-location", "idempotency-key"];

/// One header to send.
#[derive(Clone)]
pub(super) struct RequestHeader {
    name: HeaderName,
    value: HeaderValue,
    private: bool,
}

/// The headers of a request, ready to send.
pub(super) struct RequestHeaders(Vec<RequestHeader>);

impl RequestHeaders {
    /// Checks the author's headers and fills in secrets.
    pub(super) fn new(
        rows: &[(String, Rich)],
        used: &mut UsedSecrets<'_>,
        requester: Requester<'_>,
        limits: &HttpLimits,
    ) -> Result<RequestHeaders, HttpError> {
        if rows.len() > limits.headers {
            return Err(RequestError::TooManyHeaders { count: rows.len(), limit: limits.headers }.into());
        }
        let mut bytes = 0;
        let mut out = Vec::with_capacity(rows.len() + 3);
        for (name, value) in rows {
            let private = value.has_secrets() || is_credential(name);
            let text = used.fill_text(value, SecretEncoding::Plain, requester)?;
            bytes += name.len() + text.len();
            out.push(RequestHeader { name: check_name(name)?, value: check_value(name, &text)?, private });
        }
        if bytes > limits.header_bytes {
            return Err(RequestError::HeadersTooLarge { bytes, limit_bytes: limits.header_bytes }.into());
        }
        Ok(RequestHeaders(out))
    }

    /// Adds the engine's own headers unless the author set them.
    pub(super) fn add_defaults(&mut self, key: Option<&str>, traceparent: Option<&str>) {
        self.add_if_absent("user-agent", USER_AGENT);
        // Other codings would be rejected in the response, so only gzip is requested.
        self.add_if_absent("accept-encoding", "gzip");
        if let Some(key) = key {
            self.add_if_absent("idempotency-key", key);
        }
        if let Some(traceparent) = traceparent {
            self.add_if_absent("traceparent", traceparent);
        }
    }

    fn add_if_absent(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value)
            && !self.0.iter().any(|row| row.name == name)
        {
            self.0.push(RequestHeader { name: HeaderName::from_static(name), value, private: false });
        }
    }

    /// The value of a header, if it is text.
    pub(super) fn get_header(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|row| row.name == name).and_then(|row| row.value.to_str().ok())
    }

    /// Removes headers that must not be sent to another origin.
    pub(super) fn drop_private(&mut self) {
        self.0.retain(|row| !row.private);
    }

    /// Removes headers that describe a body.
    pub(super) fn drop_body(&mut self) {
        self.0.retain(|row| !BODY_HEADERS.contains(&row.name.as_str()));
    }

    pub(super) fn to_header_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.0.len());
        for row in &self.0 {
            map.append(row.name.clone(), row.value.clone());
        }
        map
    }
}

fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name != "idempotency-key" && CREDENTIAL_NAME_PARTS.iter().any(|part| name.contains(part))
}

fn check_name(name: &str) -> Result<HeaderName, RequestError> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| RequestError::InvalidHeaderName { name: name.to_owned() })?;
    check_header_name(name)?;
    Ok(parsed)
}

fn check_value(name: &str, text: &str) -> Result<HeaderValue, RequestError> {
    let invalid = || RequestError::InvalidHeaderValue { name: name.to_owned() };
    // As `fetch` does: white space around a value is no part of it, and each character is one byte (Latin-1).
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.trim_matches([' ', '\t', '\r', '\n']).chars() {
        let byte = u8::try_from(u32::from(c));
        bytes.push(byte.map_err(|_| RequestError::HeaderNotLatin { name: name.to_owned(), character: c })?);
    }
    HeaderValue::from_bytes(&bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_sent_as_fetch_sends_it() {
        let bytes = |text: &str| check_value("x", text).map(|value| value.as_bytes().to_vec());
        assert_eq!(bytes(" tok\n").expect("a value"), b"tok");
        assert_eq!(bytes("é").expect("a value"), [0xe9]);
        let message = |text: &str| bytes(text).expect_err(text).to_string();
        assert!(message("a 中").contains("中"), "{}", message("a 中"));
        assert!(message("a\nb").contains("line break"));
    }
}
