//! Reads a response: limits of time, size and compression ratio, decompression, and conversion to text.

use std::io::{self, Write};
use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use flate2::write::MultiGzDecoder;
use flowloom_runtime::fair::{FairPermit, FairSemaphore, user_share};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};
use url::Url;

use super::error::{ExchangeError, HttpError, TooLargeError};
use super::{HttpLimits, HttpResponse};
use crate::egress::display_origin;

/// Size in bytes up to which the ratio is not checked: small bodies are often repetitive.
const MIN_RATIO_CHECK_BYTES: usize = 1 << 20;

/// Number of bytes of a page that are searched for its declared encoding (HTML's rule).
const META_SCAN_BYTES: usize = 1024;

/// Size in bytes from which a body needs a place among the large ones.
const LARGE_BODY_BYTES: usize = 128 << 10;

/// Places for large bodies that are received at the same time.
const LARGE_BODIES: usize = 128;

/// The places for large bodies: they bound the memory of calls in progress, fairly among users.
pub(super) fn large_body_places() -> FairSemaphore {
    FairSemaphore::new("large_bodies", LARGE_BODIES, user_share(LARGE_BODIES))
}

/// Reads the body of a response to its end.
pub(super) async fn read_body(
    response: &mut Response,
    url: &Url,
    limits: &HttpLimits,
    place: &mut LargeBodyPlace<'_>,
) -> Result<Vec<u8>, HttpError> {
    check_headers(response.headers(), url, limits)?;
    let mut sink = BodySink::new(response.headers(), url, limits)?;
    loop {
        if sink.buffered_bytes() > LARGE_BODY_BYTES {
            place.acquire_once().await;
        }
        let chunk = match tokio::time::timeout(limits.idle, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| HttpError::from_request(error, url, limits))?,
            Err(_) => {
                let origin = display_origin(url);
                return Err(ExchangeError::IdleTimeout { origin, limit: limits.idle }.into());
            }
        };
        match chunk {
            Some(bytes) => sink.push_bytes(&bytes).map_err(|error| body_error(error, url, limits))?,
            None => break,
        }
    }
    sink.finish_body().map_err(|error| body_error(error, url, limits))
}

/// The place of one body among the large ones, once it has one. It is kept until the text is decoded.
pub(super) struct LargeBodyPlace<'a> {
    places: &'a FairSemaphore,
    user: &'a Arc<str>,
    permit: Option<FairPermit>,
}

impl<'a> LargeBodyPlace<'a> {
    pub(super) fn new(places: &'a FairSemaphore, user: &'a Arc<str>) -> LargeBodyPlace<'a> {
        LargeBodyPlace { places, user, permit: None }
    }

    /// Waits for a place, unless the body has one.
    async fn acquire_once(&mut self) {
        if self.permit.is_none() {
            self.permit = Some(self.places.acquire_permit(self.user).await);
        }
    }
}

/// Reads a response to its end.
pub(super) async fn read_response(
    mut response: Response,
    url: Url,
    limits: &HttpLimits,
    mut place: LargeBodyPlace<'_>,
) -> Result<HttpResponse, HttpError> {
    let bytes = read_body(&mut response, &url, limits, &mut place).await?;
    let headers: Vec<(String, String)> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let kind = headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, value)| value);
    let text = decode_text(bytes, kind);
    Ok(HttpResponse { status: response.status().as_u16(), headers, text, url: url.into() })
}

fn check_headers(headers: &HeaderMap, url: &Url, limits: &HttpLimits) -> Result<(), TooLargeError> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > limits.headers || bytes > limits.header_bytes {
        return Err(TooLargeError::for_headers(url, limits));
    }
    Ok(())
}

/// Collects a body piece by piece, within the limits.
enum BodySink {
    Plain(CappedBuffer),
    // Boxed: the decoder's tables are large.
    Gzip(Box<MultiGzDecoder<CappedBuffer>>),
}

/// Bytes up to a limit.
struct CappedBuffer {
    bytes: Vec<u8>,
    cap: usize,
    received: usize,
    ratio: usize,
}

/// The exceeded limit; passed through the decoder as an `io::Error`.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
enum ExceededLimit {
    #[error("the body is too large")]
    Size,
    #[error("the body was compressed too much")]
    Ratio,
}

