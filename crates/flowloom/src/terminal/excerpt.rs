//! The lines around a problem, as far as they fit on a screen. A definition may be one line of several megabytes.

use std::borrow::Cow;
use std::ops::Range;

use flowloom_app::definitions::source::SourceText;
use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::window::SourceWindow;
use crate::print::replace_controls;

/// Maximum number of bytes that are shown before a problem, of it, and after it.
pub(crate) const MAX_EXCERPT_BYTES: usize = 400;

/// Maximum number of columns of an excerpt that no terminal shows: a line may be the whole file.
const MAX_FILE_COLUMNS: usize = 200;

/// A file, of which the surroundings of a problem are shown.
#[derive(Debug)]
pub(crate) struct Excerpt<'a> {
    /// The path of the file.
    pub(crate) file: &'a str,
    /// Its text.
    pub(crate) source: &'a SourceText<'a>,
    /// The part of the text that may be shown, with replacements for control characters.
    shown: Cow<'a, str>,
    /// Where that part begins.
    shown_start: usize,
    /// The shortened text, if a line is wider than the terminal.
    window: Option<SourceWindow>,
}

impl<'a> Excerpt<'a> {
    /// The surroundings of the marked bytes of a file, in a terminal of `columns` columns if it is one.
    pub(crate) fn new(
        file: &'a str,
        source: &'a SourceText<'a>,
        marked: Range<usize>,
        columns: Option<usize>,
    ) -> Excerpt<'a> {
        let text = &*source.text;
        let at = marked.start;
        let window = SourceWindow::find_window(source, marked, columns.unwrap_or(MAX_FILE_COLUMNS));
        let start = text.floor_char_boundary(at.saturating_sub(MAX_EXCERPT_BYTES));
        let end = text.ceil_char_boundary(at.saturating_add(2 * MAX_EXCERPT_BYTES + 1));
        Excerpt { file, source, shown: replace_controls(&text[start..end]), shown_start: start, window }
    }

    /// The place of the marked bytes in the shown text.
    pub(crate) fn locate_mark(&self, marked: Range<usize>) -> Range<usize> {
        self.window.as_ref().map_or(marked, |window| window.marked.clone())
    }

    /// Where the excerpt begins: `lines` lines before the one of the problem.
    fn find_start(&self, at: usize, lines: usize) -> usize {
        let text = &*self.source.text;
        let earliest = text.ceil_char_boundary(at.saturating_sub(MAX_EXCERPT_BYTES));
        let mut breaks = text[earliest..at].rmatch_indices('\n');
        breaks.nth(lines).map_or(earliest, |(found, _)| earliest + found + 1)
    }

    /// Where the excerpt ends: after the line break of the `lines`th line after that of the problem.
    fn find_end(&self, end: usize, lines: usize) -> usize {
        let text = &*self.source.text;
        let latest = text.floor_char_boundary(end.saturating_add(MAX_EXCERPT_BYTES));
        text[end..latest].match_indices('\n').nth(lines).map_or(latest, |(found, _)| end + found + 1)
    }
}

impl SourceCode for Excerpt<'_> {
    fn read_span<'s>(
        &'s self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'s> + 's>, MietteError> {
        let is_bare = lines_before == 0 && lines_after == 0;
        if let Some(window) = &self.window {
            return Ok(Box::new(window.read_contents(self.file, is_bare)));
        }
        let text = &*self.source.text;
        let at = text.floor_char_boundary(span.offset());
        let end = text.ceil_char_boundary(span.offset().saturating_add(span.len()).min(text.len())).max(at);
        let (start, end) =
            if is_bare { (at, end) } else { (self.find_start(at, lines_before), self.find_end(end, lines_after)) };
        let position = self.source.lines.find_position(text, start);
        let shown = self.shown.as_bytes();
        let from = start.saturating_sub(self.shown_start).min(shown.len());
        let data = &shown[from..end.saturating_sub(self.shown_start).clamp(from, shown.len())];
        let line_count = data.iter().filter(|byte| **byte == b'\n').count();
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.to_owned(),
            data,
            (start, data.len()).into(),
            position.line - 1,
            position.column - 1,
            line_count,
        )))
    }
}
