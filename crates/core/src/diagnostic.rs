//! Diagnostics: problems of a definition, with their place and their fix.

use std::fmt;

use serde::Serialize;

use crate::code::Code;

/// A range of bytes in a source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
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
    /// A change of the text that solves the problem.
    pub fix: Option<Fix>,
}

/// Whether a fix may be applied without asking a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Applicability {
    /// There is only one way to mean the text. `check --fix` and "fix all" apply it.
    Safe,
    /// A guess, such as another name or a new input. Only a person chooses it, as a quick fix of an editor.
    Suggestion,
}

/// A set of replacements in one file. Spans do not overlap.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// The effect of the fix, for people.
    pub title: String,
    /// The replacement text of each span.
    pub edits: Vec<(Span, String)>,
    /// Whether it may be applied without asking.
    pub applicability: Applicability,
}

impl Fix {
    /// A fix of a text that can mean only one thing.
    pub fn new_safe(title: impl Into<String>, edits: Vec<(Span, String)>) -> Fix {
        Fix { title: title.into(), edits, applicability: Applicability::Safe }
    }

    /// A fix that is a guess.
    pub fn new_suggestion(title: impl Into<String>, edits: Vec<(Span, String)>) -> Fix {
        Fix { applicability: Applicability::Suggestion, ..Fix::new_safe(title, edits) }
    }

    /// The fix as a guess unless `is_certain`.
    pub fn safe_if(self, is_certain: bool) -> Fix {
        let applicability = if is_certain { self.applicability } else { Applicability::Suggestion };
        Fix { applicability, ..self }
    }

    /// Whether it may be applied without asking.
    pub fn is_safe(&self) -> bool {
        self.applicability == Applicability::Safe
    }
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

    /// Says what is probably meant by the marked text, and offers to write it there, as a guess.
    pub fn suggest_text(&mut self, meant: &str) {
        self.suggest_text_at(meant, Some(self.span));
    }

    /// Suggests the text that is probably meant by the marked one, or gives other help if there is none.
    pub fn suggest_or_help(&mut self, meant: Option<String>, help: impl FnOnce() -> String) {
        match meant {
            Some(meant) => self.suggest_text(&meant),
            None => self.help = Some(help()),
        }
    }

    /// Says what is probably meant, and offers to write it at a place, as a guess. Without a place, nothing is offered.
    pub fn suggest_text_at(&mut self, meant: &str, place: Option<Span>) {
        self.help = Some(format!("did you mean {meant}?"));
        self.fix = place.map(|place| Fix::new_suggestion(format!("write {meant}"), vec![(place, meant.to_owned())]));
    }

    /// The fix, if it may be applied without asking.
    pub fn safe_fix(&self) -> Option<&Fix> {
        self.fix.as_ref().filter(|fix| fix.is_safe())
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Bytes between two marks of a [`LineTable`].
const MARK_DISTANCE_BYTES: usize = 512;

/// Finds lines and columns of one text. The text is read once; finding a position takes constant time.
#[derive(Clone, Debug)]
pub struct LineTable {
    /// The position at every [`MARK_DISTANCE_BYTES`] bytes.
    marks: Vec<Position>,
}

impl LineTable {
    /// The table of a text.
    pub fn new(text: &str) -> LineTable {
        let mut at = Position::START;
        let mut marks = Vec::with_capacity(text.len() / MARK_DISTANCE_BYTES + 1);
        for piece in text.as_bytes().chunks(MARK_DISTANCE_BYTES) {
            marks.push(at);
            at = piece.iter().fold(at, |at, byte| advance_position(at, *byte));
        }
        LineTable { marks }
    }

    /// The position of a byte offset in `text`, the text that the table was made of.
    pub fn find_position(&self, text: &str, offset: usize) -> Position {
        let offset = text.floor_char_boundary(offset);
        let mark = (offset / MARK_DISTANCE_BYTES).min(self.marks.len().saturating_sub(1));
        let start = self.marks.get(mark).copied().unwrap_or(Position::START);
        let bytes = text.as_bytes().get(mark * MARK_DISTANCE_BYTES..offset).unwrap_or_default();
        bytes.iter().fold(start, |at, byte| advance_position(at, *byte))
    }
}

/// The position after a byte.
fn advance_position(position: Position, byte: u8) -> Position {
    match byte {
        b'\n' => Position { line: position.line + 1, column: 1 },
        // Continuation bytes of a character take no column.
        0x80..=0xbf => position,
        _ => Position { column: position.column + 1, ..position },
    }
}

/// The position of one byte offset. Reads the text up to there; for several offsets use a [`LineTable`].
pub fn find_position(source: &str, offset: usize) -> Position {
    let end = source.floor_char_boundary(offset);
    source.as_bytes()[..end].iter().fold(Position::START, |at, byte| advance_position(at, *byte))
}

/// Applies the safe fixes of `diagnostics` to `source` and skips those that overlap an earlier one. Returns the new source
/// and the number of applied fixes.
pub fn apply_safe_fixes(source: &str, diagnostics: &[Diagnostic]) -> (String, usize) {
    apply_fixes(source, diagnostics.iter().filter_map(Diagnostic::safe_fix))
}

/// Applies fixes to `source` and skips those that overlap an earlier one. Returns the new source and the number of applied
/// fixes.
pub fn apply_fixes<'a>(source: &str, fixes: impl IntoIterator<Item = &'a Fix>) -> (String, usize) {
    let mut edits: Vec<(Span, &str)> = Vec::new();
    let mut applied = 0;
    for fix in fixes {
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

/// Characters of a name that are compared.
const COMPARED_CHARS: usize = 128;

/// The candidate that `name` is probably a misspelling of: at most a third of its characters differ. Two names of one or
/// two characters are never similar, unless they differ only in case. Two neighbours in the wrong order count once.
pub fn find_similar_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut unlimited = usize::MAX;
    find_similar_within(name, candidates, &mut unlimited)
}

/// Like [`find_similar_name`], with a budget: `budget` is reduced by the number of pairs of characters that are
/// compared, and no further candidate is compared after it is used up.
pub fn find_similar_within<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    budget: &mut usize,
) -> Option<&'a str> {
    let wanted = to_compared_chars(name);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if *budget == 0 {
            break;
        }
        let chars = to_compared_chars(candidate);
        let limit = max_distance(chars.len(), wanted.len());
        if chars.len().abs_diff(wanted.len()) > limit {
            *budget = budget.saturating_sub(chars.len() + 1);
            continue;
        }
        *budget = budget.saturating_sub((chars.len() + 1) * (wanted.len() + 1));
        let distance = edit_distance(&wanted, &chars);
        if distance <= limit && best.is_none_or(|(smallest, _)| distance < smallest) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The beginning of a name in lower case.
fn to_compared_chars(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).take(COMPARED_CHARS).collect()
}