impl Write for CappedBuffer {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let length = self.bytes.len() + piece.len();
        if length > self.cap {
            return Err(io::Error::other(ExceededLimit::Size));
        }
        if length > MIN_RATIO_CHECK_BYTES && length / self.ratio.max(1) > self.received {
            return Err(io::Error::other(ExceededLimit::Ratio));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BodySink {
    fn new(headers: &HeaderMap, url: &Url, limits: &HttpLimits) -> Result<BodySink, ExchangeError> {
        let capped = CappedBuffer { bytes: Vec::new(), cap: limits.reply_bytes, received: 0, ratio: limits.ratio };
        let codings: Vec<String> = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .flat_map(|value| {
                String::from_utf8_lossy(value.as_bytes())
                    .to_ascii_lowercase()
                    .split(',')
                    .map(|coding| coding.trim().to_owned())
                    .collect::<Vec<_>>()
            })
            .filter(|coding| !coding.is_empty() && coding != "identity")
            .collect();
        match codings.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => Ok(BodySink::Plain(capped)),
            ["gzip" | "x-gzip"] => Ok(BodySink::Gzip(Box::new(MultiGzDecoder::new(capped)))),
            _ => Err(ExchangeError::UnsupportedCoding { origin: display_origin(url), codings: codings.join(", ") }),
        }
    }

    fn buffered_bytes(&self) -> usize {
        match self {
            BodySink::Plain(capped) => capped.bytes.len(),
            BodySink::Gzip(decoder) => decoder.get_ref().bytes.len(),
        }
    }

    fn push_bytes(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            BodySink::Plain(capped) => {
                capped.received += piece.len();
                capped.write_all(piece)
            }
            BodySink::Gzip(decoder) => {
                decoder.get_mut().received += piece.len();
                decoder.write_all(piece)
            }
        }
    }

    fn finish_body(self) -> io::Result<Vec<u8>> {
        match self {
            BodySink::Plain(capped) => Ok(capped.bytes),
            // Responses to HEAD, and 304, name a coding and have no body.
            BodySink::Gzip(decoder) if decoder.get_ref().received == 0 => Ok(Vec::new()),
            BodySink::Gzip(decoder) => Ok(decoder.finish()?.bytes),
        }
    }
}

fn body_error(source: io::Error, url: &Url, limits: &HttpLimits) -> HttpError {
    let origin = display_origin(url);
    match source.get_ref().and_then(|inner| inner.downcast_ref::<ExceededLimit>()) {
        Some(ExceededLimit::Size) => TooLargeError::Body { origin, limit_bytes: limits.reply_bytes }.into(),
        Some(ExceededLimit::Ratio) => TooLargeError::Ratio { origin, limit: limits.ratio }.into(),
        None => ExchangeError::InvalidGzip { origin, source }.into(),
    }
}

/// The media type of a `Content-Type` without parameters, in lower case.
pub(super) fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Decodes the bytes: by their byte order mark, else the header, else the page's own declaration, else as UTF-8.
/// Invalid bytes become U+FFFD.
fn decode_text(bytes: Vec<u8>, content_type: &str) -> String {
    let named = header_charset(content_type).or_else(|| {
        let is_html = matches!(media_type(content_type).as_str(), "" | "text/html" | "application/xhtml+xml");
        is_html.then(|| meta_charset(&bytes)).flatten()
    });
    if named.is_none_or(|encoding| encoding == UTF_8) && !bytes.starts_with(b"\xEF\xBB\xBF") {
        // The usual case reuses the bytes instead of copying them.
        match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(error) => return UTF_8.decode(&error.into_bytes()).0.into_owned(),
        }
    }
    named.unwrap_or(UTF_8).decode(&bytes).0.into_owned()
}

fn header_charset(content_type: &str) -> Option<&'static Encoding> {
    let value = content_type.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then_some(value)
    })?;
    Encoding::for_label(value.trim().trim_matches('"').as_bytes())
}

/// `<meta charset=…>` or its older form, within the first bytes of a page.
fn meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(META_SCAN_BYTES)]).to_ascii_lowercase();
    let meta = head.split("<meta").skip(1).find_map(|rest| rest.split('>').next()?.split_once("charset"))?.1;
    let label = meta.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = label.find(|c: char| matches!(c, '"' | '\'' | ';' | '/') || c.is_whitespace()).unwrap_or(label.len());
    // A declaration that could be read as bytes of ASCII cannot be in UTF-16, whatever it says.
    let named = Encoding::for_label(&label.as_bytes()[..end])?;
    Some(if named == UTF_16LE || named == UTF_16BE { UTF_8 } else { named })
}
