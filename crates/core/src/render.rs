//! Rendering of values as text: JSON with source numbers, JavaScript's rules, and Python's rules.

use crate::value::{Map, Number, Value};

/// A format's rule for converting an inserted value to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    /// Strings unchanged; everything else as compact JSON with source numbers.
    Json,
    /// As JavaScript's `String()` and `JSON.stringify`: numbers as [`to_js_number`], integer-like keys first.
    JavaScript,
    /// As Python's `str()`.
    Python,
    /// Strings unchanged; everything else as Python's `json.dumps()`.
    PythonJson,
}

/// The value as text under `style`. Strings are never quoted at the top level.
pub fn render_text(value: &Value, style: TextStyle) -> String {
    match (value, style) {
        (Value::String(text), _) => text.to_string(),
        (_, TextStyle::Json) => to_json(value),
        (_, TextStyle::JavaScript) => to_js_json(value),
        (Value::Null, TextStyle::Python) => String::new(),
        (_, TextStyle::Python) => to_python_str(value),
        (_, TextStyle::PythonJson) => to_python_json(value),
    }
}

/// The first `max_chars` characters of a text, with an ellipsis if it has more.
pub fn shorten_text(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Compact JSON with source numbers.
pub fn to_json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, false, &mut out);
    out
}

/// The result of `JSON.stringify` after `JSON.parse`, with numbers as [`to_js_number`].
pub fn to_js_json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, true, &mut out);
    out
}

/// `JSON.stringify(value, null, 2)`.
pub fn to_js_json_pretty(value: &Value) -> String {
    serde_json::to_string_pretty(&to_js_value(value)).unwrap_or_default()
}

/// The value as JavaScript holds it: numbers as [`to_js_number`], integer-like keys first. Used where the result of a
/// format is a JavaScript value.
pub fn to_js_value(value: &Value) -> Value {
    convert_to_js(value).unwrap_or_else(|| value.clone())
}

/// The same, or `None` if nothing changes. Most values do not change, so they are shared and not copied.
fn convert_to_js(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) => {
            // The text of an integer does not change.
            if number.as_i64().is_some() {
                return None;
            }
            let text = to_js_number(number);
            (text != number.to_text()).then(|| Number::parse(&text).map_or(Value::Null, Value::Number))
        }
        Value::List(items) => {
            let mut new: Option<Vec<Value>> = None;
            for (at, item) in items.iter().enumerate() {
                if let Some(item) = convert_to_js(item) {
                    new.get_or_insert_with(|| items.to_vec())[at] = item;
                }
            }
            new.map(Value::list)
        }
        Value::Map(map) => {
            let ordered =
                || sort_js_entries(map).into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let mut new: Option<Map> = map.keys().any(|key| parse_js_index(key).is_some()).then(ordered);
            for at in 0..map.len() {
                if let Some(value) = convert_to_js(&new.as_ref().unwrap_or(map)[at]) {
                    new.get_or_insert_with(|| Map::clone(map))[at] = value;
                }
            }
            new.map(Value::from)
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Blob(_) => None,
    }
}

fn write_json(value: &Value, js: bool, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        // The text of an integer is the same in both.
        Value::Number(number) if js && number.as_i64().is_none() => out.push_str(&to_js_number(number)),
        Value::Number(number) => number.read_text(|text| out.push_str(text)),
        Value::String(text) => write_string(text, out),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, js, out);
            }
            out.push(']');
        }
        Value::Map(map) => {
            let entries = if js { sort_js_entries(map) } else { map.iter().collect() };
            write_entries(&entries, js, out);
        }
        Value::Blob(blob) => {
            let fields =
                [("{\"$file\":{\"name\":", &*blob.name), (",\"mime\":", &blob.mime), (",\"base64\":", &blob.data)];
            for (key, text) in fields {
                out.push_str(key);
                write_string(text, out);
            }
            out.push_str("}}");
        }
    }
}

type MapEntry<'a> = (&'a std::sync::Arc<str>, &'a Value);

fn write_entries(entries: &[MapEntry<'_>], js: bool, out: &mut String) {
    out.push('{');
    for (i, (key, value)) in entries.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        write_json(value, js, out);
    }
    out.push('}');
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    write_escaped(text, out);
    out.push('"');
}

/// The text as it is written between the quotes of a JSON string.
pub fn escape_json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    write_escaped(text, &mut out);
    out
}

fn write_escaped(text: &str, out: &mut String) {
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        if escape.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
}

