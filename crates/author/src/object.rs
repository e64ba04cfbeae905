//! JSON objects in the answers of models: found among other words, and repaired.

use flowloom_core::json::{parse_value, read_lenient};
use flowloom_core::value::{Map, Value};
use serde::de::IgnoredAny;

/// Maximum number of opening braces from which parsing an answer is tried.
const MAX_JSON_STARTS: usize = 100;

/// The JSON object in an answer, preferably one with one of `keys`; surrounding text is ignored.
pub(crate) fn find_object(text: &str, keys: &[&str]) -> Option<Map> {
    let has_key = |map: &Map| keys.iter().any(|key| map.contains_key(*key));
    let mut first = None;
    let mut end = 0;
    for (start, _) in text.match_indices('{').take(MAX_JSON_STARTS) {
        if start < end {
            continue;
        }
        let Some(length) = length_of_value(&text[start..]) else { continue };
        end = start + length;
        let Some(map) = parse_value(&text[start..end]).ok().and_then(|value| value.as_map().cloned()) else { continue };
        if has_key(&map) {
            return Some(map);
        }
        first.get_or_insert(map);
    }
    repair_object(text).filter(has_key).or(first)
}

/// The length in bytes of the JSON value at the start of `text`.
fn length_of_value(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// The text from the first brace to the last, parsed leniently: source code often contains raw line breaks.
fn repair_object(text: &str) -> Option<Map> {
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    read_lenient(text.get(start..=end)?)?.as_map().cloned()
}

/// The trimmed text of a field; `None` if it is empty or missing.
pub(crate) fn text_of(map: &Map, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The strings of a list; other items are ignored.
pub(crate) fn texts_of(map: &Map, key: &str) -> Vec<String> {
    let items = map.get(key).and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object_value(text: &str) -> Option<Value> {
        find_object(text, &["a"]).map(Value::from)
    }

    fn parse_json(text: &str) -> Option<Value> {
        parse_value(text).ok()
    }

    #[test]
    fn the_object_with_the_key_is_found_among_words_fences_and_others() {
        assert_eq!(object_value(r#"{"a":1}"#), parse_json(r#"{"a":1}"#));
        assert_eq!(object_value("Sure {not json}.\n```json\n{\"a\": \"}\"}\n```\n"), parse_json(r#"{"a":"}"}"#));
        assert_eq!(object_value(r#"first {"b":{"a":0}}, then {"a":2} {"a":3}"#), parse_json(r#"{"a":2}"#));
        assert_eq!(
            object_value(r#"{"b":1}"#),
            parse_json(r#"{"b":1}"#),
            "without the key there is still something to complain about"
        );
        assert_eq!(object_value("[1] {} and no more"), parse_json("{}"));
        assert_eq!(object_value("I cannot do that"), None);
        assert_eq!(object_value("} {"), None);
    }

    #[test]
    fn raw_line_breaks_within_texts_are_repaired() {
        let reply = "```json\n{\"b\": {\"c\": 1}, \"a\": \"line\nline\"}\n```";
        assert_eq!(object_value(reply).and_then(|found| found.get("a").cloned()), Some("line\nline".into()));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in r#"[{}\[\]":,a1é\\n `\n]{0,60}"#, any in ".{0,200}") {
            for text in [text, any] {
                let _ = find_object(&text, &["a"]);
            }
        }

        #[test]
        fn an_object_among_words_is_found(before in "[a-z .:é]{0,20}", number in 0i64..1000, after in "[a-z .}]{0,20}") {
            let found = find_object(&format!("{before}{{\"a\": {number}}}{after}"), &["a"]);
            proptest::prop_assert_eq!(found.map(Value::from), Some(Value::map([("a", Value::from(number))])));
        }
    }
}
