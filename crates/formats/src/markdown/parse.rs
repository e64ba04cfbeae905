//! Parses Markdown with expressions and elements into a tree with file positions.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use flowloom_core::diagnostic::{LineTable, Position, Span};
use markdown::mdast::Node;
use markdown::{Constructs, MdxSignal, ParseOptions, to_mdast};

use super::attribute_gaps::close_gaps;
use super::lex;
use super::mistake::Mistake;
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

/// Total size in bytes of the texts that are parsed again, each without a mistake of the one before.
const MAX_REPARSED_BYTES: usize = 1 << 20;

/// Maximum number of syntax errors that are reported for a text.
const MAX_MISTAKES: usize = 20;

/// The tree of a text; `None`, with the errors, if it cannot be parsed. Mistakes are blanked out, so that the problems of
/// the rest are reported, too.
pub(super) fn parse(text: &TextPiece<'_>, is_file: bool, problems: &mut Problems) -> Option<Vec<Node>> {
    let mut left = (MAX_REPARSED_BYTES / text.text.len().max(1)).min(MAX_MISTAKES - 1);
    let mut readable = close_gaps(text.text);
    loop {
        let piece = TextPiece { text: &readable, ..text.clone() };
        let mistake = match parse_once(&piece, is_file) {
            Ok(nodes) => return Some(nodes),
            Err(mistake) => mistake,
        };
        mistake.report_error(&piece, problems);
        let masked = (left > 0).then(|| mistake.find_extent(&readable)).flatten()?;
        left -= 1;
        match &readable[masked.names.clone()] {
            // The file that it includes may give any name.
            tag if tag.starts_with("<Include") => problems.distrust_names(),
            tag => {
                problems.distrust_words(tag.split_once(char::is_whitespace).map_or("", |(_, attributes)| attributes))
            }
        }
        for range in std::iter::once(masked.range).chain(masked.partner) {
            readable = blank_range(&readable, range);
        }
    }
}

/// The text with blanks in a range. All offsets stay.
fn blank_range(text: &str, range: Range<usize>) -> String {
    let blanks: String = text[range.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    format!("{}{blanks}{}", &text[..range.start], &text[range.end..])
}

fn parse_once(text: &TextPiece<'_>, is_file: bool) -> Result<Vec<Node>, Mistake> {
    let looks = Cell::new(SCAN_BUDGET_BYTES.0 * text.text.len() + SCAN_BUDGET_BYTES.1);
    let open_expression = Rc::new(RefCell::new(None));
    let constructs = Constructs { frontmatter: is_file, mdx_esm: false, ..Constructs::mdx() };
    let noted = open_expression.clone();
    let hook = move |expression: &str, _: &markdown::MdxExpressionKind| {
        let (source, rule) = (Box::new("flowloom".to_owned()), Box::new("expression".to_owned()));
        let Some(left) = looks.get().checked_sub(expression.len()) else {
            return MdxSignal::Error("there are too many braces".into(), 0, source, Box::new("complex".to_owned()));
        };
        looks.set(left);
        let problem = lex::scan_expression(expression).end.find_problem();
        *noted.borrow_mut() = problem.map(|_| expression.trim_start().lines().next().unwrap_or_default().to_owned());
        match problem {
            None => MdxSignal::Ok,
            Some(problem) => MdxSignal::Eof(format!("the expression is not closed: {problem}"), source, rule),
        }
    };
    let options = ParseOptions { constructs, mdx_expression_parse: Some(Box::new(hook)), ..ParseOptions::default() };
    match to_mdast(text.text, &options) {
        Ok(Node::Root(root)) => match find_unfinished_tag(&root.children, text.text) {
            None => Ok(root.children),
            Some(at) => Err(Mistake::unfinished_tag(at)),
        },
        Ok(_) => Ok(Vec::new()),
        Err(message) => {
            let expression = open_expression.borrow_mut().take();
            Err(Mistake::from_message(&message, text.text, expression.as_deref()))
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
