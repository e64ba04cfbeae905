//! The JSON parser, and its reading of JavaScript.

use super::super::parse_value;
use super::*;

#[test]
fn numbers_keep_their_text() {
    let value = parse_value("[1.0, -0, 12345678901234567890, 1e21, 7]").expect("valid");
    let texts: Vec<_> = value.as_list().expect("list").iter().map(crate::render::to_json).collect();
    assert_eq!(texts, ["1.0", "-0", "12345678901234567890", "1e21", "7"]);
}

#[test]
fn errors_have_a_place() {
    let error = parse_node("{\n \"a\": 01}").map(|_| ()).expect_err("leading zero");
    assert_eq!((error.span.start, error.span.length), (8, 2));
    let deep = "[".repeat(100_000);
    assert_eq!(parse_node(&deep).map(|_| ()).expect_err("deep").kind, JsonErrorKind::TooDeep);
    assert_eq!(parse_node("{\"a\":").map(|_| ()).expect_err("cut").kind, JsonErrorKind::Truncated);
}

#[test]
fn repeated_keys_are_reported_and_the_last_one_stands() {
    let (node, duplicates) = parse_node(r#"{"a":1,"b":2,"a":3}"#).expect("valid");
    assert_eq!(duplicates.len(), 1);
    assert_eq!(crate::json::write_json(&node.to_value()), r#"{"a":3,"b":2}"#);
}

proptest::proptest! {
    #[test]
    fn agrees_with_serde_json(text in r#"[\[\]{}",:0-9a-z\\. \-]{0,24}"#) {
        let ours = parse_value(&text).map(|value| crate::json::write_json(&value));
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        proptest::prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", text);
    }

    #[test]
    fn strings_survive(text in ".*") {
        let written = crate::json::write_json(&Value::from(text.as_str()));
        proptest::prop_assert_eq!(parse_value(&written).expect("valid"), Value::from(text));
    }
}

#[test]
fn javascript_is_read() {
    let text = "trigger({ a: `two\nlines of \"it\" \\` $5`, 'b': 30_000, c: [1_0.5,], })";
    let (node, _) = parse_literal(text, 8).expect("a literal");
    let expected = r#"{"a":"two\nlines of \"it\" ` $5","b":30000,"c":[10.5]}"#;
    assert_eq!(crate::json::write_json(&node.to_value()), expected);
    for wrong in ["{a: `${x}`}", "{a: 1__0}", "{a: 1_}", "{a: `x}"] {
        assert!(parse_literal(wrong, 0).is_err(), "{wrong}");
    }
    assert!(parse_node("{\"a\": 1_0}").is_err());
    assert!(parse_node("{\"a\": `x`}").is_err());
}
