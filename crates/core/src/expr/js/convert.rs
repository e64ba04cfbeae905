//! JavaScript's conversions of values to numbers, texts and Booleans, and its comparisons.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::render::{format_js_number, to_js_json, to_js_number};
use crate::value::Value;

/// An intermediate value: a [`Value`], or a value that [`Value`] cannot represent.
pub(super) enum Datum {
    Undefined,
    /// A number, possibly not finite.
    Number(f64),
    Value(Value),
}

impl Datum {
    pub(super) fn from_value(value: Value) -> Datum {
        Datum::Value(value)
    }

    /// The value as an item of a list or a field of an object: `undefined` and non-finite numbers become `null`.
    pub(super) fn into_value(self) -> Value {
        match self {
            Datum::Undefined => Value::Null,
            Datum::Number(number) => crate::value::Number::from_f64(number).map_or(Value::Null, Value::Number),
            Datum::Value(value) => value,
        }
    }

    pub(super) fn is_truthy(&self) -> bool {
        match self {
            Datum::Undefined => false,
            Datum::Number(number) => *number != 0.0 && !number.is_nan(),
            Datum::Value(value) => value.is_truthy(),
        }
    }

    pub(super) fn is_nullish(&self) -> bool {
        matches!(self, Datum::Undefined | Datum::Value(Value::Null))
    }

    fn is_object(&self) -> bool {
        matches!(self, Datum::Value(Value::List(_) | Value::Map(_) | Value::Blob(_)))
    }

    /// Whether `+` concatenates it as text.
    pub(super) fn is_textual(&self) -> bool {
        self.is_object() || matches!(self, Datum::Value(Value::String(_)))
    }

    fn as_number(&self) -> Option<f64> {
        match self {
            Datum::Number(number) => Some(*number),
            Datum::Value(Value::Number(number)) => Some(number.as_f64()),
            _ => None,
        }
    }

    /// The result of `typeof`.
    pub(super) fn type_of(&self) -> &'static str {
        match self {
            Datum::Undefined => "undefined",
            Datum::Number(_) | Datum::Value(Value::Number(_)) => "number",
            Datum::Value(Value::Bool(_)) => "boolean",
            Datum::Value(Value::String(_)) => "string",
            Datum::Value(Value::Null | Value::List(_) | Value::Map(_) | Value::Blob(_)) => "object",
        }
    }
}

/// `String(value)`.
pub(super) fn to_text(operand: &Datum) -> String {
    match operand {
        Datum::Undefined => "undefined".into(),
        Datum::Number(number) => format_number(*number),
        Datum::Value(value) => format_value(value),
    }
}

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Number(number) => to_js_number(number),
        Value::List(items) => {
            let item = |item: &Value| if matches!(item, Value::Null) { String::new() } else { format_value(item) };
            items.iter().map(item).collect::<Vec<_>>().join(",")
        }
        Value::Map(_) => "[object Object]".into(),
        Value::Blob(_) => "[object File]".into(),
        Value::Null | Value::Bool(_) => to_js_json(value),
    }
}

/// `String(number)`.
pub(super) fn format_number(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    format_js_number(number)
}

/// The name of a property.
pub(super) fn to_property_key(operand: &Datum) -> String {
    to_text(operand)
}

/// `Number(value)`.
pub(super) fn to_number(operand: &Datum) -> f64 {
    match operand {
        Datum::Undefined => f64::NAN,
        Datum::Number(number) => *number,
        Datum::Value(Value::Null) => 0.0,
        Datum::Value(Value::Bool(value)) => f64::from(u8::from(*value)),
        Datum::Value(Value::Number(number)) => number.as_f64(),
        Datum::Value(Value::String(text)) => parse_number(text),
        Datum::Value(value) => parse_number(&format_value(value)),
    }
}

fn parse_number(text: &str) -> f64 {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let radix = |digits: &str, radix: u32| {
        let digits: Option<Vec<u32>> = digits.chars().map(|c| c.to_digit(radix)).collect();
        match digits {
            Some(digits) if !digits.is_empty() => {
                digits.into_iter().fold(0.0, |number, digit| number * f64::from(radix) + f64::from(digit))
            }
            _ => f64::NAN,
        }
    };
    match text.as_bytes() {
        [] => return 0.0,
        [b'0', b'x' | b'X', ..] => return radix(&text[2..], 16),
        [b'0', b'o' | b'O', ..] => return radix(&text[2..], 8),
        [b'0', b'b' | b'B', ..] => return radix(&text[2..], 2),
        _ => {}
    }
    match text.strip_prefix(['+', '-']).unwrap_or(text) {
        "Infinity" if text.starts_with('-') => f64::NEG_INFINITY,
        "Infinity" => f64::INFINITY,
        // Rust parses names of special numbers that JavaScript does not know.
        plain if plain.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-')) => {
            text.parse().unwrap_or(f64::NAN)
        }
        _ => f64::NAN,
    }
}

/// The 32-bit integer that bit operators use.
pub(super) fn to_int32(number: f64) -> i32 {
    if !number.is_finite() {
        return 0;
    }
    let wrapped = number.trunc().rem_euclid(4_294_967_296.0);
    wrapped as u32 as i32
}

/// `base ** exponent`.
pub(super) fn raise_to_power(base: f64, exponent: f64) -> f64 {
    if exponent.is_nan() || (base.abs() == 1.0 && exponent.is_infinite()) {
        return f64::NAN;
    }
    base.powf(exponent)
}

/// `===`: objects are equal only if they are identical.
pub(super) fn strictly_equal(left: &Datum, right: &Datum) -> bool {
    if let (Some(left), Some(right)) = (left.as_number(), right.as_number()) {
        return left == right;
    }
    match (left, right) {
        (Datum::Undefined, Datum::Undefined) => true,
        (Datum::Value(left), Datum::Value(right)) => match (left, right) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::String(left), Value::String(right)) => left == right,
            (Value::List(left), Value::List(right)) => Arc::ptr_eq(left, right),
            (Value::Map(left), Value::Map(right)) => Arc::ptr_eq(left, right),
            (Value::Blob(left), Value::Blob(right)) => Arc::ptr_eq(left, right),
            _ => false,
        },
        _ => false,
    }
}

/// `==`.
pub(super) fn loosely_equal(left: &Datum, right: &Datum) -> bool {
    if left.is_nullish() || right.is_nullish() {
        return left.is_nullish() && right.is_nullish();
    }
    if left.type_of() == right.type_of() {
        return strictly_equal(left, right);
    }
    match (left.is_object(), right.is_object()) {
        (true, false) => loosely_equal(&Datum::Value(to_text(left).into()), right),
        (false, true) => loosely_equal(left, &Datum::Value(to_text(right).into())),
        _ => to_number(left) == to_number(right),
    }
}

/// The order of two values; `None` if there is none (`NaN`).
pub(super) fn compare_values(left: &Datum, right: &Datum) -> Option<Ordering> {
    if left.is_textual() && right.is_textual() {
        let (left, right) = (to_text(left), to_text(right));
        return Some(left.encode_utf16().cmp(right.encode_utf16()));
    }
    to_number(left).partial_cmp(&to_number(right))
}
