//! The canonical layout of a Markdown workflow: the order of the frontmatter, the blank lines between blocks, the attributes
//! of actions, and the indentation of their content.
//!
//! The text of prompts is sent to models as it is written, so nothing inside a block of text changes. A layout that would
//! not parse as the same blocks is given up, first without the indentation: the text then stays as it is.

mod frontmatter;
mod same;
mod tag;

use std::borrow::Cow;
use std::ops::Range;

use markdown::mdast::Node;

use same::{BlockList, have_same_blocks};

use super::actions::{BUILT_IN_ACTIONS, is_else, to_kebab_case};
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
    if let Some(laid_out) = write_layout(file, text, &nodes, true) {
        return Some(laid_out);
    }
    let kept = write_layout(file, text, &nodes, false).filter(|kept| is_stable(file, kept));
    Some(kept.unwrap_or_else(|| text.to_owned()))
}

/// The text in the canonical layout, with the indentation of blocks or without; `None` if it would not parse as the same
/// blocks.
fn write_layout(file: &str, text: &str, nodes: &[Node], moves_blocks: bool) -> Option<String> {
    let mut layout = Layout { text, line_end: find_line_end(text), moves_blocks, edits: Vec::new() };
    layout.lay_out_file(nodes);
    let laid_out = layout.apply_edits();
    let again = parse_again(file, &laid_out)?;
    let (before, after) = (BlockList::new(nodes, text), BlockList::new(&again, &laid_out));
    have_same_blocks(before, after).then_some(laid_out)
}

fn parse_again(file: &str, text: &str) -> Option<Vec<Node>> {
    let piece = TextPiece { file, whole: text, stops: vec![(0, 0)], text };
    parse::parse(&piece, true, &mut Problems::new(file))
}

/// Whether a text that was laid out without the indentation of blocks would stay as it is.
fn is_stable(file: &str, text: &str) -> bool {
    let Some(nodes) = parse_again(file, text) else { return false };
    let laid_out = write_layout(file, text, &nodes, true).or_else(|| write_layout(file, text, &nodes, false));
    laid_out.is_none_or(|laid_out| laid_out == text)
}

/// The bytes of a block. The parser counts the empty lines below a list, and the white space before some blocks.
fn block_range(block: &Node, text: &str) -> Range<usize> {
    let Range { start, end } = node_range(block);
    let Some(source) = text.get(start..end) else { return start..end };
    let start = start + source.len() - source.trim_start_matches([' ', '\t']).len();
    match block {
        Node::List(_) => start..start.max(end - (source.len() - source.trim_end().len())),
        _ => start..end,
    }
}

/// Whether a node is an action of this format. Functions of the configuration are not known here; their elements stay as
/// they are written. `has_else`: the node is in a `<Cond>`.
fn is_action(node: &Node, has_else: bool) -> bool {
    let Node::MdxJsxFlowElement(_) = node else { return false };
    let name = action_name(node);
    (has_else && is_else(&name)) || BUILT_IN_ACTIONS.iter().any(|known| to_kebab_case(known) == name)
}

/// Whether an `<Else>` in this action is one, too.
fn may_hold_else(action: &Node) -> bool {
    action_name(action) == "cond"
}

fn action_name(node: &Node) -> String {
    read_element(node).and_then(|(name, _)| name).map(to_kebab_case).unwrap_or_default()
}

/// Where blocks are.
#[derive(Clone, Copy)]
struct Around {
    /// The number of actions around them.
    depth: usize,
    has_else: bool,
}

struct Layout<'a> {
    text: &'a str,
    line_end: &'static str,
    /// Whether blocks get the indentation of their depth.
    moves_blocks: bool,
    /// Replacements, in order.
    edits: Vec<(Range<usize>, String)>,
}

