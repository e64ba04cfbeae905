//! Reads the rest of JSON text after syntax errors, so that all problems of a file are reported together.

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
    let mut corrected = CorrectedText { text: text.to_owned(), changes: Vec::new() };
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
            diagnostic.fix = Some(Fix::new_safe(fix.title, edits).safe_if(fix.is_safe));
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
    /// Each change at a place of the text that the changes before it have left.
    changes: Vec<Change>,
}

struct Change {
    start: usize,
    /// Bytes that the change has removed.
    removed: usize,
    /// Bytes that the change has inserted.
    inserted: usize,
}

impl CorrectedText {
    /// Applies edits that are in the order of their places.
    fn apply(&mut self, edits: &[(Span, String)]) {
        for (span, with) in edits.iter().rev() {
            self.text.replace_range(span.start..span.end(), with);
            self.changes.push(Change { start: span.start, removed: span.length, inserted: with.len() });
        }
    }

    /// The place in the original text of a place at which something starts.
    fn find_original_start(&self, offset: usize) -> usize {
        self.changes.iter().rev().fold(offset, |at, change| match at.checked_sub(change.start) {
            None => at,
            Some(inside) if inside < change.inserted => change.start,
            Some(inside) => change.start + change.removed + inside - change.inserted,
        })
    }

    /// The place in the original text of a place at which something ends.
    fn find_original_end(&self, offset: usize) -> usize {
        self.changes.iter().rev().fold(offset, |at, change| match at.checked_sub(change.start) {
            None | Some(0) => at,
            Some(inside) => change.start + change.removed + inside.saturating_sub(change.inserted),
        })
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