/// ECMAScript's order of own keys: array indexes ascending, then the rest as inserted.
fn sort_js_entries(map: &Map) -> Vec<MapEntry<'_>> {
    let mut entries: Vec<_> = map.iter().collect();
    if entries.iter().any(|(key, _)| parse_js_index(key).is_some()) {
        entries.sort_by_key(|(key, _)| parse_js_index(key).map_or((1, 0), |i| (0, i)));
    }
    entries
}

/// The array index that JavaScript takes the key for, if any.
fn parse_js_index(key: &str) -> Option<u32> {
    if !key.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    key.parse::<u32>().ok().filter(|i| *i != u32::MAX && i.to_string() == key)
}

/// The number as JavaScript writes it (`1.0` becomes `1`), or as it is written in its source if JavaScript would change
/// its value, or an integer to an exponent: ids of 64 bits, and numbers beyond the range of a double.
pub fn to_js_number(number: &Number) -> String {
    if let Some(int) = number.as_i64() {
        return int.to_string();
    }
    let source = number.to_text();
    // An integer never becomes an exponent.
    if number.as_f64() != 0.0 && source.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return source;
    }
    let text = format_js_number(number.as_f64());
    if is_same_number(&text, &source) { text } else { source }
}

/// Whether two decimal texts denote the same number.
pub(crate) fn is_same_number(one: &str, other: &str) -> bool {
    let decimals = (parse_decimal(one), parse_decimal(other));
    one == other || decimals.0.is_some() && decimals.0 == decimals.1
}

/// Whether the number is negative, its digits without zeros at either end, and the power of ten of the last of them.
/// `None` if the text is not a number, or its exponent does not fit into 64 bits.
fn parse_decimal(text: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_end_matches('0');
    let power = exponent.checked_sub(fraction.len() as i64)?.checked_add((digits.len() - significant.len()) as i64)?;
    Some(match significant.trim_start_matches('0') {
        "" => (false, String::new(), 0),
        significant => (whole.starts_with('-'), significant.to_owned(), power),
    })
}

/// ECMAScript `Number::toString`: shortest digits, exponent from 1e21 up and below 1e-6.
pub fn format_js_number(value: f64) -> String {
    // Integers need no search for their shortest digits, and -0 is written 0.
    if value.fract() == 0.0 && value.abs() < (1u64 << 53) as f64 {
        return (value as i64).to_string();
    }
    if !value.is_finite() {
        // JSON.stringify writes non-finite numbers as null.
        return "null".into();
    }
    let (digits, exponent) = shortest_digits(value);
    let sign = if value < 0.0 { "-" } else { "" };
    if (-6..21).contains(&exponent) {
        return format!("{sign}{}", format_plain(&digits, exponent));
    }
    format!("{sign}{}e{}{}", format_mantissa(&digits), if exponent < 0 { "-" } else { "+" }, exponent.abs())
}

/// Python's `repr(float)`: exponent from 1e16 up and below 1e-4; always a point or an exponent.
fn format_python_float(value: f64) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0.0".into() } else { "0.0".into() };
    }
    let (digits, exponent) = shortest_digits(value);
    let sign = if value < 0.0 { "-" } else { "" };
    if (-4..16).contains(&exponent) {
        let text = format_plain(&digits, exponent);
        let point = if text.contains('.') { "" } else { ".0" };
        return format!("{sign}{text}{point}");
    }
    format!("{sign}{}e{}{:02}", format_mantissa(&digits), if exponent < 0 { "-" } else { "+" }, exponent.abs())
}

/// The number as a Python float.
pub fn to_python_float(number: &Number) -> Value {
    let float = Number::parse(&format_python_float(number.as_f64()));
    float.map_or_else(|| Value::Number(number.clone()), Value::Number)
}

/// The shortest digits that parse to `value`, and the decimal exponent of the first digit.
fn shortest_digits(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn format_mantissa(digits: &str) -> String {
    let (first, rest) = digits.split_at(1);
    if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") }
}

fn format_plain(digits: &str, exponent: i32) -> String {
    let count = digits.len() as i32;
    if exponent < 0 {
        format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize))
    } else if exponent + 1 >= count {
        format!("{digits}{}", "0".repeat((exponent + 1 - count) as usize))
    } else {
        let (whole, fraction) = digits.split_at((exponent + 1) as usize);
        format!("{whole}.{fraction}")
    }
}

