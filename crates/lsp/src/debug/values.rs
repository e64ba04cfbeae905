//! Values as a debugger shows them: each object and list has a number, by which the editor asks for its content.

use flowloom_core::render::to_json;
use flowloom_core::value::Value;
use serde_json::json;

/// Maximum number of characters of a value on its own line.
const MAX_VALUE_CHARS: usize = 200;

/// The values that the editor can ask for, by their numbers from 1.
#[derive(Default)]
pub(super) struct ShownValues {
    groups: Vec<Vec<(String, Value)>>,
}

impl ShownValues {
    /// Adds named values. Returns their number.
    pub(super) fn add_group(&mut self, values: Vec<(String, Value)>) -> usize {
        self.groups.push(values);
        self.groups.len()
    }

    /// The values with a number, in the form of the protocol.
    pub(super) fn list_group(&mut self, number: usize) -> Vec<serde_json::Value> {
        let group = number.checked_sub(1).and_then(|index| self.groups.get(index)).cloned().unwrap_or_default();
        group.into_iter().map(|(name, value)| self.describe(&name, value)).collect()
    }

    /// A named value in the form of the protocol.
    fn describe(&mut self, name: &str, value: Value) -> serde_json::Value {
        let (shown, kind) = (show_value(&value), value.kind_name());
        json!({"name": name, "value": shown, "type": kind, "variablesReference": self.add_content(value)})
    }

    /// The number of a value's content; 0 if it has none.
    pub(super) fn add_content(&mut self, value: Value) -> usize {
        match value {
            Value::Map(map) => {
                self.add_group(map.iter().map(|(key, value)| (key.to_string(), value.clone())).collect())
            }
            Value::List(items) => {
                self.add_group(items.iter().enumerate().map(|(at, item)| (at.to_string(), item.clone())).collect())
            }
            _ => 0,
        }
    }
}

/// A value on one line.
pub(super) fn show_value(value: &Value) -> String {
    let text = to_json(value);
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
