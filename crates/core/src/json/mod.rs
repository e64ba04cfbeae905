//! JSON: a parser that preserves positions and exact numbers, a compact writer, and the repair of almost-JSON text.

mod error;
mod lenient;
mod mistake;
mod parse;
mod repair;

use std::sync::Arc;

pub use error::{Expected, JsonError, JsonErrorKind};
pub use lenient::{read_lenient, read_repaired};
pub use mistake::find_constant;
pub use parse::{Duplicate, Node, NodeKind, parse_literal, parse_misspelt, parse_node};

use crate::diagnostic::Span;
use crate::value::{Map, Value};

/// Maximum nesting depth. Deeper text is an error instead of a stack overflow.
pub const MAX_DEPTH: usize = 128;

/// Parses JSON text. If a key is repeated, its last value wins, as in JavaScript. Fails if the text is not JSON, ends
/// within a value, or is nested more than [`MAX_DEPTH`] levels deep.
///
/// # Examples
///
/// ```
/// use flowloom_core::json::{parse_value, write_json};
///
/// // The order of keys and the digits of numbers are kept.
/// let value = parse_value(r#"{"b": 1.50, "a": true}"#).expect("valid JSON");
/// assert_eq!(write_json(&value), r#"{"b":1.50,"a":true}"#);
/// assert!(parse_value("{b: 1}").is_err());
/// ```
pub fn parse_value(text: &str) -> Result<Value, JsonError> {
    parse::parse_text(text, &mut ValueBuilder)
}

/// The places of escapes that are half of a character, such as `\\ud83d` without `\\ude00`. They are no text, and are read as
/// U+FFFD.
pub fn find_lone_surrogates(text: &str) -> Vec<Span> {
    let unit_at = |at: usize| -> Option<u32> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut lone = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match unit_at(at) {
            Some(0xd800..0xdc00) if unit_at(at + 6).is_some_and(|low| (0xdc00..0xe000).contains(&low)) => at += 12,
            Some(0xd800..0xe000) => {
                lone.push(Span { start: at, length: 6 });
                at += 6;
            }
            Some(_) => at += 6,
            None => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    lone
}

/// The value as compact JSON, with the source text of numbers.
pub fn write_json(value: &Value) -> String {
    crate::render::to_json(value)
}

struct ValueBuilder;

impl parse::Build for ValueBuilder {
    type Out = Value;

    fn build_scalar(&mut self, _span: Span, scalar: parse::Scalar) -> Value {
        match scalar {
            parse::Scalar::Null => Value::Null,
            parse::Scalar::Bool(value) => Value::Bool(value),
            parse::Scalar::Number(number) => Value::Number(number),
            parse::Scalar::String(text) => text.into(),
        }
    }

    fn build_list(&mut self, _span: Span, items: Vec<Value>) -> Value {
        Value::list(items)
    }

    fn build_map(&mut self, _span: Span, entries: Vec<(String, Span, Value)>) -> Value {
        let mut map = Map::with_capacity(entries.len());
        for (key, _, value) in entries {
            map.insert(key.into(), value);
        }
        Value::Map(Arc::new(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_found() {
        let starts = |text: &str| find_lone_surrogates(text).iter().map(|span| span.start).collect::<Vec<_>>();
        assert_eq!(starts(r#"["\ud83d\ude00", "\\ud83d", "\u00e9"]"#), Vec::<usize>::new());
        assert_eq!(starts(r#"["\uDADA", "\udc00\ud83d"]"#), [2, 12, 18]);
        assert_eq!(starts("\\"), Vec::<usize>::new());
    }
}
