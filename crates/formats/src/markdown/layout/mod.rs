//! The canonical layout of a Markdown workflow: the order of the frontmatter, the blank lines between blocks, and the
//! attributes of actions.
//!
//! The text of prompts is sent to models as it is written, so nothing inside a block of text changes. A layout that would
//! not parse as the same blocks is given up: the text then stays as it is.

mod frontmatter;
mod same;
mod tag;

use std::ops::Range;

use markdown::mdast::Node;

use same::{BlockList, have_same_blocks};

use super::actions::{BUILT_IN_ACTIONS, to_kebab_case};
use super::nodes::{node_range, read_element};
use super::parse::{self, TextPiece};
use crate::layout::find_line_end;
use crate::problems::Problems;

/// The text in the canonical layout; `None`, with an error, if it does not parse.
pub(super) fn lay_out(file: &str, text: &str, problems: &mut Problems) -> Option<String> {
    let whole = text;
    let text = whole.trim_start_matches('\u{feff}');
    // Problems have the places of the file, with its mark.
    let piece = TextPiece { file, whole, stops: vec![(0, whole.len() - text.len())], text };
    let nodes = parse::parse(&piece, true, problems)?;
    let mut layout = Layout { text, line_end: find_line_end(text), edits: Vec::new() };
    layout.lay_out_file(&nodes);
    let laid_out = layout.apply_edits();
    let piece = TextPiece { file, whole: &laid_out, stops: vec![(0, 0)], text: &laid_out };
    let again = parse::parse(&piece, true, &mut Problems::new(file));
    let is_same = again.is_some_and(|again| {
        have_same_blocks(BlockList { blocks: &nodes, text }, BlockList { blocks: &again, text: &laid_out })
    });
    Some(if is_same { laid_out } else { text.to_owned() })
}

/// The bytes of a block. Those of a list may include the empty lines below it.
fn block_range(block: &Node, text: &str) -> Range<usize> {
    let range = node_range(block);
    match (block, text.get(range.clone())) {
        (Node::List(_), Some(source)) => range.start..range.start + source.trim_end().len(),
        _ => range,
    }
}

/// Whether a node is an action of this format. Functions of the configuration are not known here; their elements stay as
/// they are written.
fn is_action(node: &Node) -> bool {
    let Node::MdxJsxFlowElement(element) = node else { return false };
    let name = element.name.as_deref().map(to_kebab_case).unwrap_or_default();
    BUILT_IN_ACTIONS.iter().any(|known| to_kebab_case(known) == name)
}

struct Layout<'a> {
    text: &'a str,
    line_end: &'static str,
    /// Replacements, in order.
    edits: Vec<(Range<usize>, String)>,
}

impl Layout<'_> {
    fn lay_out_file(&mut self, nodes: &[Node]) {
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return };
        let start = node_range(first).start;
        let line = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        self.replace_blank(0..line, "");
        if let Node::Yaml(yaml) = first {
            let start = start + self.text[start..].find('\n').map_or(0, |at| at + 1);
            let sorted = frontmatter::sort_sections(&yaml.value);
            self.edits.extend(sorted.map(|sorted| (start..start + yaml.value.len(), sorted)));
        }
        let blocks = if matches!(first, Node::Yaml(_)) { &nodes[1..] } else { nodes };
        if let ([Node::Yaml(_), ..], Some(block)) = (nodes, blocks.first()) {
            self.lay_out_gap(first, block);
        }
        // A first phase without actions is the description of the workflow, which is shown as it is written.
        let phase = blocks.iter().position(|node| matches!(node, Node::ThematicBreak(_))).unwrap_or(0);
        let described = if blocks[..phase].iter().any(is_action) { 0 } else { phase.saturating_sub(1) };
        self.lay_out_blocks(&blocks[described.min(blocks.len())..]);
        let end = block_range(last, self.text).end;
        let line_end = self.line_end;
        self.replace_blank(end..self.text.len(), line_end);
    }

    /// Lays out blocks that follow each other.
    fn lay_out_blocks(&mut self, blocks: &[Node]) {
        for (index, block) in blocks.iter().enumerate() {
            if is_action(block) {
                self.lay_out_action(block);
            }
            if let Some(next) = blocks.get(index + 1) {
                self.lay_out_gap(block, next);
            }
        }
    }

    /// One blank line between two blocks. Where there is none, one is added next to actions and breaks only.
    fn lay_out_gap(&mut self, block: &Node, next: &Node) {
        let gap = block_range(block, self.text).end..node_range(next).start;
        let lines = self.text.get(gap.clone()).unwrap_or_default().matches('\n').count();
        let stands_alone = |node: &Node| is_action(node) || matches!(node, Node::ThematicBreak(_) | Node::Yaml(_));
        let is_comment = |node: &Node| matches!(node, Node::Blockquote(_));
        let is_added = (stands_alone(block) || stands_alone(next)) && !is_comment(block) && !is_comment(next);
        if lines > 1 || (lines == 1 && is_added) {
            self.replace_gap(gap, 2);
        }
    }

    /// Replaces white space between two nodes by line ends. The indentation of the second one stays.
    fn replace_gap(&mut self, gap: Range<usize>, line_ends: usize) {
        let text = self.text;
        let indent = text[gap.clone()].rfind('\n').map_or("", |at| &text[gap.start + at + 1..gap.end]);
        let new = format!("{}{indent}", self.line_end.repeat(line_ends));
        self.replace_blank(gap, &new);
    }

    /// Replaces a range if it holds nothing but white space.
    fn replace_blank(&mut self, range: Range<usize>, new: &str) {
        if self.text.get(range.clone()).is_some_and(|old| old != new && old.trim().is_empty()) {
            self.edits.push((range, new.to_owned()));
        }
    }

    /// Lays out the tag of an action, and the blocks in it.
    fn lay_out_action(&mut self, action: &Node) {
        let range = node_range(action);
        let Some(tag) = tag::read_tag(&self.text[range.clone()]) else { return };
        let line = self.text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let indent = &self.text[line..range.start];
        let tag_range = range.start..range.start + tag.length;
        if indent.trim().is_empty() {
            let new = tag::write_tag(&tag, indent, self.line_end);
            self.edits.extend((new != self.text[tag_range.clone()]).then_some((tag_range.clone(), new)));
        }
        let Some((_, children)) = read_element(action) else { return };
        let (Some(first), Some(last)) = (children.first(), children.last()) else { return };
        self.lay_out_border(tag_range.end..node_range(first).start, first);
        self.lay_out_blocks(children);
        let close = self.text[..range.end].rfind("</").unwrap_or(range.end);
        self.lay_out_border(block_range(last, self.text).end.min(close)..close, last);
    }

    /// No blank line between a tag and the first or last block in it, if that is an action or a paragraph.
    fn lay_out_border(&mut self, gap: Range<usize>, block: &Node) {
        let lines = self.text.get(gap.clone()).unwrap_or_default().matches('\n').count();
        let is_plain = is_action(block) || matches!(block, Node::Paragraph(_) | Node::Heading(_));
        if lines > 1 {
            self.replace_gap(gap, if is_plain { 1 } else { 2 });
        }
    }

    fn apply_edits(mut self) -> String {
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut out, mut at) = (String::with_capacity(self.text.len()), 0);
        for (range, new) in &self.edits {
            if range.start < at {
                continue;
            }
            out.push_str(&self.text[at..range.start]);
            out.push_str(new);
            at = range.end;
        }
        out.push_str(&self.text[at..]);
        out
    }
}