/// The number of edits up to which names of two lengths are similar. With few characters, any other name is few edits away.
fn max_distance(length: usize, other: usize) -> usize {
    match length.min(other) {
        0..=1 => 0,
        // Two characters are similar to three with one more.
        2 => usize::from(length != other),
        _ => (length.max(other) / 3).max(1),
    }
}

/// The number of characters to insert, remove, replace or exchange with their neighbour.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let replaced = row[j] + usize::from(ca != cb);
            let mut distance = replaced.min(next[j] + 1).min(row[j + 1] + 1);
            if i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb {
                distance = distance.min(before[j - 1] + 1);
            }
            next.push(distance);
        }
        before = std::mem::replace(&mut row, next);
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
        // Any two short names are few edits apart.
        assert_eq!(find_similar_name("c", ["a", "b", "ab"]), None);
        assert_eq!(find_similar_name("id", ["is", "idea"]), None);
        assert_eq!(find_similar_name("ad", ["echo", "add"]), Some("add"));
        assert_eq!(find_similar_name("city", ["date", "item"]), None);
        assert_eq!(find_similar_name("get", ["GET"]), Some("GET"));
        assert_eq!(find_similar_name("naem", ["name"]), Some("name"));
        assert_eq!(find_similar_name("topik", ["topic"]), Some("topic"));
    }

    #[test]
    fn only_safe_fixes_are_applied_without_asking() {
        let problem = |start, fix| {
            let span = Span { start, length: 1 };
            let problem = Diagnostic::new_error(Code::UnknownName, "f", span, "m");
            Diagnostic { fix: Some(fix), ..problem }
        };
        let edit = |start, text: &str| vec![(Span { start, length: 1 }, text.to_owned())];
        let problems =
            [problem(0, Fix::new_safe("a", edit(0, "A"))), problem(1, Fix::new_suggestion("b", edit(1, "B")))];
        assert_eq!(apply_safe_fixes("ab", &problems), ("Ab".to_owned(), 1));
        let all = problems.iter().filter_map(|problem| problem.fix.as_ref());
        assert_eq!(apply_fixes("ab", all), ("AB".to_owned(), 2));
    }

    #[test]
    fn places() {
        assert_eq!(find_position("a\nbé\nc", 5), Position { line: 2, column: 3 });
    }

    #[test]
    fn a_table_finds_every_position() {
        let text = "ab\n\u{e9}\u{1f600} c\r\n\n".repeat(200) + &"x\u{e9}".repeat(400);
        let table = LineTable::new(&text);
        for offset in 0..text.len() + 2 {
            assert_eq!(table.find_position(&text, offset), find_position(&text, offset), "{offset}");
        }
        assert_eq!(LineTable::new("").find_position("", 3), Position::START);
    }

    #[test]
    fn suggestions_end_with_their_budget() {
        let names: Vec<String> = (0..100).map(|number| format!("name{number:03}")).collect();
        let mut budget = 1000;
        assert_eq!(find_similar_within("nameX00", names.iter().map(String::as_str), &mut budget), Some("name000"));
        assert_eq!(budget, 0);
        assert_eq!(find_similar_within("name001", names.iter().map(String::as_str), &mut budget), None);
    }
}
