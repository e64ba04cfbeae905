//! The values of attributes: data where they are literals, and code otherwise.

use flowloom_core::json::{parse_value, read_lenient, write_json};
use flowloom_core::value::Value;

/// The key of an object that represents code.
pub(crate) const CODE_KEY: &str = "$code";

/// Length of the longest expression that is looked at as data, in bytes: the search for keys reads it once for each word.
const MAX_LITERAL_BYTES: usize = 4096;

/// The value of an attribute.
pub(super) fn read_attribute(written: &str, is_expression: bool) -> Value {
    if !is_expression {
        return Value::from(written);
    }
    match read_literal(written.trim()) {
        Some(value) => value,
        None => Value::map([(CODE_KEY, Value::from(written))]),
    }
}

/// The data that an expression is, if it computes nothing: JSON, whose keys may be without quotation marks.
fn read_literal(code: &str) -> Option<Value> {
    if let Ok(value) = parse_value(code) {
        return Some(value);
    }
    let is_plain = |c: char| c.is_alphanumeric() || " \t\n\r{}[]:,._-+\"'".contains(c);
    if code.len() > MAX_LITERAL_BYTES
        || !code.starts_with(['{', '['])
        || !code.chars().all(is_plain)
        || code.contains("...")
    {
        return None;
    }
    // A name without quotation marks is a value only if it is a key: anything else would be read as a text.
    let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '"' || c == '\''));
    let mut is_data = true;
    for word in words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_')) {
        let is_constant = matches!(word, "true" | "false" | "null");
        is_data &= is_constant || is_key(code, word);
    }
    let value = read_lenient(code).filter(|_| is_data)?;
    matches!(value, Value::Map(_) | Value::List(_)).then_some(value)
}

/// Whether every place of a word is a key: a colon follows it.
fn is_key(code: &str, word: &str) -> bool {
    code.match_indices(word).all(|(at, _)| {
        let before = code[..at].chars().next_back();
        let is_inside = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"' || c == '\'');
        is_inside || code[at + word.len()..].trim_start().starts_with(':') || is_in_quotes(code, at)
    })
}

/// Whether a byte is inside quotation marks.
fn is_in_quotes(code: &str, at: usize) -> bool {
    let mut open = None;
    for c in code[..at].chars() {
        match open {
            Some(quote) if c == quote => open = None,
            None if c == '"' || c == '\'' => open = Some(c),
            _ => {}
        }
    }
    open.is_some()
}

/// The text of an attribute after its equals sign.
pub(super) fn write_attribute(value: &Value) -> String {
    if let Some(code) = value.get(CODE_KEY).and_then(Value::as_str) {
        return format!("{{{code}}}");
    }
    match value {
        Value::String(text) if !text.contains(['"', '\n', '\\', '{', '&']) => format!("\"{text}\""),
        Value::Map(_) => format!("{{{}}}", write_object(value)),
        other => format!("{{{}}}", write_json(other)),
    }
}

/// An object as JavaScript writes it: keys that are names have no quotation marks.
fn write_object(value: &Value) -> String {
    let Some(map) = value.as_map() else { return write_json(value) };
    let entry = |(key, value): (&std::sync::Arc<str>, &Value)| {
        let is_name = key.chars().all(|c| c.is_alphanumeric() || c == '_')
            && key.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let key = if is_name { key.to_string() } else { write_json(&Value::from(&**key)) };
        format!("{key}: {}", write_object(value))
    };
    let entries: Vec<String> = map.iter().map(entry).collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_data_and_anything_else_is_code() {
        let show = |written: &str| write_json(&read_attribute(written, true));
        assert_eq!(show("{ maxTokens: 60 }"), r#"{"maxTokens":60}"#);
        assert_eq!(show("false"), "false");
        assert_eq!(show(r#"["a", "b"]"#), r#"["a","b"]"#);
        assert_eq!(show("{ text }"), r#"{"$code":"{ text }"}"#);
        assert_eq!(show("{ place: stops[0] }"), r#"{"$code":"{ place: stops[0] }"}"#);
        assert_eq!(show("{ a: b }"), r#"{"$code":"{ a: b }"}"#);
        assert_eq!(show("$.index > 3"), r#"{"$code":"$.index > 3"}"#);
        assert_eq!(show("stops.length"), r#"{"$code":"stops.length"}"#);
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        for (written, is_expression) in [("{ maxTokens: 60 }", true), ("a b", false), ("$.index > 3", true)] {
            let value = read_attribute(written, is_expression);
            let expected = if is_expression { format!("{{{written}}}") } else { format!("\"{written}\"") };
            assert_eq!(write_attribute(&value), expected);
        }
        assert_eq!(write_attribute(&Value::from("say \"hi\"")), r#"{"say \"hi\""}"#);
    }
}
