//! HTTP requests as they are sent, and how a plan's description becomes one (the rules of the Fetch standard).

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::error::StepFailure;
use crate::expr::{Lookup, PastedJson, TextRules};
use crate::json;
use crate::plan::{BodySpec, EffectClass, HttpSpec};
use crate::render;
use crate::rich::{Rich, RichPiece};
use crate::value::Value;

/// A request ready to be sent. Secrets are still names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// Upper-case method.
    pub method: String,
    /// Normalised URL without a fragment.
    pub url: Rich,
    /// Lower-case names without duplicates.
    pub headers: Vec<(String, Rich)>,
    /// The body.
    pub body: Option<Rich>,
    /// Whether the URL and the headers are those of `[tools]`, with a path below it. Never read from outside.
    #[serde(skip)]
    pub uses_tool_host: bool,
}

impl HttpRequest {
    /// The effect class, derived from the method.
    pub fn effect_class(&self) -> EffectClass {
        match self.method.as_str() {
            "GET" | "HEAD" => EffectClass::AtLeastOnce,
            _ => EffectClass::AtMostOnce,
        }
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpReply {
    /// Status code.
    pub status: u16,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

/// The status that made an HTTP step fail: its message ends with it. `None` if there was no response, or it was not the
/// status that failed.
pub fn failed_status(failure: &StepFailure) -> Option<u16> {
    let message = (failure.code == Code::HttpStatus).then_some(&failure.message)?;
    message.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl HttpReply {
    /// The reply as a value: `{status, headers, body}`.
    pub fn to_value(&self) -> Value {
        let headers = Value::map(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str().into())));
        Value::map([
            ("status", Value::from(i64::from(self.status))),
            ("headers", headers),
            ("body", self.body.as_str().into()),
        ])
    }

    /// Reads the result of [`HttpReply::to_value`]; `None` if the shape differs.
    pub fn from_value(value: &Value) -> Option<HttpReply> {
        let status = value.get("status")?.as_i64()?;
        let headers = value.get("headers")?.as_map()?.iter();
        let headers = headers.map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned())));
        Some(HttpReply {
            status: u16::try_from(status).ok()?,
            headers: headers.collect::<Option<_>>()?,
            body: value.get("body")?.as_str()?.to_owned(),
        })
    }
}

/// The methods of requests.
pub const HTTP_METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

impl HttpRequest {
    /// The request that `spec` describes, with the values of `scope` put in. An error if it cannot be sent: an unknown
    /// method, an address that is none, a header that is not the author's to set, a body that is not JSON.
    pub fn resolve(spec: &HttpSpec, scope: &dyn Lookup, rules: TextRules) -> Result<HttpRequest, StepFailure> {
        let written = spec.method.resolve(scope, rules)?.to_redacted_text();
        let method = if written.is_empty() { "GET".to_owned() } else { written.to_uppercase() };
        if !HTTP_METHODS.contains(&method.as_str()) {
            let message = format!("{written:?} is not a method; use one of {}", HTTP_METHODS.join(", "));
            return Err(StepFailure::new(Code::HttpRequestInvalid, message));
        }
        let url = spec.url.resolve(scope, rules)?.map_text(normalize_url)?;
        // Only the exact upper-case names carry a body: `post` is sent without one.
        let has_body = matches!(written.as_str(), "POST" | "PUT" | "PATCH");
        let mut headers = Vec::new();
        for (key, value) in &spec.headers {
            let key = key.resolve(scope, rules)?.to_redacted_text();
            set_header(&mut headers, key, value.resolve(scope, rules)?);
        }
        let body = if has_body { write_body(&spec.body, scope, rules, &mut headers)? } else { None };
        let headers = merge_headers(headers)?;
        Ok(HttpRequest { method, url, headers, body, uses_tool_host: spec.uses_tool_host })
    }
}

