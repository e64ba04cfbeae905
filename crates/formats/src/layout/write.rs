//! Writes a JSON tree in the canonical layout: two blanks for each level, and short values on one line.

use super::keys::{ValueShape, key_text};
use super::tree::{Document, Item, Items, Value};

/// Characters of the longest line that is not broken.
const MAX_LINE_CHARS: usize = 120;

/// Levels of lists and objects that may share a line.
const MAX_LINE_LEVELS: usize = 2;

/// The document as text.
pub(super) fn write_document(document: &Document<'_>, shape: &ValueShape) -> String {
    let mut writer = Writer { out: String::new(), column: 0 };
    writer.push_comments(&document.before, 0);
    match &document.root {
        Value::Scalar(text) => writer.push(text),
        Value::List(items) => writer.push_broken(['[', ']'], items, 0, shape),
        Value::Map(items) => writer.push_broken(['{', '}'], items, 0, shape),
    }
    for comment in &document.after {
        writer.start_line(0);
        writer.push(comment);
    }
    writer.out.push('\n');
    writer.out
}

struct Writer {
    out: String,
    /// Characters of the current line.
    column: usize,
}

impl Writer {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn start_line(&mut self, level: usize) {
        self.out.push('\n');
        self.out.push_str(&"  ".repeat(level));
        self.column = 2 * level;
    }

    /// Comments on lines of their own, the last of which the next piece of text follows.
    fn push_comments(&mut self, comments: &[String], level: usize) {
        for comment in comments {
            self.push(comment);
            self.start_line(level);
        }
    }

    /// `closing` characters follow the value on its line.
    fn push_value(&mut self, value: &Value<'_>, level: usize, shape: &ValueShape, closing: usize) {
        let room = MAX_LINE_CHARS.saturating_sub(self.column + closing);
        match value {
            Value::Scalar(text) => self.push(text),
            Value::List(items) | Value::Map(items) => {
                let brackets = if matches!(value, Value::List(_)) { ['[', ']'] } else { ['{', '}'] };
                let is_body = matches!(shape, ValueShape::Rows(_)) && !items.items.is_empty();
                match write_line(value, MAX_LINE_LEVELS).filter(|line| !is_body && line.chars().count() <= room) {
                    Some(line) => self.push(&line),
                    None => self.push_broken(brackets, items, level, shape),
                }
            }
        }
    }

    fn push_broken(&mut self, [open, close]: [char; 2], items: &Items<'_>, level: usize, shape: &ValueShape) {
        self.push(open.encode_utf8(&mut [0; 4]));
        for (index, item) in items.items.iter().enumerate() {
            self.start_line(level + 1);
            self.push_item(item, index + 1 == items.items.len(), level + 1, shape);
        }
        for comment in &items.tail {
            self.start_line(level + 1);
            self.push(comment);
        }
        if !items.items.is_empty() || !items.tail.is_empty() {
            self.start_line(level);
        }
        self.push(close.encode_utf8(&mut [0; 4]));
    }

    fn push_item(&mut self, item: &Item<'_>, is_last: bool, level: usize, shape: &ValueShape) {
        self.push_comments(&item.before, level);
        let shape = match item.key {
            Some(key) => {
                self.push(key);
                self.push(": ");
                shape.entry(&key_text(item))
            }
            None => shape.item(),
        };
        self.push_value(&item.value, level, shape, usize::from(!is_last));
        if !is_last {
            self.push(",");
        }
        for comment in &item.after {
            self.push(" ");
            self.push(comment);
        }
    }
}

/// The value on one line; `None` if it holds a comment, has more levels, or is longer than any line.
fn write_line(value: &Value<'_>, levels: usize) -> Option<String> {
    let (items, brackets) = match value {
        Value::Scalar(text) => return Some((*text).to_owned()),
        Value::List(items) => (items, ['[', ']']),
        Value::Map(items) => (items, ['{', '}']),
    };
    if !items.tail.is_empty() || (levels == 0 && !items.items.is_empty()) {
        return None;
    }
    let mut line = String::from(brackets[0]);
    for (index, item) in items.items.iter().enumerate() {
        if !item.before.is_empty() || !item.after.is_empty() {
            return None;
        }
        line.push_str(if index > 0 { ", " } else { "" });
        if let Some(key) = item.key {
            line.push_str(key);
            line.push_str(": ");
        }
        line.push_str(&write_line(&item.value, levels - 1)?);
        if line.len() > 4 * MAX_LINE_CHARS {
            return None;
        }
    }
    line.push(brackets[1]);
    Some(line)
}
