//! Nodes of the tree: their places, and the content of elements.

use std::ops::Range;

use markdown::mdast::Node;

/// The byte range of a node.
pub(super) fn node_range(node: &Node) -> Range<usize> {
    node.position().map_or(0..0, |position| position.start.offset..position.end.offset)
}

/// The byte range of a text with the backslash of an escape that it begins with: the parser leaves that one out.
pub(super) fn text_range(node: &Node, text: &str) -> Range<usize> {
    let Range { start, end } = node_range(node);
    let is_escaped = text.get(..start).is_some_and(|before| before.ends_with('\\'));
    start - usize::from(is_escaped)..end
}

/// The name and the children of an element.
pub(super) fn read_element(node: &Node) -> Option<(Option<&str>, &[Node])> {
    match node {
        Node::MdxJsxFlowElement(element) => Some((element.name.as_deref(), &element.children)),
        Node::MdxJsxTextElement(element) => Some((element.name.as_deref(), &element.children)),
        _ => None,
    }
}