/// Python's `json.dumps(value)`: spaces after commas and colons, ASCII only, floats in Python's notation.
pub fn to_python_json(value: &Value) -> String {
    match value {
        Value::Number(number) => format_python_number(number),
        Value::String(text) => escape_non_ascii(&to_json(&text.as_ref().into())),
        Value::List(items) => format!("[{}]", items.iter().map(to_python_json).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entry = |(key, value): (&std::sync::Arc<str>, &Value)| {
                format!("{}: {}", escape_non_ascii(&to_json(&key.as_ref().into())), to_python_json(value))
            };
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Blob(_) => to_json(value),
    }
}

/// JSON text with `\\u` escapes for everything outside ASCII.
fn escape_non_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// The number as Python writes it, or as it is written in its source if a float would change its value.
fn format_python_number(number: &Number) -> String {
    let source = number.to_text();
    if !source.contains(['.', 'e', 'E']) || !number.as_f64().is_finite() {
        return source;
    }
    let text = format_python_float(number.as_f64());
    if is_same_number(&text, &source) { text } else { source }
}

fn to_python_str(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) => format_python_number(number),
        Value::String(text) => quote_python_string(text),
        Value::List(items) => format!("[{}]", items.iter().map(to_python_str).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries: Vec<_> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", quote_python_string(key), to_python_str(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Blob(blob) => format!("<file {}>", blob.name),
    }
}

/// Python's `repr(str)`: single quotes unless the text has some and no double ones.
fn quote_python_string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if !is_printable(c) => out.push_str(&match c as u32 {
                code @ 0..0x100 => format!("\\x{code:02x}"),
                code @ 0x100..0x10000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Python's `str.isprintable`: everything except control, format, private-use and unassigned characters and separators
/// other than the space. The table lists only those that occur in practice.
fn is_printable(c: char) -> bool {
    !matches!(c as u32,
        0..0x20 | 0x7f..=0xa0 | 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x1680 | 0x180e | 0x2000..=0x200f
        | 0x2028..=0x202f | 0x205f..=0x206f | 0x3000 | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb | 0xfffe | 0xffff
        | 0xe0000..=0xe0fff | 0xf0000..=0x10_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_value;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shorten_text("ééé", 2), "éé…");
        assert_eq!(shorten_text("éé", 2), "éé");
    }

    #[test]
    fn javascript_numbers() {
        let cases = [
            ("1.0", "1"),
            ("9007199254740993", "9007199254740993"),
            ("12345678901234567890", "12345678901234567890"),
            ("1152921504606846976", "1152921504606846976"),
            ("12345678901234567000.0", "12345678901234567000"),
            ("0.1000000000000000055", "0.1000000000000000055"),
            ("-1E400", "-1E400"),
            ("1e-400", "1e-400"),
            ("1e99999999999", "1e99999999999"),
            ("0.0e-7", "0"),
            ("1e21", "1e+21"),
            ("100000000000000000000000", "100000000000000000000000"),
            ("-0", "0"),
            ("1e-7", "1e-7"),
            ("0.000001", "0.000001"),
            ("2.50", "2.5"),
            ("123.456", "123.456"),
            ("-1.5e300", "-1.5e+300"),
            ("100", "100"),
        ];
        for (from, to) in cases {
            let value = parse_value(from).expect("number");
            assert_eq!(to_js_json(&value), to, "{from}");
            assert_eq!(to_json(&to_js_value(&Value::list(vec![value]))), format!("[{to}]"), "{from}");
        }
    }

    #[test]
    fn python_numbers_keep_their_value() {
        for text in ["12345678901234567890", "1e400", "-1E400", "0.1000000000000000055", "1e-400"] {
            assert_eq!(to_python_json(&parse_value(text).expect("number")), text);
        }
    }

    #[test]
    fn javascript_key_order() {
        let value = parse_value(r#"{"b":1,"10":2,"a":3,"2":4,"01":5}"#).expect("valid");
        assert_eq!(to_js_json(&value), r#"{"2":4,"10":2,"b":1,"a":3,"01":5}"#);
    }

    #[test]
    fn python_text() {
        let value = parse_value(r#"{"k":[1,2.0,true,null,"it's",1e16]}"#).expect("valid");
        assert_eq!(render_text(&value, TextStyle::Python), r#"{'k': [1, 2.0, True, None, "it's", 1e+16]}"#);
        let value = parse_value("{\"k\":[\"\u{e9}\u{1f600}\",null,1.0,1e3]}").expect("valid");
        let dumped = r#"{"k": ["\u00e9\ud83d\ude00", null, 1.0, 1000.0]}"#;
        assert_eq!(render_text(&value, TextStyle::PythonJson), dumped);
        let odd = Value::list(vec!["a\u{200b}\u{a0}\u{2028}\u{e9}".into()]);
        assert_eq!(render_text(&odd, TextStyle::Python), "['a\\u200b\\xa0\\u2028\u{e9}']");
    }
}
