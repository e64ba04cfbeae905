//! The text of messages: the author's text without comments, and with expressions as parts.

use flowloom_core::code::Code;
use markdown::mdast::Node;

use super::expression::{Block, Chunk, Compiled, joined};
use super::nodes::{element, range};
use super::parse::Text;
use super::scope::Names;
use super::{Compiler, actions};

/// The context of a text.
pub(super) struct Around<'n> {
    pub(super) names: &'n Names,
    /// Names bound by the functions around a fragment.
    pub(super) locals: &'n [String],
    /// Whether actions are text here, as in included files and fragments.
    pub(super) is_inserted: bool,
}

/// A range of the text that is replaced.
struct Hole {
    start: usize,
    end: usize,
    put: Vec<Chunk>,
}

impl Compiler<'_> {
    /// The paragraphs of nodes without actions.
    pub(super) fn blocks(&mut self, nodes: &[&Node], text: &Text<'_>, around: &Around<'_>) -> Vec<Block> {
        let kept = nodes.iter().copied().filter(|node| !matches!(node, Node::Blockquote(_) | Node::Yaml(_)));
        let mut groups: Vec<Vec<&Node>> = Vec::new();
        for node in kept {
            match groups.last_mut() {
                // Nodes on the same line form one paragraph.
                Some(group)
                    if group.last().is_some_and(|last| !text.text[range(last).1..range(node).0].contains('\n')) =>
                {
                    group.push(node);
                }
                _ => groups.push(vec![node]),
            }
        }
        groups.iter().flat_map(|group| self.block(group, text, around)).collect()
    }

    /// One block: a paragraph, or the result of an expression that is a block of its own.
    fn block(&mut self, nodes: &[&Node], text: &Text<'_>, around: &Around<'_>) -> Vec<Block> {
        if let [Node::MdxFlowExpression(expression)] = nodes {
            let inner = text.expression(&expression.value, &expression.stops);
            return match self.expression(&inner, around.names, around.locals) {
                Some(Compiled::Blocks(blocks)) => blocks,
                Some(Compiled::Value(source)) => vec![vec![Chunk::Value(source)]],
                Some(Compiled::Nothing) | None => Vec::new(),
            };
        }
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return Vec::new() };
        let (start, end) = (range(first).0, range(last).1);
        let start = start + text.text[start..end].bytes().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let mut holes = Vec::new();
        if !is_module_code(first, &text.text[start..end]) {
            nodes.iter().for_each(|node| self.holes(node, text, around, &mut holes));
        }
        let block = assemble(text.text, start, end, holes);
        if block.is_empty() { Vec::new() } else { vec![block] }
    }

    fn holes(&mut self, node: &Node, text: &Text<'_>, around: &Around<'_>, holes: &mut Vec<Hole>) {
        let (start, end) = range(node);
        let expression = match node {
            Node::Blockquote(_) => {
                holes.push(comment(text.text, start, end));
                return;
            }
            Node::MdxFlowExpression(expression) => Some((&expression.value, &expression.stops)),
            Node::MdxTextExpression(expression) => Some((&expression.value, &expression.stops)),
            _ => None,
        };
        if let Some((value, stops)) = expression {
            let inner = text.expression(value, stops);
            let put = match self.expression(&inner, around.names, around.locals) {
                Some(Compiled::Blocks(blocks)) => joined(blocks),
                Some(Compiled::Value(source)) => vec![Chunk::Value(source)],
                Some(Compiled::Nothing) | None => Vec::new(),
            };
            holes.push(Hole { start, end, put });
            return;
        }
        if let Some((name, _)) = element(node)
            && !self.element_in_text(node, name, text, around)
        {
            return;
        }
        for child in node.children().into_iter().flatten() {
            self.holes(child, text, around, holes);
        }
    }

    /// Reports an element that stays text; `false` if it may not.
    fn element_in_text(&mut self, node: &Node, name: Option<&str>, text: &Text<'_>, around: &Around<'_>) -> bool {
        let Some(name) = name else { return true };
        let (start, _) = range(node);
        let end = start + 1 + name.len();
        let is_action = self.is_action(&actions::kebab(name));
        if is_action && !around.is_inserted {
            let is_inline = matches!(node, Node::MdxJsxTextElement(_));
            let (code, message, help) = if is_inline {
                let message = format!("the action <{name}> must be a block of its own, not part of a line");
                (
                    Code::InlineAction,
                    message,
                    "put it on a line of its own; a block's tags too stand on their own lines",
                )
            } else {
                let message = format!("the action <{name}> cannot run inside a list or another element");
                (Code::NestedAction, message, "move it out, to the left margin of its block")
            };
            self.report(text, code, start, end, message).help = Some(help.into());
            return false;
        }
        let (message, help) = if is_action {
            (format!("the action <{name}> stays text here: included files and fragments run no actions"), None)
        } else {
            let meant = self.action_like(name);
            let help = meant.map(|meant| format!("did you mean <{meant}>?"));
            (format!("<{name}> is not an action; it stays part of the text"), help)
        };
        let span = text.span(start, end);
        let code = if is_action { Code::ActionAsText } else { Code::UnknownElement };
        let diagnostic = self.problems.warn(code, span, message);
        diagnostic.file = text.file.to_owned();
        diagnostic.help = help;
        true
    }
}

