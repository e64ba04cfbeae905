//! What goes between the process and a worker for expressions.

use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The first frame: how much an evaluation may use.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) timeout_ms: u64,
    pub(super) memory_bytes: usize,
    pub(super) output_bytes: usize,
}

/// A question as it is written.
#[derive(Serialize)]
pub(super) struct Ask<'a> {
    pub(super) source: &'a str,
    /// Names with their values; no value is `undefined`, which JSON has no word for.
    pub(super) names: Vec<(&'a str, Vec<&'a Value>)>,
    pub(super) now_ms: u64,
    pub(super) seed: u64,
}

/// A question as it is read: values stay text until the engine reads them.
#[derive(Deserialize)]
pub(super) struct Asked<'a> {
    pub(super) source: String,
    #[serde(borrow)]
    pub(super) names: Vec<(String, Vec<&'a RawValue>)>,
    pub(super) now_ms: u64,
    pub(super) seed: u64,
}

/// What came of an expression. On the wire: one byte that says which, and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A value, as JSON.
    Value(String),
    /// `undefined`, or something that is no data.
    Nothing,
    /// The expression threw.
    Threw(String),
    /// It reached a bound, which the text names.
    Limit(String),
}

impl Answer {
    pub(super) fn write(&self) -> Vec<u8> {
        let (tag, text) = match self {
            Answer::Value(text) => (b'v', text.as_str()),
            Answer::Nothing => (b'n', ""),
            Answer::Threw(text) => (b't', text.as_str()),
            Answer::Limit(text) => (b'l', text.as_str()),
        };
        let mut out = Vec::with_capacity(1 + text.len());
        out.push(tag);
        out.extend_from_slice(text.as_bytes());
        out
    }

    pub(super) fn read(frame: Vec<u8>) -> Option<Answer> {
        let mut text = String::from_utf8(frame).ok()?;
        if text.is_empty() || !text.is_char_boundary(1) {
            return None;
        }
        let rest = text.split_off(1);
        match text.as_str() {
            "v" => Some(Answer::Value(rest)),
            "n" => Some(Answer::Nothing),
            "t" => Some(Answer::Threw(rest)),
            "l" => Some(Answer::Limit(rest)),
            _ => None,
        }
    }
}
