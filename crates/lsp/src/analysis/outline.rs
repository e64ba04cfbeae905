//! The parts of a document: for lists of symbols, and for folding.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, NodeKind};

use super::index::{Body, Index};
use super::lines::Lines;
use super::mdx::MdxDocument;
use super::yaml::find_yaml_keys;

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineItem {
    /// Its name.
    pub name: String,
    /// A few words about it.
    pub detail: String,
    /// The kind, for an icon.
    pub kind: ItemKind,
    /// The whole part.
    pub span: Span,
    /// The place that an editor goes to.
    pub selection: Span,
    /// Its parts.
    pub children: Vec<OutlineItem>,
}

/// The kinds of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A list of parts.
    Group,
    /// A step, a node or an action.
    Step,
    /// An input or a constant.
    Input,
    /// A heading.
    Heading,
}

/// Lists whose items are parts of a definition.
const PART_LISTS: [&str; 6] = ["steps", "nodes", "edges", "agents", "blocks", "tools"];

/// Keys by whose values people distinguish the items of a list, the best one first.
const NAMING_KEYS: [&str; 12] = [
    "name",
    "nodeName",
    "node_name",
    "id",
    "type",
    "functionId",
    "block_id",
    "agentId",
    "from",
    "sourceNodeId",
    "source_node_id",
    "targetNodeId",
];

/// The parts of a document.
pub fn list_parts(index: &Index) -> Vec<OutlineItem> {
    match &index.body {
        Body::Json(tree) => tree.as_ref().map(|tree| list_json_parts(index, tree)).unwrap_or_default(),
        Body::Markdown(document) => list_markdown_parts(&index.text, document),
    }
}

fn list_json_parts(index: &Index, tree: &Node) -> Vec<OutlineItem> {
    let mut parts = Vec::new();
    for (key, span, value) in tree.entries() {
        match value.items().filter(|_| PART_LISTS.contains(&key.as_str())) {
            Some(items) => parts.push(OutlineItem {
                name: key.clone(),
                detail: String::new(),
                kind: ItemKind::Group,
                span: join(*span, value.span),
                selection: *span,
                children: items.iter().map(|item| describe_item(index, item)).collect(),
            }),
            // Wrapped steps are part of the same definition.
            None if !value.entries().is_empty() => parts.extend(list_json_parts(index, value)),
            None => {}
        }
    }
    parts
}

fn describe_item(index: &Index, item: &Node) -> OutlineItem {
    let mut found = NAMING_KEYS.iter().filter_map(|key| item.get(key).filter(|node| node.as_str().is_some()));
    let naming = found.next();
    let text = |node: &Node| node.as_str().unwrap_or_default().to_owned();
    let detail = found.next().map(text).unwrap_or_default();
    let target = ["to", "targetNodeId", "target_node_id"].iter().find_map(|key| item.get(key)?.as_str());
    let detail = target.map_or(detail, |target| format!("→ {target}"));
    let written = index.names.iter().find(|name| {
        name.role == super::names::Role::Written
            && item.span.start <= name.span.start
            && name.span.end() <= item.span.end()
    });
    let detail = written.map_or(detail, |name| format!("→ {}", name.text));
    OutlineItem {
        name: naming.map(text).or_else(|| item.as_str().map(str::to_owned)).unwrap_or_else(|| "?".to_owned()),
        detail,
        kind: ItemKind::Step,
        span: item.span,
        selection: naming.map_or(item.span, |node| node.span),
        children: Vec::new(),
    }
}

fn list_markdown_parts(text: &str, document: &MdxDocument) -> Vec<OutlineItem> {
    let mut parts = Vec::new();
    if let Some(range) = document.frontmatter.clone() {
        let keys = find_yaml_keys(text, range);
        let inputs = keys.iter().filter(|key| key.path.len() == 2 && matches!(key.path[0].as_str(), "input" | "data"));
        parts.extend(inputs.map(|key| OutlineItem {
            name: key.path[1].clone(),
            detail: key.path[0].clone(),
            kind: ItemKind::Input,
            span: join(key.span, key.value),
            selection: key.span,
            children: Vec::new(),
        }));
    }
    parts.extend(document.headings.iter().map(|heading| OutlineItem {
        name: text[heading.span.start..heading.span.end()].to_owned(),
        detail: String::new(),
        kind: ItemKind::Heading,
        span: heading.span,
        selection: heading.span,
        children: Vec::new(),
    }));
    parts.extend(list_elements(text, document, None));
    parts.retain(|part| !part.name.is_empty());
    parts.sort_by_key(|part| part.span.start);
    parts
}

fn list_elements(text: &str, document: &MdxDocument, parent: Option<usize>) -> Vec<OutlineItem> {
    let inside = document.elements.iter().enumerate().filter(|(_, element)| element.parent == parent);
    let describe = |(index, element): (usize, &super::mdx::Element)| {
        let result = element.attributes.iter().find(|attribute| attribute.name == "as").and_then(|one| one.value);
        let result = result.and_then(|span| text.get(span.start..span.end())).filter(|name| !name.is_empty());
        OutlineItem {
            name: result.unwrap_or(&element.name).to_owned(),
            detail: if result.is_some() { element.name.clone() } else { String::new() },
            kind: ItemKind::Step,
            span: element.span,
            selection: element.name_span,
            children: list_elements(text, document, Some(index)),
        }
    };
    inside.map(describe).collect()
}

fn join(first: Span, last: Span) -> Span {
    Span { start: first.start, length: last.end().max(first.end()) - first.start }
}

/// Parts that can be folded: those with more than one line.
pub fn list_folds(index: &Index, lines: &Lines) -> Vec<Span> {
    let mut folds = Vec::new();
    match &index.body {
        Body::Json(tree) => tree.iter().for_each(|tree| collect_json_folds(tree, &mut folds)),
        Body::Markdown(document) => {
            folds.extend(document.frontmatter.iter().map(|range| Span { start: 0, length: range.end }));
            folds.extend(document.elements.iter().map(|element| element.span));
        }
    }
    folds.retain(|span| lines.find_line(span.start) < lines.find_line(span.end().saturating_sub(1)));
    folds.sort_by_key(|span| (span.start, span.length));
    folds
}

fn collect_json_folds(node: &Node, folds: &mut Vec<Span>) {
    if matches!(node.kind, NodeKind::Map(_) | NodeKind::List(_)) {
        folds.push(node.span);
    }
    node.entries().iter().for_each(|(_, _, value)| collect_json_folds(value, folds));
    node.items().unwrap_or_default().iter().for_each(|item| collect_json_folds(item, folds));
}
