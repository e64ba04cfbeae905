//! The numbers of lines and columns. An editor counts from 1 unless it says otherwise; the session always does.

use serde_json::Value;

/// What is added to the line and column numbers of an editor to get those of the session: 0 or 1.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbering {
    line_offset: u64,
    column_offset: u64,
}

impl Numbering {
    /// The numbering in the arguments of `initialize`.
    pub(super) fn of_editor(arguments: &Value) -> Numbering {
        let offset = |key: &str| u64::from(arguments[key].as_bool() == Some(false));
        Numbering { line_offset: offset("linesStartAt1"), column_offset: offset("columnsStartAt1") }
    }

    /// The arguments of a request, in the numbers of the session.
    pub(super) fn number_arguments(self, arguments: &Value) -> Value {
        let mut arguments = arguments.clone();
        self.change_numbers(&mut arguments, &|number, offset| number.saturating_add(offset));
        arguments
    }

    /// Changes the body of a response to the numbers of the editor.
    pub(super) fn number_response(self, body: &mut Value) {
        self.change_numbers(body, &|number, offset| number.saturating_sub(offset));
    }

    fn change_numbers(self, value: &mut Value, change: &impl Fn(u64, u64) -> u64) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.change_numbers(item, change)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    let offset = match key.as_str() {
                        "line" => self.line_offset,
                        "column" => self.column_offset,
                        _ => {
                            self.change_numbers(value, change);
                            continue;
                        }
                    };
                    if let Some(number) = value.as_u64() {
                        *value = change(number, offset).into();
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_editor_may_count_from_zero() {
        let from_zero = Numbering::of_editor(&json!({"linesStartAt1": false, "columnsStartAt1": true}));
        let given = json!({"breakpoints": [{"line": 0}, {"line": 4, "column": 2}]});
        let numbered = from_zero.number_arguments(&given);
        assert_eq!(numbered, json!({"breakpoints": [{"line": 1}, {"line": 5, "column": 2}]}));
        let mut body = json!({"stackFrames": [{"name": "line", "line": 1, "column": 1}]});
        from_zero.number_response(&mut body);
        assert_eq!(body, json!({"stackFrames": [{"name": "line", "line": 0, "column": 1}]}));
        assert_eq!(Numbering::of_editor(&json!({})).number_arguments(&given), given);
    }
}
