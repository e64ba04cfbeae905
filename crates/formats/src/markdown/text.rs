//! The text of messages: the author's text without comments, and with expressions as parts.

use std::ops::Range;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use markdown::mdast::Node;

use super::expression::{CompiledExpression, Paragraph, ParagraphPart, join_blocks};
use super::nodes::{node_range, read_element, text_range};
use super::parse::{self, TextPiece};
use super::scope::ScopeNames;
use super::{MarkdownCompiler, actions};

/// The context of a text.
#[derive(Clone, Copy)]
pub(super) struct TextContext<'n> {
    pub(super) names: &'n ScopeNames,
    /// Names bound by the functions around a fragment.
    pub(super) locals: &'n [String],
    /// Whether actions are text here, as in included files and fragments.
    pub(super) is_inserted: bool,
    /// Whether `<Else>` is an action here, as in a `<Cond>`.
    pub(super) has_else: bool,
    /// Whether the text is in an `<Else>` that is in no `<Cond>`.
    pub(super) is_stray_else: bool,
}

/// What to do about an `<Else>` that is in no `<Cond>`.
const STRAY_ELSE_HELP: &str = "put <Else> inside its <Cond>, directly before </Cond>";

/// A range of the text that is replaced.
struct Replacement {
    start: usize,
    end: usize,
    put: Vec<ParagraphPart>,
}