/// Whether a paragraph consists of JavaScript imports and exports. They have no effect and are sent as text.
fn is_module_code(node: &Node, text: &str) -> bool {
    if !matches!(node, Node::Paragraph(_)) || !(text.starts_with("import ") || text.starts_with("export ")) {
        return false;
    }
    let allocator = oxc_allocator::Allocator::default();
    let parsed = oxc_parser::Parser::new(&allocator, text, oxc_span::SourceType::mjs()).parse();
    !parsed.panicked && !parsed.diagnostics.has_errors()
}

/// A comment with its lines, and with one of the empty lines around it.
fn comment(text: &str, start: usize, end: usize) -> Hole {
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let mut end = end;
    if !text[line..start].trim().is_empty() {
        return Hole { start, end, put: Vec::new() };
    }
    if text[end..].starts_with('\n') {
        end += 1;
    }
    let is_after_gap = text[..line].trim_end_matches([' ', '\t']).ends_with("\n\n");
    while is_after_gap
        && let Some(next) = text[end..].find('\n')
        && text[end..end + next].trim().is_empty()
    {
        end += next + 1;
    }
    Hole { start: line, end, put: Vec::new() }
}

/// The text from `start` to `end` with its holes filled. The indentation of the first line is removed from the others.
fn assemble(text: &str, start: usize, end: usize, mut holes: Vec<Hole>) -> Block {
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let indent = text[line..start].chars().take_while(|c| matches!(c, ' ' | '\t')).count();
    holes.sort_by_key(|hole| hole.start);
    let mut block = Block::new();
    let mut at = start;
    for hole in holes {
        push(&mut block, &text[at..hole.start.max(at)], indent);
        at = hole.end.max(at);
        block.extend(hole.put);
    }
    push(&mut block, &text[at.min(end)..end], indent);
    if let Some(Chunk::Text(last)) = block.last_mut() {
        last.truncate(last.trim_end_matches(['\n', ' ', '\t']).len());
    }
    block.retain(|chunk| !matches!(chunk, Chunk::Text(text) if text.is_empty()));
    block
}

fn push(block: &mut Block, piece: &str, indent: usize) {
    let mut text = String::with_capacity(piece.len());
    for (index, line) in piece.split('\n').enumerate() {
        if index == 0 {
            text.push_str(line);
            continue;
        }
        text.push('\n');
        let taken = line.bytes().take(indent).take_while(|b| matches!(b, b' ' | b'\t')).count();
        text.push_str(&line[taken..]);
    }
    if !text.is_empty() {
        block.push(Chunk::Text(text));
    }
}
