//! Broken JSON is repaired as version 3.7.0 of the JavaScript library `jsonrepair` does it, which the original of the flow format uses. Each line
//! of `json_repair.jsonl` has a text with random mistakes, and what the library made of it: null if that is no JSON.

use flowloom_core::json::{parse_value, read_repaired};

#[test]
fn texts_are_repaired_as_by_the_javascript_library() {
    let mut problems = Vec::new();
    let lines: Vec<&str> = include_str!("json_repair.jsonl").lines().collect();
    for line in &lines {
        let (text, repaired): (String, Option<String>) = serde_json::from_str(line).expect("a pair");
        let expected = repaired.map(|repaired| parse_value(&repaired).expect("JSON"));
        let found = read_repaired(&text);
        if found != expected {
            problems.push(format!("{text:?}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(lines.len() >= 2000, "only {} texts", lines.len());
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn a_text_made_to_be_slow_is_given_up() {
    // Each of its strings seems to end at the end of the text, so a search without a limit would be quadratic.
    assert_eq!(read_repaired(&format!("[{}]", "\"x\"y ".repeat(200_000))), None);
    let deep = "[".repeat(100_000) + &"{\"a\":".repeat(100_000);
    assert_eq!(read_repaired(&deep), None);
    assert_eq!(read_repaired(&format!("[{}", "\"a\" + ".repeat(100_000))), None);
}