impl MarkdownCompiler<'_> {
    /// The paragraphs of nodes without actions.
    pub(super) fn compile_blocks(
        &mut self,
        nodes: &[&Node],
        text: &TextPiece<'_>,
        around: &TextContext<'_>,
    ) -> Vec<Paragraph> {
        let content_nodes = nodes.iter().copied().filter(|node| !is_comment(node, text.text));
        let mut groups: Vec<Vec<&Node>> = Vec::new();
        for node in content_nodes {
            match groups.last_mut() {
                // Nodes on the same line form one paragraph.
                Some(group)
                    if group.last().is_some_and(|last| {
                        !text.text[node_range(last).end..node_range(node).start].contains('\n')
                    }) =>
                {
                    group.push(node);
                }
                _ => groups.push(vec![node]),
            }
        }
        let mut blocks = Vec::new();
        for group in groups {
            blocks.extend(match group.as_slice() {
                [quote @ Node::Blockquote(_)] => self.compile_lazy_lines(quote, text, around),
                group => self.compile_block(group, text, around),
            });
        }
        blocks
    }

    /// One block: a paragraph, or the result of an expression that is a block of its own.
    fn compile_block(&mut self, nodes: &[&Node], text: &TextPiece<'_>, around: &TextContext<'_>) -> Vec<Paragraph> {
        if let [Node::MdxFlowExpression(expression)] = nodes {
            let inner = text.expression_piece(&expression.value, &expression.stops);
            self.warn_doubled_braces(&inner, around.names);
            return match self.compile_expression(&inner, around.names, around.locals) {
                Some(CompiledExpression::Blocks(blocks)) => blocks,
                Some(CompiledExpression::Value(source)) => vec![vec![ParagraphPart::Value(source)]],
                Some(CompiledExpression::Empty) | None => Vec::new(),
            };
        }
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return Vec::new() };
        let (start, end) = (node_range(first).start, node_range(last).end);
        // The parser leaves the last line that continues a comment out of every node.
        let end = last_quote(last)
            .and_then(|quote| lazy_ranges(text.text, quote).last().cloned())
            .map_or(end, |lazy| end.max(lazy.end));
        let start = start + text.text[start..end].bytes().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let mut holes = Vec::new();
        if !is_module_code(first, &text.text[start..end]) {
            nodes.iter().for_each(|node| self.collect_replacements(node, text, around, &mut holes));
        }
        let block = fill_replacements(text.text, start, end, holes);
        if block.is_empty() { Vec::new() } else { vec![block] }
    }

    fn collect_replacements(
        &mut self,
        node: &Node,
        text: &TextPiece<'_>,
        around: &TextContext<'_>,
        holes: &mut Vec<Replacement>,
    ) {
        let Range { start, end } = node_range(node);
        let expression = match node {
            Node::Text(_) => {
                holes.extend(escaping_backslashes(node, text.text));
                return;
            }
            Node::Blockquote(_) => {
                let kept = lazy_ranges(text.text, node);
                if kept.is_empty() {
                    holes.push(comment_range(text.text, start, end));
                } else {
                    holes.extend(comment_lines(text.text, start..end, &kept));
                    self.collect_kept(node, &kept, text, around, holes);
                }
                return;
            }
            Node::MdxFlowExpression(expression) => Some((&expression.value, &expression.stops)),
            Node::MdxTextExpression(expression) => Some((&expression.value, &expression.stops)),
            _ => None,
        };
        if let Some((value, stops)) = expression {
            let inner = text.expression_piece(value, stops);
            self.warn_doubled_braces(&inner, around.names);
            let put = match self.compile_expression(&inner, around.names, around.locals) {
                Some(CompiledExpression::Blocks(blocks)) => join_blocks(blocks),
                Some(CompiledExpression::Value(source)) => vec![ParagraphPart::Value(source)],
                Some(CompiledExpression::Empty) | None => Vec::new(),
            };
            holes.push(Replacement { start, end, put });
            return;
        }
        let mut around = *around;
        if let Some((name, _)) = read_element(node) {
            if !self.element_in_text(node, name, text, &around) {
                return;
            }
            around.is_stray_else |= name.is_some_and(actions::is_else);
        }
        for child in node.children().into_iter().flatten() {
            self.collect_replacements(child, text, &around, holes);
        }
    }

    /// Warns about `{{name}}` in a text, which is a reference in other formats, and here an object with one field.
    fn warn_doubled_braces(&mut self, expression: &TextPiece<'_>, names: &ScopeNames) {
        let written = expression.text.trim();
        let name = written.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).map(str::trim);
        let Some(name) = name.filter(|name| names.find_meaning(name).is_some()) else { return };
        let start = expression.text.find('{').unwrap_or_default();
        let span = expression.file_span(start, start + written.len());
        let message = format!("{{{{{name}}}}} is an object with the field {name}, not the value of {name}");
        let diagnostic = self.problems.add_warning(Code::NotAReference, span, message);
        diagnostic.help = Some(format!("write {{{name}}}"));
        diagnostic.fix = Some(Fix::new_suggestion(format!("write {{{name}}}"), vec![(span, name.to_owned())]));
    }

    /// Collects the lines of a block quote that are not comments.
    fn collect_kept(
        &mut self,
        quote: &Node,
        kept: &[Range<usize>],
        text: &TextPiece<'_>,
        around: &TextContext<'_>,
        holes: &mut Vec<Replacement>,
    ) {
        for child in quote.children().into_iter().flatten() {
            let range = node_range(child);
            if matches!(child, Node::Paragraph(_) | Node::Blockquote(_)) {
                self.collect_kept(child, kept, text, around, holes);
            } else if matches!(child, Node::Text(_)) {
                // A text may span several lines, of which some are comments.
                let all = escaping_backslashes(child, text.text);
                holes.extend(all.filter(|hole| kept.iter().any(|lines| lines.contains(&hole.start))));
            } else if kept.iter().any(|lines| lines.contains(&range.start)) {
                self.collect_replacements(child, text, around, holes);
            }
        }
    }

    /// The text in the lines of a block quote that are no comments.
    fn compile_lazy_lines(&mut self, quote: &Node, text: &TextPiece<'_>, around: &TextContext<'_>) -> Vec<Paragraph> {
        let mut blocks = Vec::new();
        // A tag that is never closed is left out for the parser, which then takes what follows it for a quote.
        let shorter = |range: &Range<usize>| range.len() < text.text.len();
        for range in lazy_ranges(text.text, quote).into_iter().filter(shorter) {
            let piece = text.slice(range.start, range.end);
            let nodes = parse::parse(&piece, false, self.problems).unwrap_or_default();
            blocks.extend(self.compile_blocks(&nodes.iter().collect::<Vec<_>>(), &piece, around));
        }
        blocks
    }

    /// Reports an element that stays text; `false` if it may not.
    fn element_in_text(
        &mut self,
        node: &Node,
        name: Option<&str>,
        text: &TextPiece<'_>,
        around: &TextContext<'_>,
    ) -> bool {
        let Some(name) = name else { return true };
        let start = node_range(node).start;
        let end = start + 1 + name.len();
        let kebab_name = actions::to_kebab_case(name);
        let is_action = self.is_action(&kebab_name) || (around.has_else && actions::is_else(name));
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
                let help = match around.is_stray_else {
                    true => STRAY_ELSE_HELP,
                    false => "move it out, to the left margin of its block",
                };
                (Code::NestedAction, message, help)
            };
            self.report_error(text, code, start, end, message).help = Some(help.into());
            return false;
        }
        let mut meant = None;
        let (message, help) = if is_action {
            (format!("the action <{name}> stays text here: included files and fragments run no actions"), None)
        } else {
            meant = self.suggest_action(name);
            let help = match actions::is_else(name) {
                true => Some(STRAY_ELSE_HELP.to_owned()),
                false => meant.as_ref().map(|meant| format!("did you mean <{meant}>?")),
            };
            (format!("<{name}> is not an action; it stays part of the text"), help)
        };
        let span = text.file_span(start, end);
        let code = if is_action { Code::ActionAsText } else { Code::UnknownElement };
        let diagnostic = self.problems.add_warning(code, span, message);
        diagnostic.file = text.file.to_owned();
        diagnostic.help = help;
        // Without content, the name stands in one tag.
        let is_alone = text.text[node_range(node)].ends_with("/>");
        diagnostic.fix = meant.filter(|_| is_alone).map(|meant| {
            let name = Span { start: span.start + 1, length: name.len() };
            Fix::new_suggestion(format!("write <{meant}>"), vec![(name, meant.to_string())])
        });
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

