//! Parses Markdown with expressions and elements into a tree with file positions.

use std::cell::Cell;
use std::ops::Range;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, LineTable, Position, Span};
use markdown::mdast::Node;
use markdown::message::Place;
use markdown::{Constructs, MdxSignal, ParseOptions, to_mdast};

use super::lex;
use super::nodes::text_range;
use crate::problems::Problems;

/// Budget for finding the ends of expressions, in scanned bytes: a factor per byte of the file, and a constant.
const SCAN_BUDGET_BYTES: (usize, usize) = (64, 4 << 20);

/// A piece of Markdown with its position.
#[derive(Clone, Debug)]
pub(super) struct TextPiece<'a> {
    /// The path of the file.
    pub(super) file: &'a str,
    /// The whole text of the file.
    pub(super) whole: &'a str,
    /// Maps offsets in this piece to offsets in the file: `(offset here, offset in the file)`.
    pub(super) stops: Vec<(usize, usize)>,
    /// The text of the piece.
    pub(super) text: &'a str,
}

impl<'a> TextPiece<'a> {
    /// A part of the piece.
    pub(super) fn slice<'t>(&'t self, start: usize, end: usize) -> TextPiece<'t> {
        let inner = self.stops.iter().filter(|(from, _)| start < *from && *from < end);
        let stops = std::iter::once((0, self.file_offset(start))).chain(inner.map(|(from, to)| (from - start, *to)));
        TextPiece { file: self.file, whole: self.whole, stops: stops.collect(), text: &self.text[start..end] }
    }

    /// The text of an expression in the piece.
    pub(super) fn expression_piece<'t>(&'t self, value: &'t str, stops: &[(usize, usize)]) -> TextPiece<'t> {
        let stops = stops.iter().map(|(from, to)| (*from, self.file_offset(*to))).collect();
        TextPiece { file: self.file, whole: self.whole, stops, text: value }
    }

    /// The offset in the file of byte `at` of this piece.
    pub(super) fn file_offset(&self, at: usize) -> usize {
        map_offset(&self.stops, at)
    }

    /// The span in the file of a range of this piece.
    pub(super) fn file_span(&self, start: usize, end: usize) -> Span {
        let (start, end) = (self.file_offset(start), self.file_offset(end));
        Span { start, length: end.saturating_sub(start) }
    }
}

/// Finds lines and columns of the file that was used last in constant time.
#[derive(Default)]
pub(super) struct Lines {
    file: String,
    table: Option<LineTable>,
}

impl Lines {
    /// The position of a byte offset.
    pub(super) fn find_position(&mut self, text: &TextPiece<'_>, offset: usize) -> Position {
        if self.file != text.file {
            self.file = text.file.to_owned();
            self.table = None;
        }
        self.table.get_or_insert_with(|| LineTable::new(text.whole)).find_position(text.whole, offset)
    }
}

/// The offset in the file of byte `at` of a text assembled from pieces.
pub(super) fn map_offset(stops: &[(usize, usize)], at: usize) -> usize {
    let index = stops.partition_point(|(from, _)| *from <= at);
    match index.checked_sub(1).and_then(|index| stops.get(index)) {
        Some((from, to)) => to + (at - from),
        None => at,
    }
}

/// The tree of a text; `None`, with an error, if it cannot be parsed.
pub(super) fn parse(text: &TextPiece<'_>, is_file: bool, problems: &mut Problems) -> Option<Vec<Node>> {
    parse_without(text, is_file, problems, MAX_OPEN_TAGS)
}

/// The same. Up to `left` tags that are never closed are left out, so that the problems of the rest are reported, too.
fn parse_without(text: &TextPiece<'_>, is_file: bool, problems: &mut Problems, left: u32) -> Option<Vec<Node>> {
    let looks = Cell::new(SCAN_BUDGET_BYTES.0 * text.text.len() + SCAN_BUDGET_BYTES.1);
    let constructs = Constructs { frontmatter: is_file, mdx_esm: false, ..Constructs::mdx() };
    let hook = move |expression: &str, _: &markdown::MdxExpressionKind| {
        let (source, rule) = (Box::new("flowloom".to_owned()), Box::new("expression".to_owned()));
        let Some(left) = looks.get().checked_sub(expression.len()) else {
            return MdxSignal::Error("there are too many braces".into(), 0, source, Box::new("complex".to_owned()));
        };
        looks.set(left);
        match lex::scan_expression(expression).end.find_problem() {
            None => MdxSignal::Ok,
            Some(problem) => MdxSignal::Eof(format!("the expression is not closed: {problem}"), source, rule),
        }
    };
    let options = ParseOptions { constructs, mdx_expression_parse: Some(Box::new(hook)), ..ParseOptions::default() };
    match to_mdast(text.text, &options) {
        Ok(Node::Root(root)) => match find_unfinished_tag(&root.children, text.text) {
            None => Some(root.children),
            Some(at) => {
                let span = text.file_span(at, at + 1);
                let diagnostic = problems.add_error(Code::MarkdownSyntax, span, "this tag is not closed");
                diagnostic.file = text.file.to_owned();
                diagnostic.help = Some("end it with > or />, or write \\< for a sign that is plain text".into());
                None
            }
        },
        Ok(_) => None,
        Err(message) => {
            let at = match message.place.as_deref() {
                Some(Place::Point(point)) => point.offset,
                Some(Place::Position(position)) => position.start.offset,
                None => 0,
            };
            let code = if *message.rule_id == "complex" { Code::TooComplex } else { Code::MarkdownSyntax };
            let opened = find_opened_tag(text.text, &message.reason);
            // A tag that is never closed is the mistake, not the end of the text.
            let (start, end) = match &opened {
                Some(tag) if message.reason.starts_with("Expected a closing tag") => (tag.start, tag.end),
                _ => (at, (at + 1).min(text.text.len())),
            };
            let span = text.file_span(start, end);
            let (help, fix) = syntax_help(text, at, &message.reason);
            let is_open = message.reason.starts_with("Expected a closing tag");
            let masked =
                opened.as_ref().filter(|_| is_open && left > 0).and_then(|tag| blank_tag(text.text, tag.start));
            let reason = opened.map_or_else(|| message.reason.clone(), |tag| tag.reason);
            let diagnostic = problems.add_error(code, span, clean_reason(text.text, at, &reason));
            diagnostic.file = text.file.to_owned();
            (diagnostic.help, diagnostic.fix) = (help, fix);
            let masked = masked?;
            // The tag may give names to what is in it.
            problems.distrust_names();
            parse_without(&TextPiece { text: &masked, ..text.clone() }, is_file, problems, left - 1)
        }
    }
}

