//! Collects the problems of a definition, so that they are reported together. The work for a definition is bounded
//! however many problems it has: only the first ones are kept, and the others are counted.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Fix, Severity, Span, find_similar_within};

use crate::front_end::OmittedProblems;
use crate::stop::StopFlag;

/// Maximum number of problems of a definition that are reported one by one.
pub const MAX_PROBLEMS: usize = 200;

/// Maximum length of each text of a problem, in bytes. A message may quote a name of any length.
const MAX_TEXT_BYTES: usize = 2000;

/// Budget for suggestions in one definition, in compared pairs of characters.
const SUGGESTION_BUDGET: usize = 4_000_000;

/// The problems of one definition.
#[derive(Debug)]
pub struct Problems {
    file: String,
    /// The first problems of each severity, in the order in which they were found.
    list: Vec<Diagnostic>,
    found: ProblemCount,
    /// The place of problems that are only counted, for their finders to write to.
    unreported: Diagnostic,
    /// The remaining budget for suggestions.
    suggestion_budget: usize,
    stop: StopFlag,
    /// Whether any name that is not known may have been given by a part that cannot be read.
    distrusts_names: bool,
    /// The words of parts that cannot be read and may give names.
    distrusted_words: HashSet<String>,
    /// The JSON string that contains the text, if the text is embedded in the file (a flow inside a hub item).
    inside: Option<EmbeddedText>,
    /// The start offsets of further files, if the text is a concatenation of several files.
    further: Vec<(usize, String)>,
    /// The file that spans refer to at the moment, if it is not the definition itself.
    other_file: Option<String>,
}

/// How many problems there are.
#[derive(Clone, Copy, Debug, Default)]
struct ProblemCount {
    errors: usize,
    warnings: usize,
}

#[derive(Debug)]
struct EmbeddedText {
    start: usize,
    written: String,
    /// Offsets in the string literal and in its text, in order, at regular distances.
    marks: Vec<(usize, usize)>,
}

/// Bytes of a string literal between two marks.
const MARK_DISTANCE_BYTES: usize = 1024;

impl EmbeddedText {
    /// The span in the file of a span in the string's text.
    fn map_span(&self, span: Span) -> Span {
        let (start, end) = (self.map_offset(span.start), self.map_offset(span.end()));
        Span { start: self.start + start, length: end - start }
    }

    /// The offset in the string literal (including quotes and escapes) of byte `wanted` of its text.
    fn map_offset(&self, wanted: usize) -> usize {
        let mark = self.marks.partition_point(|(_, read)| *read <= wanted).saturating_sub(1);
        let (mut at, mut read) = self.marks.get(mark).copied().unwrap_or((1, 0));
        while read < wanted && at + 1 < self.written.len() {
            let (written, text) = next_character_len(&self.written[at..]);
            at += written;
            read += text;
        }
        at
    }
}

/// The marks of a string literal.
fn mark_offsets(written: &str) -> Vec<(usize, usize)> {
    let (mut at, mut read) = (1, 0);
    let mut marks: Vec<(usize, usize)> = Vec::new();
    while at + 1 < written.len() {
        if marks.last().is_none_or(|(last, _)| at - last >= MARK_DISTANCE_BYTES) {
            marks.push((at, read));
        }
        let (written, text) = next_character_len(&written[at..]);
        at += written;
        read += text;
    }
    marks
}

/// The length in bytes of the next character of a JSON string, as (source, text).
fn next_character_len(rest: &str) -> (usize, usize) {
    let unit = |at: usize| u32::from_str_radix(rest.get(at..at + 4)?, 16).ok();
    match rest.as_bytes() {
        [b'\\', b'u', ..] => match (unit(2), rest.get(6..8), unit(8)) {
            (Some(0xd800..0xdc00), Some("\\u"), Some(0xdc00..0xe000)) => (12, 4),
            (unit, _, _) => (6, unit.and_then(char::from_u32).unwrap_or('\u{fffd}').len_utf8()),
        },
        [b'\\', ..] => (2, 1),
        _ => rest.chars().next().map_or((1, 1), |c| (c.len_utf8(), c.len_utf8())),
    }
}

impl Problems {
    /// An empty list of problems.
    pub fn new(file: &str) -> Problems {
        Problems {
            file: file.to_owned(),
            list: Vec::new(),
            found: ProblemCount::default(),
            unreported: Diagnostic::new_warning(Code::MoreProblems, file, Span::default(), ""),
            suggestion_budget: SUGGESTION_BUDGET,
            stop: StopFlag::default(),
            distrusts_names: false,
            distrusted_words: HashSet::new(),
            inside: None,
            further: Vec::new(),
            other_file: None,
        }
    }

    /// The same list, for a compilation that this flag stops.
    pub(crate) fn with_stop(self, stop: StopFlag) -> Problems {
        Problems { stop, ..self }
    }

