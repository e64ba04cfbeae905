//! JSON: a parser that preserves positions and exact numbers, a compact writer, and the repair of almost-JSON text.

mod parse;
mod repair;

use std::sync::Arc;

pub use parse::{Duplicate, JsonError, JsonErrorKind, Node, NodeKind, parse_literal, parse_node};
pub use repair::read_lenient;

use crate::diagnostic::Span;
use crate::value::{Map, Value};

/// Maximum nesting depth. Deeper text is an error instead of a stack overflow.
pub const MAX_DEPTH: usize = 128;

/// Parses JSON text. If a key is repeated, its last value wins, as in JavaScript.
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
