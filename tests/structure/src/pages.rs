//! The Markdown pages of the repository: their links, headings and code.

use std::collections::{BTreeMap, BTreeSet};

use markdown::ParseOptions;
use markdown::mdast::Node;

use crate::files::{list_files, read_text, relative_path};

/// A Markdown page.
pub struct Page {
    /// Path from the repository root.
    pub path: String,
    nodes: Vec<Node>,
}

/// Every Markdown page of the repository, sorted by path.
pub fn read_pages() -> Vec<Page> {
    list_files(".", "md").iter().map(|file| parse_page(&relative_path(file), &read_text(file))).collect()
}

/// Parses the text of a page; `path` is its path from the repository root.
pub fn parse_page(path: &str, text: &str) -> Page {
    let root = markdown::to_mdast(text, &ParseOptions::gfm()).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut nodes = Vec::new();
    flatten_node(root, &mut nodes);
    Page { path: path.to_owned(), nodes }
}

/// Appends a node and everything in it, in the order of the text.
fn flatten_node(mut node: Node, nodes: &mut Vec<Node>) {
    let is_heading = matches!(node, Node::Heading(_));
    let children =
        node.children_mut().map(|children| if is_heading { children.clone() } else { std::mem::take(children) });
    nodes.push(node);
    children.into_iter().flatten().for_each(|child| flatten_node(child, nodes));
}

impl Page {
    /// The targets of links and images, as they are written.
    pub fn links<'a>(&'a self) -> Vec<&'a str> {
        let target = |node: &'a Node| match node {
            Node::Link(link) => Some(link.url.as_str()),
            Node::Image(image) => Some(image.url.as_str()),
            Node::Definition(definition) => Some(definition.url.as_str()),
            _ => None,
        };
        self.nodes.iter().filter_map(target).collect()
    }

    /// The anchors of the headings, as GitHub derives them; a repeated heading gets a number.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut anchors = BTreeSet::new();
        for heading in self.headings() {
            let anchor = derive_anchor(&heading);
            let count = counts.entry(anchor.clone()).or_default();
            anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
            *count += 1;
        }
        anchors
    }

    /// The texts of the headings, without markup.
    pub fn headings(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| matches!(node, Node::Heading(_))).map(Node::to_string).collect()
    }

    /// The texts in backticks, with line breaks as spaces.
    pub fn code_spans(&self) -> Vec<String> {
        let code = |node: &Node| match node {
            Node::InlineCode(code) => Some(code.value.replace('\n', " ")),
            _ => None,
        };
        self.nodes.iter().filter_map(code).collect()
    }

    /// The lines of the fenced blocks.
    pub fn code_lines<'a>(&'a self) -> Vec<&'a str> {
        let code = |node: &'a Node| match node {
            Node::Code(code) => Some(code.value.lines()),
            _ => None,
        };
        self.nodes.iter().filter_map(code).flatten().collect()
    }
}

/// Lower case, without punctuation, with hyphens for spaces.
fn derive_anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_headings_and_code_are_found_and_fences_are_not_read() {
        let text = "# A `b`: c\n\n| x |\n|---|\n| [d](e.md#f) and `g` |\n\n```\n[h](i.md)\n```\n\n# A `b`: c\n";
        let page = parse_page("x.md", text);
        assert_eq!(page.links(), ["e.md#f"]);
        assert_eq!(page.code_spans(), ["b", "g", "b"]);
        assert_eq!(page.code_lines(), ["[h](i.md)"]);
        assert_eq!(page.anchors().into_iter().collect::<Vec<_>>(), ["a-b-c", "a-b-c-1"]);
    }
}
