//! Writes new values into JSON texts: as the canonical layout does, in the indentation of their place.

use flowloom_core::json::write_json;
use flowloom_core::value::Value;

/// Characters of the longest line that is not broken.
const MAX_LINE_CHARS: usize = 120;

/// Levels of lists and objects that may share a line.
const MAX_LINE_LEVELS: usize = 2;

/// How a value is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    /// The white space at the start of the line on which the value begins.
    pub(super) indent: &'a str,
    /// The indentation of one level.
    pub(super) unit: &'a str,
    /// Whether the value has a line for each entry even if it would fit on one.
    pub(super) is_broken: bool,
}

/// The text of a value.
pub(super) fn write_value(value: &Value, layout: Layout<'_>) -> String {
    let line = write_line(value, MAX_LINE_LEVELS).filter(|line| {
        let room = MAX_LINE_CHARS.saturating_sub(layout.indent.chars().count());
        !layout.is_broken && line.chars().count() <= room
    });
    line.unwrap_or_else(|| write_broken(value, layout))
}

fn write_broken(value: &Value, layout: Layout<'_>) -> String {
    let inner = format!("{}{}", layout.indent, layout.unit);
    let below = Layout { indent: &inner, unit: layout.unit, is_broken: false };
    let (open, close, items): (char, char, Vec<String>) = match value {
        Value::List(list) if !list.is_empty() => ('[', ']', list.iter().map(|item| write_value(item, below)).collect()),
        Value::Map(map) if !map.is_empty() => {
            let entry = |(key, value): (&std::sync::Arc<str>, &Value)| {
                format!("{}: {}", write_json(&Value::from(&**key)), write_value(value, below))
            };
            ('{', '}', map.iter().map(entry).collect())
        }
        other => return write_json(other),
    };
    let separator = format!(",\n{inner}");
    format!("{open}\n{inner}{}\n{}{close}", items.join(&separator), layout.indent)
}

/// The value on one line; `None` if it has more levels.
fn write_line(value: &Value, levels: usize) -> Option<String> {
    match value {
        Value::List(list) if !list.is_empty() => {
            let items: Option<Vec<String>> = list.iter().map(|item| write_line(item, levels.checked_sub(1)?)).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) if !map.is_empty() => {
            let entry = |(key, value): (&std::sync::Arc<str>, &Value)| {
                let value = write_line(value, levels.checked_sub(1)?)?;
                Some(format!("{}: {value}", write_json(&Value::from(&**key))))
            };
            let entries: Option<Vec<String>> = map.iter().map(entry).collect();
            Some(format!("{{{}}}", entries?.join(", ")))
        }
        other => Some(write_json(other)),
    }
}

/// The white space at the start of the line of a byte.
pub(super) fn find_indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// The indentation of one level in a text: that of its first indented line, or two blanks.
pub(super) fn find_unit(text: &str) -> &str {
    let mut lines = text.lines().skip(1);
    let found = lines.find_map(|line| {
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        (!indent.is_empty() && indent.len() < line.len()).then_some(indent)
    });
    found.unwrap_or("  ")
}