/// The text of a body, if there is one; also sets the content type that goes with it.
fn write_body(
    body: &BodySpec,
    scope: &dyn Lookup,
    rules: TextRules,
    headers: &mut Vec<(String, Rich)>,
) -> Result<Option<Rich>, StepFailure> {
    let content_type = |headers: &mut Vec<_>, kind: &str| {
        set_header(headers, "Content-Type".into(), kind.into());
    };
    match body {
        BodySpec::None => Ok(None),
        BodySpec::Text(template) => {
            let text = template.resolve(scope, rules)?;
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                content_type(headers, "text/plain;charset=UTF-8");
            }
            Ok(Some(text))
        }
        BodySpec::JsonText(template) => {
            content_type(headers, "application/json");
            let text = template.resolve_json(scope, rules)?;
            // An empty body or a body of `null` is sent as no body.
            let repaired = if text.raw.pieces().is_empty() { text.raw } else { write_json_body(&text)? };
            let is_nothing = repaired.pieces().is_empty() || repaired.to_redacted_text() == "null";
            Ok((!is_nothing).then_some(repaired))
        }
        BodySpec::JsonValue(data) => {
            content_type(headers, "application/json");
            Ok(Some(render::to_js_json(&data.resolve(scope, rules)?).as_str().into()))
        }
        BodySpec::Form(fields) => {
            content_type(headers, "application/x-www-form-urlencoded");
            let mut form = Rich::default();
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    form.push_text("&");
                }
                append_encoded(&mut form, &key.resolve(scope, rules)?);
                form.push_text("=");
                append_encoded(&mut form, &value.resolve(scope, rules)?);
            }
            Ok(Some(form))
        }
    }
}

/// Text as a name or a value in a form is sent.
pub fn encode_form_text(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Appends form-encoded text. A secret remains a name and is encoded when its value is inserted.
fn append_encoded(body: &mut Rich, text: &Rich) {
    for piece in text.pieces() {
        match piece {
            RichPiece::Text(text) => {
                body.push_text(&encode_form_text(text));
            }
            RichPiece::Secret(name) => body.push_secret(name),
        }
    }
}

/// The body as it was written, or else with the values within its strings escaped. Only text that is not JSON in either
/// form is repaired: a repair may guess wrong, and the sent body is not shown. At last the JSON in the text is sent,
/// without the text around it; it is looked for in the escaped text, in which no value ends a string.
fn write_json_body(text: &PastedJson) -> Result<Rich, StepFailure> {
    let parse_strictly = |text: &str| json::parse_value(text).ok();
    text.raw
        .map_text(|text| rewrite_json(text, parse_strictly))
        .or_else(|_| text.escaped.map_text(|text| rewrite_json(text, parse_strictly)))
        .or_else(|_| text.raw.map_text(|text| rewrite_json(text, json::read_repaired)))
        .or_else(|_| text.escaped.map_text(|text| rewrite_json(text, json::read_lenient)))
}

fn rewrite_json(text: &str, read: impl Fn(&str) -> Option<Value>) -> Result<String, StepFailure> {
    let message = "after the values were inserted, the body is not JSON and could not be repaired; \
                   use bodyType \"text\" to send it unchanged";
    let value = read(text).ok_or_else(|| StepFailure::new(Code::HttpRequestInvalid, message))?;
    Ok(render::to_js_json(&value))
}

/// The URL as a browser normalises it (WHATWG URL), without its fragment. Fails with `FL1002` if it is not a URL or
/// contains credentials.
pub fn normalize_url(text: &str) -> Result<String, StepFailure> {
    let invalid = || StepFailure::new(Code::HttpRequestInvalid, format!("Failed to parse URL from {text}"));
    let mut url = url::Url::parse(text).map_err(|_| invalid())?;
    url.set_fragment(None);
    // Only path and query are sent; an empty query is dropped.
    if url.query() == Some("") {
        url.set_query(None);
    }
    if !url.username().is_empty() || url.password().is_some() {
        let message = "the URL contains a user name or password; put them in an Authorization header";
        return Err(StepFailure::new(Code::HttpRequestInvalid, message));
    }
    Ok(url.into())
}

fn set_header(headers: &mut Vec<(String, Rich)>, key: String, value: Rich) {
    match headers.iter_mut().find(|(name, _)| *name == key) {
        Some((_, old)) => *old = value,
        None => headers.push((key, value)),
    }
}

/// Joins rows whose names differ only in case, as `Headers.append` does, and rejects headers that cannot be sent.
fn merge_headers(rows: Vec<(String, Rich)>) -> Result<Vec<(String, Rich)>, StepFailure> {
    let mut merged: Vec<(String, Rich)> = Vec::new();
    for (key, value) in rows {
        check_header(&key, &value)?;
        let name = key.to_ascii_lowercase();
        match merged.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => {
                old.push_text(", ");
                for piece in value.pieces() {
                    match piece {
                        RichPiece::Text(text) => old.push_text(text),
                        RichPiece::Secret(secret) => old.push_secret(secret),
                    }
                }
            }
            None => merged.push((name, value)),
        }
    }
    Ok(merged)
}

