//! Compares JSON exactly, except that numbers are compared numerically, and that `ours` may use operators.

use flowloom_core::render::{format_js_number, shorten_text, to_json};
use flowloom_core::value::{Map, Value};

/// Appended to texts by the self-test. A number, so that it is also a fact of an error text.
const CHANGE_MARK: &str = " 84370";

/// Maximum number of characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 160;

/// Collects the differences between `actual` and `expected`; `text` compares strings.
pub(crate) fn collect_differences(
    expected: &Value,
    actual: Option<&Value>,
    path: &str,
    text: &dyn Fn(&str, &str, &str) -> bool,
    out: &mut Vec<String>,
) {
    let different = |out: &mut Vec<String>| {
        let actual = actual.map_or_else(|| "nothing".to_owned(), shorten_value);
        out.push(format!("{path}: expected {}, got {actual}", shorten_value(expected)));
    };
    if let Some(operator) = parse_operator(expected) {
        if !operator.is_met_by(actual) {
            different(out);
        }
        return;
    }
    match (expected, actual) {
        (Value::Map(expected), Some(Value::Map(actual))) => {
            for (key, value) in &**expected {
                collect_differences(value, actual.get(key), &format!("{path}.{key}"), text, out);
            }
            for (key, value) in actual.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                out.push(format!("{path}.{key}: not expected, got {}", shorten_value(value)));
            }
        }
        (Value::List(expected), Some(Value::List(actual))) => {
            if expected.len() != actual.len() {
                out.push(format!("{path}: expected {} items, got {}", expected.len(), actual.len()));
            }
            for (index, (expected, actual)) in expected.iter().zip(&**actual).enumerate() {
                collect_differences(expected, Some(actual), &format!("{path}[{index}]"), text, out);
            }
        }
        (Value::Number(expected), Some(Value::Number(actual))) => {
            if format_js_number(expected.as_f64()) != format_js_number(actual.as_f64()) {
                different(out);
            }
        }
        (Value::String(expected), Some(Value::String(actual))) => {
            if !text(path, expected, actual) {
                different(out);
            }
        }
        (expected, Some(actual)) if expected == actual => {}
        _ => different(out),
    }
}

enum CompareOperator<'a> {
    Contains(&'a str),
    Any(bool),
}

fn parse_operator(expected: &Value) -> Option<CompareOperator<'_>> {
    let map = expected.as_map().filter(|map| map.len() == 1)?;
    match map.first()? {
        (key, Value::String(text)) if &**key == "$contains" => Some(CompareOperator::Contains(text)),
        (key, Value::Bool(present)) if &**key == "$any" => Some(CompareOperator::Any(*present)),
        _ => None,
    }
}

impl CompareOperator<'_> {
    fn is_met_by(&self, actual: Option<&Value>) -> bool {
        match self {
            CompareOperator::Contains(text) => {
                let found = actual.and_then(Value::as_str).unwrap_or_default();
                found.to_lowercase().contains(&text.to_lowercase())
            }
            CompareOperator::Any(present) => actual.is_some() == *present,
        }
    }
}

fn shorten_value(value: &Value) -> String {
    shorten_text(&to_json(value), MAX_SHOWN_CHARS)
}

/// Every leaf of a value (empty lists and objects are leaves): its path, and the whole value with that leaf changed.
pub fn changed_leaves(value: &Value) -> Vec<(Vec<String>, Value)> {
    match value {
        Value::Map(map) if !map.is_empty() => map
            .iter()
            .flat_map(|(key, inner)| {
                changed_leaves(inner).into_iter().map(move |(mut path, changed)| {
                    path.insert(0, key.to_string());
                    let mut copy: Map = (**map).clone();
                    copy.insert(key.clone(), changed);
                    (path, copy.into())
                })
            })
            .collect(),
        Value::List(items) if !items.is_empty() => (0..items.len())
            .flat_map(|index| {
                changed_leaves(&items[index]).into_iter().map(move |(mut path, changed)| {
                    path.insert(0, index.to_string());
                    let mut copy = items.to_vec();
                    copy[index] = changed;
                    (path, Value::list(copy))
                })
            })
            .collect(),
        leaf => vec![(Vec::new(), change_leaf(leaf))],
    }
}

fn change_leaf(leaf: &Value) -> Value {
    match leaf {
        Value::Null => CHANGE_MARK.into(),
        Value::Bool(value) => (!value).into(),
        Value::Number(number) => {
            let changed = flowloom_core::value::Number::from_f64(number.as_f64() * 2.0 + 1.0);
            changed.map_or(Value::Null, Value::Number)
        }
        Value::String(text) => format!("{text}{CHANGE_MARK}").into(),
        Value::List(_) => Value::list(vec![CHANGE_MARK.into()]),
        Value::Map(_) | Value::Blob(_) => Value::map([("changed", Value::from(CHANGE_MARK))]),
    }
}
