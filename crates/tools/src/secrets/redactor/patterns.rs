//! The encodings in which a secret is searched for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::SecretEncoding;
use super::super::used::MIN_REDACTED_BYTES;

/// The length in bytes of a part of a long value.
const PART_BYTES: usize = 128;

/// The characters that `encodeURI` escapes.
const URI_ESCAPES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The characters that most libraries escape in a path.
const PATH_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

const STANDARD_BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Whether a byte is a character of Base64.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// One encoding of a secret.
pub(super) struct Pattern {
    pub(super) text: String,
    /// The text shown instead of the secret.
    pub(super) replacement: Arc<str>,
    /// Whether the character before it contains some bits of the secret, as in Base64.
    leading_bits: bool,
    /// Whether the character after it contains some bits of the secret.
    trailing_bits: bool,
}

impl Pattern {
    /// A match with the characters around it that contain some bits of the secret. It starts at `from` at the earliest.
    pub(super) fn widen_match(&self, text: &str, from: usize, found: Range<usize>) -> (usize, usize) {
        let bytes = text.as_bytes();
        let is_base64_at = |at: usize| bytes.get(at).copied().is_some_and(is_base64);
        let before = found.start.checked_sub(1).filter(|at| self.leading_bits && *at >= from && is_base64_at(*at));
        let after = (self.trailing_bits && is_base64_at(found.end)).then_some(found.end + 1);
        (before.unwrap_or(found.start), after.unwrap_or(found.end))
    }
}

/// Every encoding of a value, or of its parts if it is long. `replacement` replaces them.
pub(super) fn encode_value(value: &str, replacement: &Arc<str>) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> =
        split_value(value.trim()).into_iter().flat_map(|part| encode_part(part, replacement)).collect();
    patterns.retain(|pattern| pattern.text.len() >= MIN_REDACTED_BYTES);
    patterns
}

/// The parts of a value that are searched for by themselves. Text that arrives in pieces is held back for the length of the
/// longest pattern, so long values are split.
fn split_value(value: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = value;
    while rest.len() >= PART_BYTES * 3 / 2 {
        let (part, left) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        parts.push(part);
        rest = left;
    }
    parts.push(rest);
    parts
}

fn encode_part(value: &str, replacement: &Arc<str>) -> Vec<Pattern> {
    let whole =
        |text: String| Pattern { text, replacement: replacement.clone(), leading_bits: false, trailing_bits: false };
    // Most encodings of most values are the same.
    let texts: BTreeSet<String> = encode_text(value).into_iter().collect();
    let mut patterns: Vec<Pattern> = texts.into_iter().map(whole).collect();
    for alphabet in [STANDARD_BASE64, URL_BASE64] {
        for bytes_before in 0..3 {
            patterns.push(encode_base64(value.as_bytes(), bytes_before, alphabet, replacement));
        }
    }
    patterns
}

fn encode_text(value: &str) -> Vec<String> {
    let mut texts: Vec<String> = SecretEncoding::ALL.into_iter().map(|encoding| encoding.encode_value(value)).collect();
    texts.push(utf8_percent_encode(value, URI_ESCAPES).to_string());
    texts.push(utf8_percent_encode(value, PATH_ESCAPES).to_string());
    // Python encodes forms like URLs, but for the blanks.
    texts.push(SecretEncoding::Url.encode_value(value).replace("%20", "+"));
    texts.extend(texts.iter().map(|text| lower_escapes(text)).collect::<Vec<_>>());
    texts.extend(encode_json(value));
    texts.extend(HTML_QUOTES.map(|(double, single)| escape_html(value, double, single)));
    let hex = |upper: bool| {
        value.bytes().fold(String::new(), |mut out, byte| {
            // Writing to a string cannot fail.
            let _ = if upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
            out
        })
    };
    texts.extend([hex(false), hex(true)]);
    // Names of hosts and headers are written in lower case. A secret that is a word would hide the word everywhere.
    let is_word = value.chars().all(|c| c.is_alphabetic() || c == '_' || c == '-');
    texts.extend((!is_word).then(|| value.to_ascii_lowercase()));
    texts
}

/// The double and the single quote as libraries write them in HTML: some escape neither, or only the double one.
const HTML_QUOTES: [(&str, &str); 6] =
    [("\"", "'"), ("&quot;", "'"), ("&quot;", "&#39;"), ("&quot;", "&#039;"), ("&quot;", "&#x27;"), ("&#34;", "&#39;")];

/// The text as HTML, with these escapes of quotes.
fn escape_html(value: &str, double: &str, single: &str) -> String {
    let text = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', double).replace('\'', single)
}

/// The inside of a JSON string as libraries escape it, beyond what is necessary: slashes (PHP), what means something in HTML
/// (Go), and characters outside ASCII (PHP, Python).
fn encode_json(value: &str) -> Vec<String> {
    let json = SecretEncoding::Json.encode_value(value);
    let go =
        ['&', '<', '>'].iter().fold(json.clone(), |text, c| text.replace(*c, &format!("\\u{:04x}", u32::from(*c))));
    let slashes = json.replace('/', "\\/");
    let escaped =
        [&json, &slashes].into_iter().flat_map(|text| [false, true].map(|upper| escape_non_ascii(text, upper)));
    escaped.chain([go, slashes.clone()]).collect()
}

/// The text with the digits of its percent escapes in lower case.
fn lower_escapes(text: &str) -> String {
    let mut digits = 0;
    let lower = |c: char| {
        let is_digit = digits > 0;
        digits = if c == '%' { 2 } else { u8::saturating_sub(digits, 1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    };
    text.chars().map(lower).collect()
}

/// The inside of a JSON string with `\u` escapes in the place of characters outside ASCII.
fn escape_non_ascii(json: &str, upper: bool) -> String {
    let mut out = String::new();
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
        }
    }
    out
}

/// The Base64 characters that `value` determines if `bytes_before` bytes of its group of three come before it.
fn encode_base64(value: &[u8], bytes_before: usize, alphabet: &[u8; 64], replacement: &Arc<str>) -> Pattern {
    let (bits_before, bits) = (bytes_before * 8, (bytes_before + value.len()) * 8);
    let bit = |at: usize| (value[(at - bits_before) / 8] >> (7 - at % 8)) & 1;
    let character = |index: usize| {
        let sextet = (index * 6..index * 6 + 6).fold(0, |sextet, at| (sextet << 1) | bit(at));
        char::from(alphabet[usize::from(sextet)])
    };
    Pattern {
        text: (bits_before.div_ceil(6)..bits / 6).map(character).collect(),
        replacement: replacement.clone(),
        leading_bits: bytes_before > 0,
        trailing_bits: !bits.is_multiple_of(6),
    }
}
