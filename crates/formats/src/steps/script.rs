//! Definitions in JavaScript: the argument of the call `trigger('workflow::create', {…})`.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{parse_literal, parse_value};
use flowloom_core::value::{Map, Value};

/// The name of the called function, in both quotation marks.
const CREATE_NAMES: [&str; 2] = ["'workflow::create'", "\"workflow::create\""];

/// Whether a text is JavaScript that calls `workflow::create`.
pub fn is_script(text: &str) -> bool {
    literal_start(text).is_some()
}

/// The offset of the definition in `text` if that is a JavaScript call of `workflow::create`.
pub(super) fn literal_start(text: &str) -> Option<usize> {
    // One of the strings of a JSON file may mention such a call.
    if text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    CREATE_NAMES.iter().find_map(|name| find_argument(text, text.find(name)?, name))
}

/// The offset of the object behind the name of the function, which is at `at`.
fn find_argument(text: &str, at: usize, name: &str) -> Option<usize> {
    let rest = text[at + name.len()..].trim_start().strip_prefix(',')?.trim_start();
    rest.starts_with('{').then(|| text.len() - rest.len())
}

/// The calls behind the first one, whose definitions are not read: the places of the function's name.
pub fn list_further_calls(text: &str) -> Vec<Span> {
    let first = literal_start(text).and_then(|start| parse_literal(text, start).ok());
    let Some((first, _)) = first else { return Vec::new() };
    let from = first.span.end();
    let find_calls = |name: &'static &str| {
        let found = text[from..].match_indices(*name).map(move |(at, _)| from + at);
        found.filter(|at| find_argument(text, *at, name).is_some()).map(|start| Span { start, length: name.len() })
    };
    let mut calls: Vec<Span> = CREATE_NAMES.iter().flat_map(find_calls).collect();
    calls.sort_by_key(|call| call.start);
    calls
}

/// The definition in a file, as data: JSON, or the argument of a JavaScript call of `workflow::create`.
pub fn read_definition(text: &str) -> Map {
    let read = match literal_start(text) {
        Some(start) => parse_literal(text, start).ok().map(|(node, _)| node.to_value()),
        None => parse_value(text).ok(),
    };
    read.as_ref().and_then(Value::as_map).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_behind_the_first_one_are_found() {
        let text = "trigger('workflow::create', {a: \"'workflow::create', {\"});\ntrigger(\"workflow::create\", {});\n\
            trigger('workflow::create', {});\nlist('workflow::create');";
        let places: Vec<&str> = list_further_calls(text).iter().map(|call| &text[call.start..call.end()]).collect();
        assert_eq!(places, ["\"workflow::create\"", "'workflow::create'"]);
        assert!(list_further_calls("{\"a\": \"'workflow::create', {\"}").is_empty());
    }
}