/// The offset at which the parser treated the start of a tag as text because its paragraph ended within it.
fn find_unfinished_tag(nodes: &[Node], text: &str) -> Option<usize> {
    let in_text = |node: &Node| {
        let Node::Text(_) = node else { return None };
        let Range { start, end } = text_range(node, text);
        let source = text.get(start..end)?;
        source
            .match_indices('<')
            .map(|(at, _)| at)
            .find(|at| {
                let escapes = source[..*at].bytes().rev().take_while(|byte| *byte == b'\\').count();
                let rest = &source[at + 1..];
                // A `<` followed by white space is only a sign.
                let is_sign = rest.starts_with(char::is_whitespace) && !rest.trim().is_empty();
                escapes % 2 == 0 && !is_sign
            })
            .map(|at| start + at)
    };
    nodes.iter().find_map(|node| in_text(node).or_else(|| find_unfinished_tag(node.children()?, text)))
}

/// Maximum number of tags that are never closed and that are left out.
const MAX_OPEN_TAGS: u32 = 10;

/// The text with blanks in the place of the tag at `start`; `None` if the tag itself has no end.
fn blank_tag(text: &str, start: usize) -> Option<String> {
    let end = start + lex::measure_tag(text.get(start..)?)?;
    let blanks: String = text[start..end].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    Some(format!("{}{blanks}{}", &text[..start], &text[end..]))
}

/// The tag that an error names as not closed.
struct OpenedTag {
    /// The place of `<` and the name in the text.
    start: usize,
    end: usize,
    /// The error without the position of the tag.
    reason: String,
}

/// Finds the tag whose position an error states as `(LINE:COLUMN)`.
fn find_opened_tag(text: &str, reason: &str) -> Option<OpenedTag> {
    let (before, rest) = reason.rsplit_once(" (")?;
    let (position, after) = rest.split_once(')')?;
    let (line, column) = position.split_once(':')?;
    let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
    let line_start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let skipped: usize = text.get(line_start..)?.chars().take(column.checked_sub(1)?).map(char::len_utf8).sum();
    let start = line_start + skipped;
    let name = text.get(start..)?.strip_prefix('<')?.chars().take_while(|c| c.is_alphanumeric()).map(char::len_utf8);
    Some(OpenedTag { start, end: start + 1 + name.sum::<usize>(), reason: format!("{before}{after}") })
}

/// The parser's message without the parts that only its authors understand.
fn clean_reason(text: &str, at: usize, reason: &str) -> String {
    let reason = reason.split(" (note").next().unwrap_or(reason).trim().replace("\u{2019}", "'");
    let mut reason = reason.trim_end_matches('.').to_owned();
    if let Some(first) = reason.get(..1) {
        reason.replace_range(..1, &first.to_lowercase());
    }
    // The name of an unclosed element may be available only from the text.
    match text.get(..at).and_then(|before| before.rfind('<')).and_then(|open| text.get(open + 1..)) {
        Some(after) if reason.contains("in name") => {
            let name: String = after.chars().take_while(|c| c.is_alphanumeric()).collect();
            if name.is_empty() { reason } else { format!("{reason} (after <{name})") }
        }
        _ => reason,
    }
}

/// Help and a fix for the most common mistakes.
fn syntax_help(text: &TextPiece<'_>, at: usize, reason: &str) -> (Option<String>, Option<Fix>) {
    let before = text.text.get(..at).unwrap_or_default();
    let after = text.text.get(at..).unwrap_or_default();
    let attribute: String =
        before.chars().rev().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).collect();
    if after.starts_with('{') && !attribute.is_empty() && (reason.contains("attribute") || reason.contains("name")) {
        let attribute: String = attribute.chars().rev().collect();
        let edits = vec![(text.file_span(at, at), "=".to_owned())];
        let fix = Fix::new_safe(format!("write {attribute}={{…}} with an equals sign"), edits);
        return (Some(format!("write {attribute}={{…}} with an equals sign")), Some(fix));
    }
    if after.starts_with("!--") || (before.ends_with('<') && after.starts_with('!')) {
        return (Some("write a comment as a line that starts with >, or as {/* … */}".into()), None);
    }
    let help = if reason.contains("closing tag") || reason.contains("closing slash") {
        "an element that is opened must be closed: <Name … /> or <Name …> … </Name> on lines of their own"
    } else if reason.ends_with(lex::BRACE_IN_COMMENT) {
        "write the } that ends the expression on the line below the comment"
    } else if reason.contains("expression") || reason.contains("brace") {
        "write \\{ for a brace that is plain text"
    } else if reason.contains("name") || reason.contains("tag") {
        "write \\< for a sign that is plain text"
    } else {
        return (None, None);
    };
    (Some(help.into()), None)
}
