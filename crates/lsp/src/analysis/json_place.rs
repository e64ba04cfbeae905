//! The content at a position of a JSON document, and what could be written there.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, NodeKind};

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// The value of a key.
    Key(String),
    /// An item of a list.
    Index(usize),
}

/// The way from the whole document to a part of it.
pub type JsonPath = Vec<PathStep>;

/// The key or value at a position.
#[derive(Debug)]
pub enum JsonPlace<'t> {
    /// A key of an object, or a place where one can be.
    Key {
        /// The way to the object.
        path: JsonPath,
        /// The object.
        object: &'t Node,
        /// The key at the place.
        key: Option<(&'t str, Span)>,
    },
    /// A value, or a place where one can be.
    Value {
        /// The way to the value.
        path: JsonPath,
        /// The value at the place.
        node: Option<&'t Node>,
    },
}

/// The path as a list of texts, in which `*` is any position of a list.
pub fn to_pattern(path: &[PathStep]) -> Vec<&str> {
    path.iter().map(|step| if let PathStep::Key(key) = step { key } else { "*" }).collect()
}

/// The key or value at byte `offset` of `text`, whose tree is `tree`; `None` outside of it.
pub fn find_place<'t>(text: &str, tree: &'t Node, offset: usize) -> Option<JsonPlace<'t>> {
    let mut path = JsonPath::new();
    let mut node = tree;
    if !is_inside(text, node, offset) {
        return None;
    }
    loop {
        match &node.kind {
            NodeKind::Map(entries) => {
                if let Some((key, span, _)) =
                    entries.iter().find(|(_, span, _)| span.start < offset && offset <= span.end())
                {
                    return Some(JsonPlace::Key { path, object: node, key: Some((key, *span)) });
                }
                let before = entries.iter().rev().find(|(_, span, _)| span.end() <= offset);
                let Some((key, _, value)) = before.filter(|(_, span, value)| is_at_value(text, *span, value, offset))
                else {
                    return Some(JsonPlace::Key { path, object: node, key: None });
                };
                path.push(PathStep::Key(key.clone()));
                if !is_inside(text, value, offset) {
                    return Some(JsonPlace::Value { path, node: None });
                }
                node = value;
            }
            NodeKind::List(items) => {
                let found = items.iter().enumerate().find(|(_, item)| is_inside(text, item, offset));
                let Some((index, item)) = found else {
                    path.push(PathStep::Index(items.iter().filter(|item| item.span.end() <= offset).count()));
                    return Some(JsonPlace::Value { path, node: None });
                };
                path.push(PathStep::Index(index));
                node = item;
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::String(_) => {
                return Some(JsonPlace::Value { path, node: Some(node) });
            }
        }
    }
}

pub(super) fn touches_offset(span: Span, offset: usize) -> bool {
    span.start <= offset && offset <= span.end()
}

/// Whether a position is in a value: between the brackets, or anywhere in a value without any. A value that is not
/// closed ends with the document.
fn is_inside(text: &str, node: &Node, offset: usize) -> bool {
    let closing = match node.kind {
        NodeKind::Map(_) => "}",
        NodeKind::List(_) => "]",
        _ => return touches_offset(node.span, offset) && node.span.length > 0,
    };
    let is_closed = text[..node.span.end()].ends_with(closing) && node.span.length > 1;
    node.span.start < offset && (!is_closed || offset < node.span.end())
}

/// Whether a position belongs to the value of an entry and not to the next key.
fn is_at_value(text: &str, key: Span, value: &Node, offset: usize) -> bool {
    if is_inside(text, value, offset) {
        return true;
    }
    let has_colon = |from: usize, to: usize| text.get(from..to).is_some_and(|between| between.contains(':'));
    // Before the existing value, or where one is missing.
    if value.span.length > 0 {
        return offset < value.span.start && has_colon(key.end(), offset);
    }
    has_colon(key.end(), offset) && text.get(value.span.start..offset).is_some_and(|gap| gap.trim().is_empty())
}

/// The value at the end of a path.
pub fn follow_path<'t>(tree: &'t Node, path: &[PathStep]) -> Option<&'t Node> {
    path.iter().try_fold(tree, |node, step| match step {
        PathStep::Key(key) => node.get(key),
        PathStep::Index(index) => node.items()?.get(*index),
    })
}

/// Calls `visit` with every value of a tree and the way to it.
pub fn visit_values<'t>(tree: &'t Node, visit: &mut dyn FnMut(&[PathStep], &'t Node)) {
    visit_below(tree, &mut Vec::new(), visit);
}

fn visit_below<'t>(node: &'t Node, path: &mut JsonPath, visit: &mut dyn FnMut(&[PathStep], &'t Node)) {
    visit(path, node);
    for (key, _, value) in node.entries() {
        path.push(PathStep::Key(key.clone()));
        visit_below(value, path, visit);
        path.pop();
    }
    for (index, item) in node.items().unwrap_or_default().iter().enumerate() {
        path.push(PathStep::Index(index));
        visit_below(item, path, visit);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::json_tree::parse_tolerant;
    use super::*;

    fn show(marked: &str) -> String {
        let offset = marked.find('|').expect("a mark");
        let text = marked.replacen('|', "", 1);
        let tree = parse_tolerant(&text).expect("a tree");
        match find_place(&text, &tree, offset) {
            None => "outside".to_owned(),
            Some(JsonPlace::Key { path, key, .. }) => {
                format!("key {:?} in {}", key.map(|(key, _)| key), to_pattern(&path).join("."))
            }
            Some(JsonPlace::Value { path, node }) => {
                let kind = node.map_or("nothing", Node::kind_name);
                format!("value {} is {kind}", to_pattern(&path).join("."))
            }
        }
    }

    #[test]
    fn positions_are_keys_or_values() {
        let cases = [
            (r#"{"a": 1, |}"#, "key None in "),
            (r#"{"a|": 1}"#, r#"key Some("a") in "#),
            (r#"{"a": |}"#, "value a is nothing"),
            (r#"{"a": "x|"}"#, "value a is text"),
            (r#"{"a": [|]}"#, "value a.* is nothing"),
            (r#"{"a": [1, {"b": |"#, "value a.*.b is nothing"),
            (r#"{"steps": [{"type": "x", |"#, "key None in steps.*"),
            (r#"{"a": {|}}"#, "key None in a"),
            (r#"{"a": |"b": 1}"#, "value a is nothing"),
            (r#"{|"b": 1}"#, "key None in "),
            (r#"{"a": 1}|"#, "outside"),
        ];
        for (marked, expected) in cases {
            assert_eq!(show(marked), expected, "{marked}");
        }
    }
}
