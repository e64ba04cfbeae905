//! JSON definitions as text, with comments above rows.

use flowloom_core::plan::Format;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::format_source;

/// A row of a definition with the comments above it.
pub(crate) struct Row {
    pub(crate) comments: Vec<String>,
    /// The row; `None` for comments alone.
    pub(crate) value: Option<Value>,
}

/// A JSON object under construction; entries without a value are left out.
#[derive(Default)]
pub(crate) struct ObjectBuilder {
    map: Map,
}

impl ObjectBuilder {
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> ObjectBuilder {
        self.map.insert(key.into(), value.into());
        self
    }

    pub(crate) fn with_text(self, key: &str, text: &str) -> ObjectBuilder {
        if text.is_empty() { self } else { self.with(key, text) }
    }

    pub(crate) fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> ObjectBuilder {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub(crate) fn build(self) -> Value {
        self.map.into()
    }
}

/// A definition: an object with lists of rows, in the canonical layout of its format.
pub(crate) fn write_definition(format: Format, head: Value, lists: &[(&str, &[Row])], has_comments: bool) -> String {
    let mut entries = write_entries(&head);
    entries.extend(lists.iter().map(|(key, rows)| write_list(key, rows, has_comments)));
    lay_out(format, &entries)
}

/// A definition in an entry of an object, and a list of rows next to it.
pub(crate) fn write_beside(format: Format, key: &str, definition: &str, name: &str, rows: &[Row]) -> String {
    lay_out(format, &[format!("{}: {definition}", render::to_json(&key.into())), write_list(name, rows, false)])
}

fn lay_out(format: Format, entries: &[String]) -> String {
    let text = format!("{{{}}}", entries.join(", "));
    // The extension only says that comments are allowed.
    format_source(format, "converted.jsonc", &text).unwrap_or(text)
}

fn write_entries(head: &Value) -> Vec<String> {
    let entries = head.as_map().into_iter().flat_map(|map| map.iter());
    entries
        .map(|(key, value)| format!("{}: {}", render::to_json(&key.as_ref().into()), render::to_json(value)))
        .collect()
}

fn write_list(key: &str, rows: &[Row], has_comments: bool) -> String {
    let count = rows.iter().filter(|row| row.value.is_some()).count();
    let (mut list, mut written) = (String::new(), 0);
    for row in rows {
        for comment in row.comments.iter().filter(|_| has_comments) {
            list.push_str(&format!("\n// {}\n", comment.replace('\n', " ")));
        }
        if let Some(value) = &row.value {
            written += 1;
            list.push_str(&render::to_json(value));
            list.push_str(if written < count { "," } else { "" });
        }
    }
    format!("{}: [{list}\n]", render::to_json(&key.into()))
}