    /// From now on, any name that is not known may have been given by a part that cannot be read.
    pub(crate) fn distrust_names(&mut self) {
        self.distrusts_names = true;
    }

    /// From now on, the words of a part that cannot be read may be names that it has given.
    pub(crate) fn distrust_words(&mut self, part: &str) {
        let words = part.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$'));
        self.distrusted_words.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    }

    /// Whether it is no problem that a name is not known.
    pub(crate) fn distrusts_name(&self, name: &str) -> bool {
        self.distrusts_names || self.distrusted_words.contains(name)
    }

    /// Whether the rest of the definition need not be looked at.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// From now on, all spans refer to the text of the JSON string literal `written` that starts at `start`. Fixes are
    /// dropped, because their text would have to be escaped.
    pub(crate) fn enter_string(&mut self, start: usize, written: &str) {
        self.inside = Some(EmbeddedText { start, written: written.to_owned(), marks: mark_offsets(written) });
    }

    /// From now on, spans from `start` on belong to the file `name`.
    pub(crate) fn start_file(&mut self, start: usize, name: &str) {
        self.further.push((start, name.to_owned()));
    }

    /// Finds problems in the text of the file `name`, to which all spans refer meanwhile.
    pub(crate) fn within_file<T>(&mut self, name: &str, find: impl FnOnce(&mut Problems) -> T) -> T {
        let outer = self.other_file.replace(name.to_owned());
        let found = find(self);
        self.other_file = outer;
        found
    }

    /// Adds an error.
    pub fn add_error(&mut self, code: Code, span: Span, message: impl fmt::Display) -> &mut Diagnostic {
        self.found.errors += 1;
        let is_room = self.found.errors <= MAX_PROBLEMS;
        self.add_diagnostic(is_room, |file| Diagnostic::new_error(code, file, span, limit_text(message)))
    }

    /// Adds a warning.
    pub fn add_warning(&mut self, code: Code, span: Span, message: impl fmt::Display) -> &mut Diagnostic {
        self.found.warnings += 1;
        let is_room = self.found.warnings <= MAX_PROBLEMS;
        self.add_diagnostic(is_room, |file| Diagnostic::new_warning(code, file, span, limit_text(message)))
    }

    /// Adds a problem that was found elsewhere.
    pub(crate) fn add_found(&mut self, found: &Diagnostic) {
        let is_error = found.is_error();
        let count = if is_error { &mut self.found.errors } else { &mut self.found.warnings };
        *count += 1;
        if *count <= MAX_PROBLEMS {
            self.list.push(found.clone());
        }
    }

    /// Adds what `make` makes if there is room for it.
    fn add_diagnostic(&mut self, is_room: bool, make: impl FnOnce(&str) -> Diagnostic) -> &mut Diagnostic {
        if !is_room {
            return &mut self.unreported;
        }
        let mut diagnostic = make(self.other_file.as_ref().unwrap_or(&self.file));
        if self.other_file.is_some() {
            self.list.push(diagnostic);
            let last = self.list.len() - 1;
            return &mut self.list[last];
        }
        if let Some(inside) = &self.inside {
            diagnostic.span = inside.map_span(diagnostic.span);
        }
        if let Some((start, name)) = self.further.iter().rev().find(|(start, _)| *start <= diagnostic.span.start) {
            diagnostic.span.start -= start;
            diagnostic.file.clone_from(name);
        }
        self.list.push(diagnostic);
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Whether a further error is reported, and not only counted. Helps to leave out work on its text.
    pub(crate) fn has_room_for_error(&self) -> bool {
        self.found.errors < MAX_PROBLEMS
    }

    /// Whether a further warning is reported, and not only counted. Helps to leave out work on its text.
    pub(crate) fn has_room_for_warning(&self) -> bool {
        self.found.warnings < MAX_PROBLEMS
    }

    /// The candidate that `name` is probably a misspelling of. Finds nothing any more when a definition has used up its
    /// budget for suggestions.
    pub(crate) fn find_similar<'c>(
        &mut self,
        name: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        find_similar_within(name, candidates, &mut self.suggestion_budget)
    }

    /// Adds a fix to the first problem with this code whose message starts with `message`.
    pub(crate) fn fix_first(&mut self, code: Code, message: &str, fix: Fix) {
        let found =
            self.list.iter_mut().find(|diagnostic| diagnostic.code == code && diagnostic.message.starts_with(message));
        if let Some(diagnostic) = found {
            diagnostic.fix = Some(fix);
        }
    }

    /// Whether the definition is rejected.
    pub fn has_errors(&self) -> bool {
        self.found.errors > 0
    }

    /// Removes what was found again, for example in a file that is included several times.
    fn remove_repeated(&mut self) {
        let mut seen: HashSet<(Code, String, usize, String)> = HashSet::new();
        let found = &mut self.found;
        self.list.retain(|diagnostic| {
            let Diagnostic { code, file, span, message, .. } = diagnostic;
            let is_new = seen.insert((*code, file.clone(), span.start, message.clone()));
            let count = if diagnostic.is_error() { &mut found.errors } else { &mut found.warnings };
            *count -= usize::from(!is_new);
            is_new
        });
    }