/// The backslashes of a text that are not sent, as holes.
fn escaping_backslashes(node: &Node, text: &str) -> impl Iterator<Item = Replacement> {
    let range = text_range(node, text);
    let found = escaped_signs(&text[range.clone()]).map(move |at| range.start + at);
    found.map(|at| Replacement { start: at, end: at + 1, put: Vec::new() })
}

/// The backslashes before braces, `<` and `>` that are only signs. They are for the parser of this format; everything else is
/// sent as it is written.
fn escaped_signs(source: &str) -> impl Iterator<Item = usize> {
    let mut is_escaped = false;
    source.char_indices().zip(source.chars().skip(1)).filter_map(move |((at, c), next)| {
        let is_escape = c == '\\' && !is_escaped;
        is_escaped = is_escape;
        (is_escape && matches!(next, '{' | '}' | '<' | '>')).then_some(at)
    })
}

/// Whether nothing of a node is content: the frontmatter, and block quotes of which every line is a comment.
pub(super) fn is_comment(node: &Node, text: &str) -> bool {
    match node {
        Node::Blockquote(_) => lazy_ranges(text, node).is_empty(),
        node => matches!(node, Node::Yaml(_)),
    }
}

/// The lines of a block quote that do not start with `>`. Only lines that start with it are comments, but Markdown also
/// counts the lines below them that continue their paragraph. The parser leaves the last of those out of the quote.
fn lazy_ranges(text: &str, quote: &Node) -> Vec<Range<usize>> {
    let Range { start, end } = node_range(quote);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        let content = line.trim();
        let is_after = at >= end;
        if is_after && (content.is_empty() || !ends_with_paragraph(quote) || starts_block(content)) {
            break;
        }
        if !content.is_empty() && !content.starts_with('>') {
            match ranges.last_mut().filter(|last| last.end == at) {
                Some(last) => last.end = at + line.len(),
                None => ranges.push(at..at + line.len()),
            }
        }
        at += line.len();
    }
    ranges
}

