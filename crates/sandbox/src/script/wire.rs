//! Messages between this process and a worker for expressions.

use std::path::PathBuf;

use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::ExceededLimit;

/// The first frame: limits of an evaluation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ScriptSetup {
    pub(super) timeout_ms: u64,
    pub(super) memory_bytes: usize,
    pub(super) output_bytes: usize,
    pub(super) cgroup: Option<PathBuf>,
}

/// An expression to evaluate, as it is sent.
#[derive(Serialize)]
pub(super) struct SentExpression<'a> {
    pub(super) source: &'a str,
    /// Names with their values; an empty list is `undefined`, which JSON cannot express.
    pub(super) names: Vec<(&'a str, Vec<&'a Value>)>,
    pub(super) now_ms: u64,
    pub(super) seed: u64,
}

/// An expression to evaluate, as it is received: values stay text until the engine parses them.
#[derive(Deserialize)]
pub(super) struct ReceivedExpression<'a> {
    pub(super) source: String,
    #[serde(borrow)]
    pub(super) names: Vec<(String, Vec<&'a RawValue>)>,
    pub(super) now_ms: u64,
    pub(super) seed: u64,
}

/// Result of an expression. It is sent as one byte for the variant, followed by the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptAnswer {
    /// A value, as JSON.
    Value(String),
    /// `undefined`, or something that is not data.
    Undefined,
    /// The expression threw.
    Threw(String),
    /// A limit was exceeded.
    Limit(ExceededLimit),
}

impl ScriptAnswer {
    pub(super) fn to_frame(&self) -> Vec<u8> {
        let limit;
        let (tag, text) = match self {
            ScriptAnswer::Value(text) => (b'v', text.as_str()),
            ScriptAnswer::Undefined => (b'n', ""),
            ScriptAnswer::Threw(text) => (b't', text.as_str()),
            ScriptAnswer::Limit(exceeded) => {
                limit = serde_json::to_string(exceeded).unwrap_or_default();
                (b'l', limit.as_str())
            }
        };
        let mut out = Vec::with_capacity(1 + text.len());
        out.push(tag);
        out.extend_from_slice(text.as_bytes());
        out
    }

    pub(super) fn from_frame(frame: Vec<u8>) -> Option<ScriptAnswer> {
        let mut text = String::from_utf8(frame).ok()?;
        if text.is_empty() || !text.is_char_boundary(1) {
            return None;
        }
        let rest = text.split_off(1);
        match text.as_str() {
            "v" => Some(ScriptAnswer::Value(rest)),
            "n" => Some(ScriptAnswer::Undefined),
            "t" => Some(ScriptAnswer::Threw(rest)),
            "l" => serde_json::from_str(&rest).ok().map(ScriptAnswer::Limit),
            _ => None,
        }
    }
}