impl<'a> Layout<'a> {
    fn lay_out_file(&mut self, nodes: &[Node]) {
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return };
        let start = block_range(first, self.text).start;
        let line = self.line_start(start);
        self.replace_blank(0..line, "");
        if let Node::Yaml(yaml) = first {
            let start = start + self.text[start..].find('\n').map_or(0, |at| at + 1);
            let sorted = frontmatter::sort_sections(&yaml.value);
            self.edits.extend(sorted.map(|sorted| (start..start + yaml.value.len(), sorted)));
        }
        let around = Around { depth: 0, has_else: false };
        let blocks = if matches!(first, Node::Yaml(_)) { &nodes[1..] } else { nodes };
        // A first phase without actions is the description of the workflow, which is shown as it is written.
        let phase = blocks.iter().position(|node| matches!(node, Node::ThematicBreak(_))).unwrap_or(0);
        let is_described = phase > 0 && !blocks[..phase].iter().any(|node| is_action(node, false));
        if let ([Node::Yaml(_), ..], Some(block)) = (nodes, blocks.first()) {
            let indent =
                if is_described { self.written_indent(block) } else { self.choose_indent(None, block, around) };
            self.lay_out_gap(first, block, &indent, around);
        } else if !is_described {
            let indent = self.choose_indent(None, first, around);
            self.replace_blank(line..start, &indent);
        }
        self.lay_out_blocks(&blocks[if is_described { phase - 1 } else { 0 }..], around);
        let end = block_range(last, self.text).end;
        let line_end = self.line_end;
        self.replace_blank(end..self.text.len(), line_end);
    }

    /// Lays out blocks that follow each other.
    fn lay_out_blocks(&mut self, blocks: &[Node], around: Around) {
        let mut previous: Option<&Node> = None;
        for (index, block) in blocks.iter().enumerate() {
            let indent = self.choose_indent(previous, block, around);
            if is_action(block, around.has_else) {
                self.lay_out_action(block, &indent, around);
            } else if let Some(lines) = self.find_comment_lines(block).filter(|_| self.moves_blocks) {
                lines.into_iter().skip(1).for_each(|line| self.replace_blank(line, &indent));
            }
            if let Some(next) = blocks.get(index + 1) {
                let indent = self.choose_indent(Some(block), next, around);
                self.lay_out_gap(block, next, &indent, around);
            }
            previous = Some(block);
        }
    }

    /// The indentation of a block: two blanks for each action around it. Text of several lines stays where it is, because the
    /// white space before its further lines is sent, and so does what would become a part of a list above it.
    fn choose_indent(&self, previous: Option<&Node>, block: &Node, around: Around) -> Cow<'a, str> {
        let range = block_range(block, self.text);
        let written = self.written_indent(block);
        let is_one_line = || self.text.get(range.clone()).is_some_and(|source| !source.contains('\n'));
        let can_move = match block {
            Node::List(_) => false,
            Node::Blockquote(_) => self.find_comment_lines(block).is_some(),
            block if is_action(block, around.has_else) => tag::read_tag(&self.text[range.clone()]).is_some(),
            _ => is_one_line(),
        };
        let columns = around.depth * 2;
        let stays_outside =
            previous.is_none_or(|previous| self.find_list_column(previous).is_none_or(|at| columns < at));
        if self.moves_blocks && can_move && stays_outside && self.starts_line(range.start) {
            return " ".repeat(columns).into();
        }
        written
    }

    /// The column at which a block would be a part of the list that this node is; `None` for other nodes.
    fn find_list_column(&self, node: &Node) -> Option<usize> {
        let Node::List(list) = node else { return None };
        let start = block_range(list.children.last()?, self.text).start;
        // The sign of an item and the blank after it.
        Some(start - self.line_start(start) + 2)
    }

    /// The white space before each line of a comment; `None` if the block is none, or has lines without a sign.
    fn find_comment_lines(&self, block: &Node) -> Option<Vec<Range<usize>>> {
        let Node::Blockquote(_) = block else { return None };
        let range = block_range(block, self.text);
        let mut at = self.line_start(range.start);
        let mut found = Vec::new();
        for line in self.text[at..range.end].split_inclusive('\n') {
            let indent = line.len() - line.trim_start().len();
            found.push(at..at + indent);
            at += line.len();
            if !line[indent..].starts_with('>') {
                return None;
            }
        }
        Some(found)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |line_end| line_end + 1)
    }

    fn starts_line(&self, at: usize) -> bool {
        self.text[self.line_start(at)..at].trim().is_empty()
    }

    fn written_indent(&self, block: &Node) -> Cow<'a, str> {
        let start = block_range(block, self.text).start;
        let before = &self.text[self.line_start(start)..start];
        Cow::Borrowed(&before[..before.len() - before.trim_start().len()])
    }

    /// One blank line between two blocks. Where there is none, one is added next to actions and breaks only.
    fn lay_out_gap(&mut self, block: &Node, next: &Node, indent: &str, around: Around) {
        let gap = block_range(block, self.text).end..block_range(next, self.text).start;
        let lines = self.text.get(gap.clone()).unwrap_or_default().matches('\n').count();
        let stands_alone =
            |node: &Node| is_action(node, around.has_else) || matches!(node, Node::ThematicBreak(_) | Node::Yaml(_));
        let is_comment = |node: &Node| matches!(node, Node::Blockquote(_));
        let is_added = (stands_alone(block) || stands_alone(next)) && !is_comment(block) && !is_comment(next);
        match lines {
            0 => {}
            1 if !is_added => self.replace_gap(gap, 1, indent),
            _ => self.replace_gap(gap, 2, indent),
        }
    }

    /// Replaces white space between two nodes by line ends and the indentation of the second one.
    fn replace_gap(&mut self, gap: Range<usize>, line_ends: usize, indent: &str) {
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
    fn lay_out_action(&mut self, action: &Node, indent: &str, around: Around) {
        let range = block_range(action, self.text);
        let Some(tag) = tag::read_tag(&self.text[range.clone()]) else { return };
        let tag_range = range.start..range.start + tag.length;
        if self.starts_line(range.start) {
            let new = tag::write_tag(&tag, indent, self.line_end);
            self.edits.extend((new != self.text[tag_range.clone()]).then_some((tag_range.clone(), new)));
        }
        let Some((_, children)) = read_element(action) else { return };
        let (Some(first), Some(last)) = (children.first(), children.last()) else { return };
        let inside = Around { depth: around.depth + 1, has_else: may_hold_else(action) };
        let first_indent = self.choose_indent(None, first, inside);
        self.lay_out_border(tag_range.end..block_range(first, self.text).start, first, &first_indent, inside);
        self.lay_out_blocks(children, inside);
        let close = self.text[..range.end].rfind("</").unwrap_or(range.end);
        self.lay_out_border(block_range(last, self.text).end.min(close)..close, last, indent, inside);
    }

    /// No blank line between a tag and the first or last block in it, if that is an action or a paragraph.
    fn lay_out_border(&mut self, gap: Range<usize>, block: &Node, indent: &str, around: Around) {
        let lines = self.text.get(gap.clone()).unwrap_or_default().matches('\n').count();
        let is_plain = is_action(block, around.has_else) || matches!(block, Node::Paragraph(_) | Node::Heading(_));
        if lines > 0 {
            self.replace_gap(gap, if is_plain || lines == 1 { 1 } else { 2 }, indent);
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
