//! Texts with mistakes, the help for each of them, and the texts after the fixes.

use flowloom_core::diagnostic::apply_fixes;
use flowloom_core::json::{parse_value, write_json};

use super::*;

/// The help for each problem of a text, the text after all fixes, and the tree that is read in spite of the problems.
fn read(text: &str) -> (Vec<String>, String, Option<Node>) {
    let mut problems = Problems::new("a.json");
    let tree = crate::reader::read_json(text, parse_node(text), &mut problems);
    let (found, _) = problems.into_list();
    let fixed = apply_fixes(text, found.iter().filter_map(|problem| problem.fix.as_ref())).0;
    (found.into_iter().filter_map(|problem| problem.help).collect(), fixed, tree)
}

/// The mistakes that can be corrected: a text, the help, and the text that is meant.
const CORRECTED: [(&str, &[&str], &str); 31] = [
    (r#"{"a": 1,,}"#, &["remove this comma", "remove the comma before it"], r#"{"a": 1}"#),
    ("[1,,2]", &["remove this comma"], "[1,2]"),
    ("[,1]", &["remove this comma"], "[1]"),
    (r#"{"a": 1; "b": 2;}"#, &["write a comma instead", "remove this semicolon"], r#"{"a": 1, "b": 2}"#),
    (r#"{"a" = 1, "b" => 2}"#, &["write a colon instead", "write a colon instead"], r#"{"a" : 1, "b" : 2}"#),
    (r#"{"a" {"b" 1}}"#, &["add the colon before it", "add the colon before it"], r#"{"a": {"b": 1}}"#),
    (
        r#"{"name":"x",,"steps":[],"a":1 "b":2}"#,
        &["remove this comma", "add the comma before it"],
        r#"{"name":"x","steps":[],"a":1, "b":2}"#,
    ),
    (r#"{"a":"x""b":[{}{}]}"#, &["add the comma before it", "add the comma before it"], r#"{"a":"x","b":[{},{}]}"#),
    ("{\"a\": \"x\ty\"}", &["write a tab inside a string as \\t"], r#"{"a": "x\ty"}"#),
    (
        "{\"a\": \"x\r\ny\n\tz\", \"b\": True}",
        &["write a line break inside a string as \\n", "did you mean true?"],
        r#"{"a": "x\ny\n\tz", "b": true}"#,
    ),
    (
        "{\"a\": \"x\u{1}\"}",
        &["write a control character inside a string as an escape such as \\u0007"],
        r#"{"a": "x\u0001"}"#,
    ),
    ("{“a”: „x“, \"b\": ‘y’}", &["JSON strings need straight double quotes"; 3], r#"{"a": "x", "b": "y"}"#),
    (r#"{'a': 'say "x"'}"#, &["JSON strings need double quotes"; 2], r#"{"a": "say \"x\""}"#),
    ("{a: 1, my-key: 2}", &["write the key in double quotes"; 2], r#"{"a": 1, "my-key": 2}"#),
    (r#"{a": b"}"#, &["add the double quote before it"; 2], r#"{"a": "b"}"#),
    (r#"["match \d+"]"#, &["write \\\\ for a backslash"], r#"["match \\d+"]"#),
    (r#"["C:\dir\user"]"#, &["write \\\\ for a backslash"; 2], r#"["C:\\dir\\user"]"#),
    (r#"["it\'s"]"#, &["remove the backslash"], r#"["it's"]"#),
    (r#"{"a": None,}"#, &["did you mean null?", "remove the comma before it"], r#"{"a": null}"#),
    ("{\"a\": 1};\n", &["remove it"], "{\"a\": 1}\n"),
    (
        r#"{"a": "say "x" now", "b": [1,]}"#,
        &["write \\\" for a quotation mark inside a string", "remove the comma before it"],
        r#"{"a": "say \"x\" now", "b": [1]}"#,
    ),
    (r#"{"say "x"": 1}"#, &["write \\\" for a quotation mark inside a string"], r#"{"say \"x\"": 1}"#),
    (
        "{\"a\": \"x,\n \"b\": Tru}",
        &["close the string with a double quote, or write a line break inside it as \\n", "did you mean true?"],
        "{\"a\": \"x\",\n \"b\": true}",
    ),
    (
        "{\"a\": \"x\n \"b\": 1}",
        &["close the string with a double quote, or write a line break inside it as \\n", "add the comma before it"],
        "{\"a\": \"x\",\n \"b\": 1}",
    ),
    (
        r#"{"a": hello world, "b": [x,]}"#,
        &[
            "only constants are allowed here: quoted strings, numbers, true, false, null, lists and objects",
            "only constants are allowed here: quoted strings, numbers, true, false, null, lists and objects",
            "remove the comma before it",
        ],
        r#"{"a": "hello world", "b": ["x"]}"#,
    ),
    ("[1 2]", &["write a comma between two values"], "[1, 2]"),
    // Comments stay, because they may be of use elsewhere.
    (
        "{\"a\": 1 // one\n, /* two */ \"b\": 2,}",
        &["JSON has no comments", "JSON has no comments", "remove the comma before it"],
        "{\"a\": 1 // one\n, /* two */ \"b\": 2}",
    ),
    ("{\"a\": 1} # one\n", &["JSON has no comments"], "{\"a\": 1} # one\n"),
    // What is meant is not known, but what follows is read.
    (
        r#"{"a":, "b": [1,]}"#,
        &["write the value after the colon, such as null", "remove the comma before it"],
        r#"{"a":, "b": [1]}"#,
    ),
    (
        r#"{"a": 01, "b": .5, "c": 3s, "d" }"#,
        &[
            "write a number such as 3, -0.5 or 1e6, or a text in double quotes",
            "write a number such as 3, -0.5 or 1e6",
            "write a number without other characters, or a text in double quotes",
            "write a colon and a value after the key",
        ],
        r#"{"a": 01, "b": .5, "c": 3s, "d" }"#,
    ),
    (r#"{"a": 1}}"#, &["remove this bracket, or open one that is missing before it"], r#"{"a": 1}}"#),
];

#[test]
fn every_mistake_is_reported_once_with_its_correction() {
    for (text, help, meant) in CORRECTED {
        let (found, fixed, _) = read(text);
        assert_eq!(found, help, "{text}");
        assert_eq!(fixed, meant, "{text}");
    }
}

#[test]
fn what_has_one_meaning_is_read() {
    for (text, _, meant) in CORRECTED {
        let tree = read(text).2.map(|tree| write_json(&tree.to_value()));
        if let (Some(tree), Ok(value)) = (tree, parse_value(meant)) {
            assert_eq!(tree, write_json(&value), "{text}");
        }
    }
    let is_read = |text: &str| read(text).2.is_some();
    assert!(is_read(r#"{"name":"x",,"steps":[],"a":1 "b":2}"#));
    assert!(is_read(r#"["match \d+"]"#));
    assert!(!is_read(r#"{"a": "say "x" now"}"#));
    assert!(!is_read("{\"a\": hello}"));
}

#[test]
fn places_are_those_of_the_original_text() {
    let text = r#"{a: 1,, "b": 'x', "c": 2}"#;
    let tree = read(text).2.expect("readable");
    let written: Vec<&str> = tree
        .entries()
        .iter()
        .flat_map(|(_, key, value)| [*key, value.span])
        .map(|span| &text[span.start..span.end()])
        .collect();
    assert_eq!(written, ["a", "1", "\"b\"", "'x'", "\"c\"", "2"]);
}

#[test]
fn a_text_with_many_mistakes_takes_no_longer() {
    let text = format!("{{\"a\": \"{}\", b: [{}],}}", "\tx".repeat(900), "1, ".repeat(20_000) + "1");
    let (help, fixed, tree) = read(&text);
    assert_eq!((help.len(), tree.is_some()), (3, true));
    assert!(parse_value(&fixed).is_ok());
    // More than this is not corrected.
    assert_eq!(read(&format!("[\"{}\", True]", "\t".repeat(200_000))).0.len(), 1);
}

#[test]
fn text_that_is_no_json_has_one_problem() {
    for text in ["# Title\n\nSome text", "name: x\nsteps:\n  - a", "“quoted” text"] {
        assert_eq!(read(text).0.len(), 1, "{text}");
    }
}
