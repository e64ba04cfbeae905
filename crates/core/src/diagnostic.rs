//! Diagnostics: problems of a definition, with their place and their fix.

use std::fmt;

use serde::Serialize;

use crate::code::Code;

/// A range of bytes in a source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Number of bytes; 0 marks a point.
    pub length: usize,
}

impl Span {
    /// One past the last byte.
    pub fn end(&self) -> usize {
        self.start + self.length
    }
}

/// A position in a text, for people. It is shown as `line:column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

impl Position {
    /// The beginning of a text.
    pub const START: Position = Position { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The definition runs, but probably not as intended.
    Warning,
    /// The definition is rejected.
    Error,
}

/// A problem in a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnostic {
    /// The code; `docs/errors/` has a page for each.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The file, as the caller named it.
    pub file: String,
    /// The place in the file.
    pub span: Span,
    /// The problem, in one sentence.
    pub message: String,
    /// How to solve it.
    pub help: Option<String>,
    /// A fix that needs no human judgement (`check --fix`).
    pub fix: Option<Fix>,
}

/// A set of replacements in one file. Spans do not overlap.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// The effect of the fix, for people.
    pub title: String,
    /// The replacement text of each span.
    pub edits: Vec<(Span, String)>,
}

impl Diagnostic {
    /// An error.
    pub fn new_error(code: Code, file: &str, span: Span, message: impl Into<String>) -> Diagnostic {
        let (file, message) = (file.to_owned(), message.into());
        Diagnostic { code, severity: Severity::Error, file, span, message, help: None, fix: None }
    }

    /// A warning.
    pub fn new_warning(code: Code, file: &str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::new_error(code, file, span, message) }
    }

    /// Adds help on how to solve the problem.
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds a fix.
    pub fn with_fix(mut self, title: impl Into<String>, edits: Vec<(Span, String)>) -> Diagnostic {
        self.fix = Some(Fix { title: title.into(), edits });
        self
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The position of a byte offset.
pub fn find_position(source: &str, offset: usize) -> Position {
    let mut end = offset.min(source.len());
    while !source.is_char_boundary(end) {
        end -= 1;
    }
    let before = &source[..end];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Position {
        line: before.bytes().filter(|b| *b == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// Applies the fixes of `diagnostics` to `source` and skips those that overlap an earlier one. Returns the new source
/// and the number of applied fixes.
pub fn apply_fixes(source: &str, diagnostics: &[Diagnostic]) -> (String, usize) {
    let mut edits: Vec<(Span, &str)> = Vec::new();
    let mut applied = 0;
    for fix in diagnostics.iter().filter_map(|d| d.fix.as_ref()) {
        let clash = fix
            .edits
            .iter()
            .any(|(new, _)| edits.iter().any(|(old, _)| new.start < old.end() && old.start < new.end()));
        if !clash {
            edits.extend(fix.edits.iter().map(|(span, text)| (*span, text.as_str())));
            applied += 1;
        }
    }
    edits.sort_by_key(|(span, _)| span.start);
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for (span, text) in edits {
        out.push_str(&source[at..span.start]);
        out.push_str(text);
        at = span.end();
    }
    out.push_str(&source[at..]);
    (out, applied)
}

/// The candidate that `name` is probably a misspelling of: at most two edits away, or a third of its length if it is
/// long.
pub fn find_similar_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            let length = candidate.chars().count();
            *distance <= if length < 4 { 1 } else { (length / 3).max(2) }
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(128).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(128).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions() {
        assert_eq!(find_similar_name("apicall", ["start", "apiCall"]), Some("apiCall"));
        assert_eq!(find_similar_name("llmInstructon", ["apiCall", "llmInstruction"]), Some("llmInstruction"));
        assert_eq!(find_similar_name("zebra", ["start", "apiCall"]), None);
    }

    #[test]
    fn places() {
        assert_eq!(find_position("a\nbé\nc", 5), Position { line: 2, column: 3 });
    }
}
