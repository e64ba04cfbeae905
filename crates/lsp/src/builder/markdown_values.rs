//! The values of attributes: data where they are literals, and code otherwise.

use flowloom_core::json::{parse_literal, parse_value, write_json};
use flowloom_core::value::Value;

/// The key of an object that represents code.
pub(crate) const CODE_KEY: &str = "$code";

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

/// The data that an expression is, if it computes nothing: a literal of JavaScript.
fn read_literal(code: &str) -> Option<Value> {
    // A comment would be lost.
    if code.contains("//") || code.contains("/*") {
        return parse_value(code).ok();
    }
    let (node, duplicates) = parse_literal(code, 0).ok()?;
    let is_whole = code[node.span.end()..].trim().is_empty();
    (is_whole && duplicates.is_empty()).then(|| node.to_value())
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
        assert_eq!(show("{ maxTokens: 1_000, stop: ['a'], }"), r#"{"maxTokens":1000,"stop":["a"]}"#);
        for code in ["{ a: 100-20 }", r#"{ a: "x" + "y" }"#, "{ a: 1, a: 2 }", "{ a: 1 /* one */ }", r#""a" + "b""#] {
            assert_eq!(read_attribute(code, true).get(CODE_KEY), Some(&Value::from(code)));
        }
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
