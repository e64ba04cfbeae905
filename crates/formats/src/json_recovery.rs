//! Reads the rest of JSON text after syntax errors, so that all problems of a file are reported together.

use std::ops::Range;

use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::json::{JsonError, Node, NodeKind, parse_misspelt, parse_node};

use crate::json_mistake::{Certainty, find_mistake};
use crate::problems::Problems;
use crate::reader::json_code;

/// Maximum number of syntax errors of one file that are reported.
const MAX_SYNTAX_ERRORS: usize = 20;

/// Reports a syntax error and those after it, as far as their causes are plain. Returns the tree, so that the other problems
/// are reported, too; `None` if the meaning is ambiguous.
pub(crate) fn read_rest(text: &str, mut error: JsonError, problems: &mut Problems) -> Option<Node> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut corrected = CorrectedText::new(text);
    let mut is_certain = true;
    for _ in 0..MAX_SYNTAX_ERRORS {
        let at = corrected.find_original_start(error.span.start);
        let mistake = find_mistake(&corrected.text, &error);
        let is_json = corrected.text[start..].trim_start().starts_with(['{', '[']);
        let edits = mistake.edits.into_iter();
        let edits: Vec<(Span, String)> = edits.filter(|_| is_json || mistake.is_comment).collect();
        let marked = corrected.find_original(if is_json { mistake.span } else { error.span });
        let diagnostic = problems.add_error(json_code(error.kind), marked, error.message);
        diagnostic.help = Some(mistake.help);
        if let Some(fix) = mistake.fix.filter(|_| is_json) {
            let edits = edits.iter().map(|(span, text)| (corrected.find_original(*span), text.clone())).collect();
            diagnostic.fix = Some(Fix::new_safe(fix.title, edits).safe_if(fix.is_safe && is_certain));
        }
        if edits.is_empty() {
            is_certain &= is_json;
            break;
        }
        is_certain &= mistake.certainty == Certainty::Certain;
        corrected.apply(&edits);
        match parse_node(&corrected.text) {
            Ok((node, _)) => return is_certain.then(|| corrected.move_node(node)),
            // It was not corrected: the same is not reported twice.
            Err(next) if corrected.find_original_start(next.span.start) == at => break,
            Err(next) => error = next,
        }
    }
    // Keys and texts of JavaScript are unambiguous, quoted or not, and so are misspelt constants.
    let node = is_certain.then(|| parse_misspelt(&corrected.text, start).ok())??;
    Some(corrected.move_node(node))
}

/// A text with changes.
struct CorrectedText {
    text: String,
    /// What the text consists of, in order.
    pieces: Vec<CorrectedPiece>,
}

/// A part of a text with changes.
#[derive(Clone, Copy)]
struct CorrectedPiece {
    /// Its place in the text.
    place: Span,
    /// What it stands for in the original text: as many bytes, unless it was written instead of them.
    original: Span,
}

impl CorrectedText {
    fn new(text: &str) -> CorrectedText {
        let whole = Span { start: 0, length: text.len() };
        CorrectedText { text: text.to_owned(), pieces: vec![CorrectedPiece { place: whole, original: whole }] }
    }

    /// Applies edits that are in the order of their places.
    fn apply(&mut self, edits: &[(Span, String)]) {
        let mut changed = CorrectedText { text: String::with_capacity(self.text.len()), pieces: Vec::new() };
        let (mut at, mut next) = (0, 0);
        for (span, with) in edits {
            next = self.copy_pieces(at..span.start, next, &mut changed);
            let place = Span { start: changed.text.len(), length: with.len() };
            // Something that is removed leaves no piece.
            if !with.is_empty() {
                changed.pieces.push(CorrectedPiece { place, original: self.find_original(*span) });
            }
            changed.text.push_str(with);
            at = span.end();
        }
        self.copy_pieces(at..self.text.len(), next, &mut changed);
        *self = changed;
    }

    /// Copies a range of the text, whose first piece is `next` or one after it. Returns the last piece of the range.
    fn copy_pieces(&self, range: Range<usize>, mut next: usize, changed: &mut CorrectedText) -> usize {
        let offset = changed.text.len();
        changed.text.push_str(&self.text[range.clone()]);
        while let Some(CorrectedPiece { place, original }) =
            self.pieces.get(next).filter(|piece| piece.place.start < range.end)
        {
            let (start, end) = (place.start.max(range.start), place.end().min(range.end));
            if start < end {
                let kept = Span { start: original.start + start - place.start, length: end - start };
                let original = if original.length == place.length { kept } else { *original };
                let place = Span { start: offset + start - range.start, length: end - start };
                changed.pieces.push(CorrectedPiece { place, original });
            }
            if place.end() > range.end {
                break;
            }
            next += 1;
        }
        next
    }

    /// The place in the original text of a place at which something starts.
    fn find_original_start(&self, offset: usize) -> usize {
        let after = self.pieces.partition_point(|piece| piece.place.start <= offset);
        let Some(CorrectedPiece { place, original }) = after.checked_sub(1).map(|index| self.pieces[index]) else {
            return offset;
        };
        if original.length == place.length { original.start + offset - place.start } else { original.start }
    }

    /// The place in the original text of a place at which something ends.
    fn find_original_end(&self, offset: usize) -> usize {
        let after = self.pieces.partition_point(|piece| piece.place.start < offset);
        let Some(CorrectedPiece { place, original }) = after.checked_sub(1).map(|index| self.pieces[index]) else {
            return offset;
        };
        if original.length == place.length { original.start + offset - place.start } else { original.end() }
    }

    fn find_original(&self, span: Span) -> Span {
        let start = self.find_original_start(span.start);
        Span { start, length: self.find_original_end(span.end()).saturating_sub(start) }
    }

    /// The tree of this text with the places of the original text.
    fn move_node(&self, node: Node) -> Node {
        let kind = match node.kind {
            NodeKind::List(items) => NodeKind::List(items.into_iter().map(|item| self.move_node(item)).collect()),
            NodeKind::Map(entries) => {
                let moved = entries
                    .into_iter()
                    .map(|(key, span, value)| (key, self.find_original(span), self.move_node(value)));
                NodeKind::Map(moved.collect())
            }
            scalar => scalar,
        };
        Node { span: self.find_original(node.span), kind }
    }
}

#[cfg(test)]
#[path = "json_recovery_tests.rs"]
mod tests;
