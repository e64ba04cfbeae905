//! Converts values by the input schema of a block, and checks whether a value in a definition can match it.

use crate::render;
use crate::value::{Number, Value};

/// A double holds every integer below this exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Maximum number of allowed values that a message shows.
const MAX_SHOWN_VALUES: usize = 8;

/// The value as its schema wants it: a text that holds a number becomes one, and lists and objects become text where text is
/// wanted.
pub fn coerce_value(value: &Value, property: &Value) -> Value {
    match (find_single_type(property), value) {
        ("number", Value::String(text)) => match parse_python_number(text) {
            Some(number) => render::to_python_float(&number),
            None => value.clone(),
        },
        ("integer", Value::String(text)) => match parse_python_number(text).and_then(|number| to_integer(&number)) {
            Some(number) => Value::Number(number),
            None => value.clone(),
        },
        ("boolean", Value::String(text)) => match text.trim() {
            "true" | "True" => true.into(),
            "false" | "False" => false.into(),
            _ => value.clone(),
        },
        ("string", Value::List(_) | Value::Map(_)) => render::to_python_json(value).into(),
        ("string", Value::Number(number)) => number.to_text().into(),
        _ => value.clone(),
    }
}

/// The type that a schema wants besides null; empty if it names none or several.
fn find_single_type(property: &Value) -> &str {
    match property.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::List(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.next().filter(|_| kinds.next().is_none()).unwrap_or_default()
        }
        _ => "",
    }
}

/// A number as Python's `float` reads it: with a sign, leading zeros, underscores between digits, or nothing before or after
/// the point. Not `nan` or `inf`, which are no JSON.
fn parse_python_number(text: &str) -> Option<Number> {
    let text = text.trim();
    let is_digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let mut underscores = text.match_indices('_').map(|(at, _)| at);
    if !underscores.all(|at| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))) {
        return None;
    }
    let plain = text.replace('_', "");
    let (sign, rest) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let end = rest.find(['e', 'E']).unwrap_or(rest.len());
    let (mantissa, exponent) = rest.split_at(end);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Number::parse(&format!("{sign}{whole}{point}{fraction}{exponent}")).filter(|_| has_digits)
}

/// The number without a fraction; `None` if it has one.
fn to_integer(number: &Number) -> Option<Number> {
    let text = number.to_text();
    if text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(number.clone());
    }
    let value = number.as_f64();
    (value.fract() == 0.0 && value.abs() < MAX_EXACT_INTEGER).then(|| Number::from(value as i64))
}

/// The kind of value that a schema wants instead of one that is written in a definition; `None` if the value may fit. Only
/// the keywords `type` and `enum` are looked at.
pub fn describe_wanted(value: &Value, property: &Value) -> Option<String> {
    let value = coerce_value(value, property);
    let kinds: Vec<&str> = match property.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::List(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_of_type(&value, kind)) {
        let named: Vec<&str> = kinds.iter().map(|kind| describe_type(kind)).collect();
        return Some(named.join(" or "));
    }
    let allowed = property.get("enum").and_then(Value::as_list).filter(|allowed| !allowed.contains(&value))?;
    let shown: Vec<String> = allowed.iter().take(MAX_SHOWN_VALUES).map(render::to_json).collect();
    let more = if allowed.len() > MAX_SHOWN_VALUES { ", …" } else { "" };
    Some(format!("one of {}{more}", shown.join(", ")))
}

/// The words for a type of JSON Schema.
fn describe_type(kind: &str) -> &str {
    match kind {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "text",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

/// Whether a value has a type of JSON Schema. An unknown type fits everything.
fn is_of_type(value: &Value, kind: &str) -> bool {
    match (kind, value) {
        ("integer", value) => matches!(value, Value::Number(number) if to_integer(number).is_some()),
        ("number", value) => matches!(value, Value::Number(_)),
        ("string", value) => value.as_str().is_some(),
        ("boolean", value) => value.as_bool().is_some(),
        ("array", value) => value.as_list().is_some(),
        ("object", value) => value.as_map().is_some(),
        ("null", value) => *value == Value::Null,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_value;

    #[test]
    fn a_written_value_that_cannot_fit_is_described() {
        let wanted = |value: &str, property: &str| {
            let read = |text| parse_value(text).expect("JSON");
            describe_wanted(&read(value), &read(property))
        };
        for (value, property, expected) in [
            (r#""abc""#, r#"{"type": "integer"}"#, Some("a whole number")),
            (r#""12""#, r#"{"type": "integer"}"#, None),
            ("1.5", r#"{"type": "integer"}"#, Some("a whole number")),
            ("1.0", r#"{"type": "integer"}"#, None),
            ("7", r#"{"type": ["array", "string"]}"#, Some("a list or text")),
            ("[7]", r#"{"type": "string"}"#, None),
            (r#""c""#, r#"{"enum": ["a", "b"]}"#, Some(r#"one of "a", "b""#)),
            (r#""a""#, r#"{"type": "string", "enum": ["a", "b"]}"#, None),
            (r#""x""#, r#"{"minLength": 5}"#, None),
        ] {
            assert_eq!(wanted(value, property).as_deref(), expected, "{value} {property}");
        }
    }

    #[test]
    fn texts_become_the_numbers_that_python_reads() {
        let coerce = |kind: &str, text: &str| coerce_value(&text.into(), &Value::map([("type", kind.into())]));
        let integers = [("4.0", "4"), ("1e2", "100"), ("007", "7"), ("+3", "3"), ("-0", "-0"), (" 1_000 ", "1000")];
        for (text, expected) in integers {
            assert_eq!(render::to_json(&coerce("integer", text)), expected, "{text}");
        }
        for (text, expected) in [(".5", "0.5"), ("5.", "5.0"), ("1_000", "1000.0"), ("-1E-2", "-0.01"), ("12", "12.0")]
        {
            assert_eq!(render::to_json(&coerce("number", text)), expected, "{text}");
        }
        for text in ["", ".", "1.5", "_1", "1_", "1__0", "0x10", "nan", "1e", "--1", "1 2", "é"] {
            assert_eq!(coerce("integer", text), text.into(), "{text}");
        }
    }
}
