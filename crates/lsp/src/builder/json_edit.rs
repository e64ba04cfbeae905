//! Changes of values in a JSON text.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, NodeKind, parse_node, write_json};
use flowloom_core::value::Value;
use flowloom_formats::blank_comments;

use super::json_slots::Slots;
use super::json_write::{Layout, find_indent, find_unit, write_value};
use super::{BuildError, show_path};
use crate::analysis::json_place::{PathStep, follow_path};

/// A JSON text with its tree.
#[derive(Clone, Debug)]
pub struct JsonText {
    /// The text, perhaps with comments.
    pub text: String,
    /// Its tree.
    pub tree: Node,
}

impl JsonText {
    /// Reads a text. Fails if it is not JSON, or if a key is repeated.
    pub fn read(text: String) -> Result<JsonText, BuildError> {
        let plain = blank_comments(&text);
        let unmarked = plain.strip_prefix('\u{feff}').map(|rest| format!("   {rest}"));
        let (tree, duplicates) = parse_node(unmarked.as_deref().unwrap_or(&plain))
            .map_err(|error| BuildError::Unreadable(error.message.to_string()))?;
        if let Some(duplicate) = duplicates.into_iter().next() {
            return Err(BuildError::Duplicate(duplicate.key));
        }
        Ok(JsonText { text, tree })
    }

    /// The value at a path.
    pub fn find(&self, path: &[PathStep]) -> Option<&Node> {
        follow_path(&self.tree, path)
    }

    fn find_or_fail(&self, path: &[PathStep]) -> Result<&Node, BuildError> {
        self.find(path).ok_or_else(|| BuildError::Nothing(path.to_vec()))
    }

    /// Replaces a part of the text, and reads it again.
    fn replace_range(&mut self, span: Span, new: &str) -> Result<(), BuildError> {
        let mut text = self.text.clone();
        text.replace_range(span.start..span.end(), new);
        *self = JsonText::read(text)?;
        Ok(())
    }

    /// Gives the value at a path another content. Missing objects and lists on the path are added. Fails if a value
    /// on the path is of another kind than the path requires, for example a text.
    pub fn set_value(&mut self, path: &[PathStep], value: &Value) -> Result<(), BuildError> {
        if let Some(node) = self.find(path) {
            if node.to_value() == *value {
                return Ok(());
            }
            let written = &self.text[node.span.start..node.span.end()];
            let layout = Layout {
                indent: find_indent(&self.text, node.span.start),
                unit: find_unit(&self.text),
                is_broken: written.contains('\n') && !matches!(node.kind, NodeKind::String(_)),
            };
            let new = write_value(value, layout);
            return self.replace_range(node.span, &new);
        }
        let known = (0..path.len()).rev().find(|length| self.find(&path[..*length]).is_some()).unwrap_or_default();
        let container = self.find_or_fail(&path[..known])?;
        let wrap = |value: Value, step: &PathStep| match step {
            PathStep::Key(key) => Value::map([(key.as_str(), value)]),
            PathStep::Index(_) => Value::list(vec![value]),
        };
        let below = path[known + 1..].iter().rev().fold(value.clone(), wrap);
        match (&container.kind, &path[known]) {
            (NodeKind::Null, step) => self.set_value(&path[..known], &wrap(below, step)),
            (NodeKind::Map(entries), PathStep::Key(key)) => {
                let (at, layout) = (entries.len(), self.layout_inside(container, false));
                let body =
                    format!("{}: {}", write_json(&Value::from(key.as_str())), write_value(&below, layout.borrow()));
                self.change_slots(&path[..known], |slots, indent| slots.insert(at, body, indent))
            }
            (NodeKind::List(items), PathStep::Index(_)) => {
                let at = items.len();
                self.insert(&path[..known], at, &below)
            }
            _ => Err(BuildError::Nothing(path.to_vec())),
        }
    }

    /// Adds a value to a list. A list that is missing is added, and replaces a value of another kind. Fails like
    /// [`JsonText::set_value`].
    pub fn insert(&mut self, list: &[PathStep], at: usize, value: &Value) -> Result<(), BuildError> {
        let Some(node) = self.find(list).filter(|node| node.items().is_some()) else {
            return self.set_value(list, &Value::list(vec![value.clone()]));
        };
        let is_broken = matches!(value, Value::Map(map) if map.len() > 1);
        let body = write_value(value, self.layout_inside(node, is_broken).borrow());
        self.change_slots(list, |slots, indent| slots.insert(at, body, indent))
    }