/// Headers controlled by the connection, not by the author.
const CONNECTION_HEADERS: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "http2-settings",
];

/// Prefixes of headers that only proxies and browsers may set; servers trust them.
const FORBIDDEN_HEADER_PREFIXES: [&str; 4] = ["proxy-", "sec-", "x-forwarded-", "forwarded"];

/// Rejects header names that an author may not set (`FL1002`).
pub fn check_header_name(name: &str) -> Result<(), StepFailure> {
    let lower = name.to_ascii_lowercase();
    let owner = if CONNECTION_HEADERS.contains(&lower.as_str()) {
        "is set by the connection itself"
    } else if FORBIDDEN_HEADER_PREFIXES.iter().any(|family| lower.starts_with(family)) {
        "is only for proxies and browsers"
    } else {
        return Ok(());
    };
    Err(StepFailure::new(Code::HttpRequestInvalid, format!("the header {name} {owner}; remove this row")))
}

/// Whether a request with this error status may succeed on retry.
pub fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

fn check_header(key: &str, value: &Rich) -> Result<(), StepFailure> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if key.is_empty() || !key.bytes().all(token) {
        let message = format!("Headers.append: {key:?} is an invalid header name.");
        return Err(StepFailure::new(Code::HttpRequestInvalid, message));
    }
    check_header_name(key)?;
    let text = value.fill_secrets(|_| String::new());
    // White space around a value is not sent.
    if text.trim_matches([' ', '\t', '\r', '\n']).bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        let message = format!("the value of header {key} holds a line break or NUL, which cannot be sent");
        return Err(StepFailure::new(Code::HttpRequestInvalid, message));
    }
    Ok(())
}

/// The value of a reply's text: JSON if it can be parsed or repaired, otherwise the text itself.
pub fn parse_reply(text: &str) -> Value {
    json::read_lenient(text).unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_not_the_authors() {
        for name in ["Host", "Keep-Alive", "expect", "Sec-Fetch-Mode", "X-Forwarded-For", "Proxy-Authorization"] {
            let refused = check_header_name(name).expect_err(name);
            assert_eq!(refused.code, Code::HttpRequestInvalid);
        }
        for name in ["Accept", "Authorization", "X-Api-Key", "Security-Token"] {
            assert!(check_header_name(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn pasted_values_stay_in_their_strings() {
        let body = |raw: &str, escaped: &str| {
            let text = PastedJson { raw: raw.into(), escaped: escaped.into() };
            write_json_body(&text).map(|body| body.to_redacted_text()).ok()
        };
        // Both readings are JSON: the author may paste JSON.
        assert_eq!(body(r#"{"q":"a","b":"c"}"#, r#"{"q":"a\",\"b\":\"c"}"#).as_deref(), Some(r#"{"q":"a","b":"c"}"#));
        let quoted = body("{\"q\":\"say \"hi\"\",\"b\":2}", r#"{"q":"say \"hi\"","b":2}"#);
        assert_eq!(quoted.as_deref(), Some(r#"{"q":"say \"hi\"","b":2}"#));
        assert_eq!(body("{q: 'x',}", "{q: 'x',}").as_deref(), Some(r#"{"q":"x"}"#));
        // A part of the body is never sent instead of it.
        assert_eq!(body(r#"{"q":"{"x":1}" x, y z"#, r#"{"q":"{"x":1}" x, y z"#), None);
        assert_eq!(body("callback({\"a\":1})", "callback({\"a\":1})").as_deref(), Some(r#"{"a":1}"#));
    }

    #[test]
    fn white_space_around_a_value_is_not_sent() {
        assert!(check_header("X-Api-Key", &"tok\r\n".into()).is_ok());
        assert!(check_header("X-Api-Key", &"to\nk".into()).is_err());
    }

    #[test]
    fn statuses_that_may_be_gone_at_the_next_attempt() {
        assert!([408, 425, 429, 500, 503, 529, 599].into_iter().all(is_retryable_status));
        assert!(![200, 302, 400, 401, 404, 409, 422, 600].into_iter().any(is_retryable_status));
    }
}