/// The block quote with which a node ends.
fn last_quote(node: &Node) -> Option<&Node> {
    match node {
        Node::Blockquote(_) => Some(node),
        Node::List(_) | Node::ListItem(_) => node.children()?.last().and_then(last_quote),
        _ => None,
    }
}

/// The lines of a block quote that are comments, as holes in the text: all but those that are kept.
fn comment_lines(text: &str, quote: Range<usize>, kept: &[Range<usize>]) -> Vec<Replacement> {
    let Range { start, end } = quote;
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let mut at = if text[line..start].trim().is_empty() { line } else { start };
    let mut holes = Vec::new();
    for lines in kept {
        holes.push(Replacement { start: at, end: lines.start, put: Vec::new() });
        at = lines.end;
    }
    if at < end {
        holes.push(Replacement { start: at, end, put: Vec::new() });
    }
    holes
}

/// Whether the last thing in a node is a paragraph, which the next line continues.
fn ends_with_paragraph(node: &Node) -> bool {
    match node.children().and_then(|children| children.last()) {
        Some(Node::Paragraph(_)) => true,
        Some(inner @ (Node::Blockquote(_) | Node::List(_) | Node::ListItem(_))) => ends_with_paragraph(inner),
        _ => false,
    }
}

/// Whether a line may start another block.
fn starts_block(line: &str) -> bool {
    let is_item = line.split_whitespace().next().is_some_and(|first| {
        matches!(first, "-" | "*" | "+") || first.trim_end_matches(['.', ')']).bytes().all(|byte| byte.is_ascii_digit())
    });
    is_item
        || line.starts_with(['<', '>', '#', '{'])
        || ["```", "~~~", "---", "***", "___"].iter().any(|mark| line.starts_with(mark))
}

/// A comment with its lines, and with one of the empty lines around it.
fn comment_range(text: &str, start: usize, end: usize) -> Replacement {
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let mut end = end;
    if !text[line..start].trim().is_empty() {
        return Replacement { start, end, put: Vec::new() };
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
    Replacement { start: line, end, put: Vec::new() }
}

/// The text from `start` to `end` with its holes filled. The indentation of the first line is removed from the others. Lines end
/// with a line feed, however the file was stored, so that prompts are the same on all systems.
fn fill_replacements(text: &str, start: usize, end: usize, mut holes: Vec<Replacement>) -> Paragraph {
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let indent = text[line..start].chars().take_while(|c| matches!(c, ' ' | '\t')).count();
    holes.sort_by_key(|hole| hole.start);
    let mut block = Paragraph::new();
    let mut at = start;
    for hole in holes {
        push_text(&mut block, &text[at..hole.start.max(at)], indent);
        at = hole.end.max(at);
        block.extend(hole.put);
    }
    push_text(&mut block, &text[at.min(end)..end], indent);
    if let Some(ParagraphPart::Text(last)) = block.last_mut() {
        last.truncate(last.trim_end_matches(['\n', '\r', ' ', '\t']).len());
    }
    block.retain(|chunk| !matches!(chunk, ParagraphPart::Text(text) if text.is_empty()));
    block
}

fn push_text(block: &mut Paragraph, piece: &str, indent: usize) {
    let mut text = String::with_capacity(piece.len());
    for (index, line) in piece.replace("\r\n", "\n").split('\n').enumerate() {
        if index == 0 {
            text.push_str(line);
            continue;
        }
        text.push('\n');
        let taken = line.bytes().take(indent).take_while(|b| matches!(b, b' ' | b'\t')).count();
        text.push_str(&line[taken..]);
    }
    if !text.is_empty() {
        block.push(ParagraphPart::Text(text));
    }
}
