//! Heads of requests and responses (RFC 9112, sections 3 to 6).

use std::io;

use bytes::{Buf as _, BytesMut};
use reqwest::Url;
use reqwest::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};

use super::body::{Framing, invalid_response};

/// Maximum size of a response's head, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum number of headers.
const MAX_HEADERS: usize = 100;

/// The head of a response.
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether the connection may be reused after the body.
    pub(super) is_reusable: bool,
}

/// Serialises a request with its body.
pub(super) fn write_request(url: &Url, headers: &HeaderMap, body: &str) -> Vec<u8> {
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let (path, host, length) = (url.path(), host_header(url), body.len());
    let mut request =
        format!("POST {path}{query} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n").into_bytes();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            request.extend_from_slice(part);
        }
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body.as_bytes());
    request
}

/// Host, and port if it is not the default.
pub(super) fn host_header(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Removes the head of the response from the bytes read; `None` if it is incomplete.
pub(super) fn take_head(read: &mut BytesMut) -> io::Result<Option<ResponseHead>> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut answer = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(length) = answer.parse(read).map_err(invalid_response)? else {
            return if read.len() < MAX_HEAD_BYTES {
                Ok(None)
            } else {
                Err(invalid_response("the response head is too long"))
            };
        };
        let status = answer.code.unwrap_or_default();
        let head = match status {
            // Informational response; the final one follows.
            100 | 102..200 => None,
            101 => return Err(invalid_response("the server switched protocols")),
            _ => Some(parse_head(status, answer.version == Some(1), answer.headers)?),
        };
        read.advance(length);
        if head.is_some() {
            return Ok(head);
        }
    }
}

fn parse_head(status: u16, is_1_1: bool, fields: &[httparse::Header<'_>]) -> io::Result<ResponseHead> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(invalid_response)?;
        headers.append(name, HeaderValue::from_bytes(field.value).map_err(invalid_response)?);
    }
    let framing = find_framing(status, &headers)?;
    // Both headers together is a technique of request smuggling.
    let is_clear = !(headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH));
    let is_reusable = match is_1_1 {
        true => is_clear && !has_connection_option(&headers, "close"),
        false => is_clear && has_connection_option(&headers, "keep-alive"),
    };
    Ok(ResponseHead { status, headers, framing, is_reusable })
}

fn find_framing(status: u16, headers: &HeaderMap) -> io::Result<Framing> {
    if matches!(status, 204 | 304) {
        return Ok(Framing::Length(0));
    }
    if let Some(last) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
        let last = last.as_bytes().rsplit(|byte| *byte == b',').next().unwrap_or_default();
        return Ok(match last.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            true => Framing::new_chunked(),
            false => Framing::Close,
        });
    }
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let text = value.to_str().map_err(invalid_response)?;
        for one in text.split(',').map(str::trim) {
            let is_number = !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit());
            let one: u64 =
                one.parse().ok().filter(|_| is_number).ok_or_else(|| invalid_response("invalid Content-Length"))?;
            if length.replace(one).is_some_and(|other| other != one) {
                return Err(invalid_response("conflicting Content-Length headers"));
            }
        }
    }
    Ok(length.map_or(Framing::Close, Framing::Length))
}

/// Whether the header `Connection` has this option.
fn has_connection_option(headers: &HeaderMap, option: &str) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(option))
}