    /// The problems in source order, at most [`MAX_PROBLEMS`] of them and errors rather than warnings, and the number
    /// of the others.
    pub fn into_list(mut self) -> (Vec<Diagnostic>, OmittedProblems) {
        self.remove_repeated();
        let reported_errors = self.list.iter().filter(|diagnostic| diagnostic.is_error()).count();
        let mut room = MAX_PROBLEMS - reported_errors;
        let reported_warnings = (self.list.len() - reported_errors).min(room);
        self.list.retain(|diagnostic| {
            let is_kept = diagnostic.severity == Severity::Error || room > 0;
            room -= usize::from(is_kept && diagnostic.severity == Severity::Warning);
            is_kept
        });
        for diagnostic in &mut self.list {
            diagnostic.help = diagnostic.help.take().map(limit_text);
            diagnostic.fix = diagnostic.fix.take().filter(|_| self.inside.is_none());
            if let Some(fix) = &mut diagnostic.fix {
                fix.title = limit_text(&fix.title);
            }
        }
        let own = self.file;
        self.list.sort_by(|a, b| {
            let key = |found: &Diagnostic| (found.file != own, found.span.start);
            (key(a).0, &a.file, key(a).1).cmp(&(key(b).0, &b.file, key(b).1))
        });
        let omitted = OmittedProblems {
            errors: self.found.errors - reported_errors,
            warnings: self.found.warnings - reported_warnings,
        };
        (self.list, omitted)
    }
}

/// The text, cut off after [`MAX_TEXT_BYTES`].
fn limit_text(text: impl fmt::Display) -> String {
    let mut limited = LimitedText { text: String::new() };
    if write!(limited, "{text}").is_err() {
        limited.text.push('…');
    }
    limited.text
}

/// Takes the beginning of a text and then refuses the rest, so that it is not even formatted.
struct LimitedText {
    text: String,
}

impl fmt::Write for LimitedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = MAX_TEXT_BYTES - self.text.len();
        self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
        if piece.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_take_the_place_of_warnings() {
        let mut problems = Problems::new("a.json");
        for start in 0..1000 {
            problems.add_warning(Code::UnknownKey, Span { start, length: 1 }, "odd");
        }
        for start in 0..250 {
            problems.add_error(Code::WrongKind, Span { start, length: 1 }, "wrong");
        }
        let (list, omitted) = problems.into_list();
        assert_eq!(list.len(), MAX_PROBLEMS);
        assert!(list.iter().all(Diagnostic::is_error));
        assert_eq!((omitted.errors, omitted.warnings), (50, 1000));
    }

    #[test]
    fn a_problem_that_is_found_again_is_reported_once() {
        let mut problems = Problems::new("a.mdx");
        for file in ["b.mdx", "b.mdx", "a.mdx", "a.mdx"] {
            problems.within_file(file, |problems| {
                problems.add_warning(Code::ActionAsText, Span { start: 3, length: 1 }, "text");
            });
        }
        problems.add_error(Code::WrongKind, Span { start: 3, length: 1 }, "wrong");
        let (list, omitted) = problems.into_list();
        let files: Vec<&str> = list.iter().map(|found| found.file.as_str()).collect();
        assert_eq!(files, ["a.mdx", "a.mdx", "b.mdx"]);
        assert_eq!((omitted.errors, omitted.warnings), (0, 0));
    }

    #[test]
    fn warnings_fill_what_errors_leave() {
        let mut problems = Problems::new("a.json");
        for start in 0..300 {
            problems.add_warning(Code::UnknownKey, Span { start, length: 1 }, "odd").help = Some("x".repeat(5000));
        }
        problems.add_error(Code::WrongKind, Span { start: 7, length: 1 }, "y".repeat(5000));
        let (list, omitted) = problems.into_list();
        assert_eq!((list.len(), omitted.errors, omitted.warnings), (MAX_PROBLEMS, 0, 101));
        assert!(list.iter().any(Diagnostic::is_error));
        assert!(list.iter().all(|found| found.message.len() <= MAX_TEXT_BYTES + 3));
        assert!(list.iter().flat_map(|found| &found.help).all(|help| help.len() <= MAX_TEXT_BYTES + 3));
    }

    #[test]
    fn offsets_in_a_string_literal_are_found() {
        let written = format!("\"{}\"", "\\u00e9a\\n".repeat(1000));
        let text = EmbeddedText { start: 10, marks: mark_offsets(&written), written };
        // "é", "a" and a line break are 4 bytes of text and 9 bytes of the literal.
        for index in 0..1000 {
            assert_eq!(text.map_offset(4 * index), 1 + 9 * index);
            assert_eq!(text.map_offset(4 * index + 2), 1 + 9 * index + 6);
        }
    }
}