    /// Adds the text of a value to a list, as it is written. Fails if the text is not JSON, and in the cases of
    /// [`JsonText::insert`].
    pub fn insert_text(&mut self, list: &[PathStep], at: usize, text: &str) -> Result<(), BuildError> {
        JsonText::read(text.to_owned()).map_err(|error| BuildError::Paste(error.to_string()))?;
        let Some(node) = self.find(list).filter(|node| node.items().is_some()) else {
            self.set_value(list, &Value::list(Vec::new()))?;
            return self.insert_text(list, at, text);
        };
        let body = indent_again(text.trim(), &self.layout_inside(node, true).indent);
        self.change_slots(list, |slots, indent| slots.insert(at, body, indent))
    }

    /// Removes the entry or the item at a path. Fails if there is nothing at the path.
    pub fn remove(&mut self, path: &[PathStep]) -> Result<(), BuildError> {
        let at = self.find_position(path)?;
        self.change_slots(&path[..path.len() - 1], |slots, _| slots.remove(at))
    }

    /// Removes several items of a list. Fails if there is no list at the path.
    pub fn remove_items(&mut self, list: &[PathStep], positions: &[usize]) -> Result<(), BuildError> {
        self.change_slots(list, |slots, _| positions.iter().rev().for_each(|at| slots.remove(*at)))
    }

    /// Moves an item to another position of its list. Fails if there is no item at the path.
    pub fn move_item(&mut self, path: &[PathStep], to: usize) -> Result<(), BuildError> {
        let from = self.find_position(path)?;
        self.change_slots(&path[..path.len() - 1], |slots, _| slots.move_slot(from, to))
    }

    /// Gives the key of an entry another text. Fails if there is no entry at the path, or if the object already has the
    /// new key.
    pub fn rename_key(&mut self, path: &[PathStep], to: &str) -> Result<(), BuildError> {
        let at = self.find_position(path)?;
        let object = self.find_or_fail(&path[..path.len() - 1])?;
        if object.get(to).is_some() {
            return Err(BuildError::Name(format!("the key {to:?} already exists")));
        }
        let Some((_, span, _)) = object.entries().get(at) else { return Err(BuildError::Nothing(path.to_vec())) };
        let span = *span;
        self.replace_range(span, &write_json(&Value::from(to)))
    }

    /// The position of the value at a path in its list or object.
    fn find_position(&self, path: &[PathStep]) -> Result<usize, BuildError> {
        let nothing = || BuildError::Nothing(path.to_vec());
        let (last, parent) = path.split_last().ok_or_else(nothing)?;
        self.find_or_fail(path)?;
        let parent = self.find_or_fail(parent)?;
        match last {
            PathStep::Index(index) => Ok(*index),
            PathStep::Key(key) => parent.entries().iter().position(|(name, _, _)| name == key).ok_or_else(nothing),
        }
    }

    fn change_slots(&mut self, path: &[PathStep], change: impl FnOnce(&mut Slots, &str)) -> Result<(), BuildError> {
        let container = self.find_or_fail(path)?;
        let slots = Slots::read(&self.text, container, find_unit(&self.text));
        let Some(mut slots) = slots else {
            return Err(BuildError::Unreadable(format!("{} is neither a list nor an object", show_path(path))));
        };
        let span = Span { start: container.span.start + 1, length: container.span.length - 2 };
        change(&mut slots, find_indent(&self.text, container.span.start));
        self.replace_range(span, &slots.write())
    }

    /// How a value in a list or an object is written.
    fn layout_inside(&self, container: &Node, is_broken: bool) -> InnerLayout {
        let first = match &container.kind {
            NodeKind::List(items) => items.first().map(|item| item.span.start),
            NodeKind::Map(entries) => entries.first().map(|(_, key, _)| key.start),
            _ => None,
        };
        let unit = find_unit(&self.text).to_owned();
        let own = find_indent(&self.text, container.span.start);
        let on_line = |at: &usize| self.text[container.span.start..*at].contains('\n');
        let indent = match first {
            Some(at) if on_line(&at) => find_indent(&self.text, at).to_owned(),
            Some(_) => own.to_owned(),
            None => format!("{own}{unit}"),
        };
        InnerLayout { indent, unit, is_broken: is_broken && first.is_none_or(|at| on_line(&at)) }
    }
}

/// A [`Layout`] that holds its texts.
struct InnerLayout {
    indent: String,
    unit: String,
    is_broken: bool,
}

impl InnerLayout {
    fn borrow(&self) -> Layout<'_> {
        Layout { indent: &self.indent, unit: &self.unit, is_broken: self.is_broken }
    }
}

/// Moves all lines but the first to another indentation.
fn indent_again(text: &str, indent: &str) -> String {
    let inner = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let common = inner.map(|line| line.len() - line.trim_start_matches([' ', '\t']).len()).min().unwrap_or_default();
    let mut lines = text.lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        out.push('\n');
        out.push_str(indent);
        out.push_str(line.get(common..).unwrap_or_default());
    }
    out
}
