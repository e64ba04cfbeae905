//! Collects the problems of a definition, so that all are reported at once.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Fix, Severity, Span};

/// The problems of one definition.
#[derive(Debug)]
pub struct Problems {
    file: String,
    list: Vec<Diagnostic>,
    /// The JSON string that contains the text, if the text is embedded in the file (a flow inside a hub item).
    inside: Option<EmbeddedText>,
    /// The start offsets of further files, if the text is a concatenation of several files.
    further: Vec<(usize, String)>,
}

#[derive(Debug)]
struct EmbeddedText {
    start: usize,
    written: String,
}

impl EmbeddedText {
    /// The span in the file of a span in the string's text.
    fn map_span(&self, span: Span) -> Span {
        let (start, end) = (self.map_offset(span.start), self.map_offset(span.end()));
        Span { start: self.start + start, length: end - start }
    }

    /// The offset in the string literal (including quotes and escapes) of byte `wanted` of its text.
    fn map_offset(&self, wanted: usize) -> usize {
        let (mut at, mut read) = (1, 0);
        while read < wanted && at + 1 < self.written.len() {
            let (written, text) = next_character_len(&self.written[at..]);
            at += written;
            read += text;
        }
        at
    }
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
        Problems { file: file.to_owned(), list: Vec::new(), inside: None, further: Vec::new() }
    }

    /// From now on, all spans refer to the text of the JSON string literal `written` that starts at `start`. Fixes are
    /// dropped, because their text would have to be escaped.
    pub(crate) fn enter_string(&mut self, start: usize, written: &str) {
        self.inside = Some(EmbeddedText { start, written: written.to_owned() });
    }

    /// From now on, spans from `start` on belong to the file `name`.
    pub(crate) fn start_file(&mut self, start: usize, name: &str) {
        self.further.push((start, name.to_owned()));
    }

    /// Adds an error.
    pub fn add_error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        let diagnostic = Diagnostic::new_error(code, &self.file, span, message);
        self.add_diagnostic(diagnostic)
    }

    /// Adds a warning.
    pub fn add_warning(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        let diagnostic = Diagnostic::new_warning(code, &self.file, span, message);
        self.add_diagnostic(diagnostic)
    }

    fn add_diagnostic(&mut self, mut diagnostic: Diagnostic) -> &mut Diagnostic {
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
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// All problems, in source order.
    pub fn into_list(mut self) -> Vec<Diagnostic> {
        if self.inside.is_some() {
            self.list.iter_mut().for_each(|diagnostic| diagnostic.fix = None);
        }
        let own = self.file;
        self.list.sort_by_key(|found| (found.file != own, found.file.clone(), found.span.start));
        self.list
    }
}
