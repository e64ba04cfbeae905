//! Between our values and those of the protocol.

use flowloom_core::diagnostic::Span;
use lsp_types::{Position, Range, TextEdit};

use crate::analysis::lines::{ColumnUnit, Lines, TextPosition};

/// A text with its lines, and how the editor counts its columns.
#[derive(Clone, Copy)]
pub(super) struct TextView<'t> {
    pub(super) text: &'t str,
    pub(super) lines: &'t Lines,
    pub(super) unit: ColumnUnit,
}

impl TextView<'_> {
    /// The range of a span.
    pub(super) fn find_range(&self, span: Span) -> Range {
        let (start, end) = self.lines.find_range(self.text, span, self.unit);
        Range::new(to_position(start), to_position(end))
    }

    /// The byte offset of a position.
    pub(super) fn find_offset(&self, position: Position) -> usize {
        self.lines.find_offset(self.text, to_place(position), self.unit)
    }

    /// An edit that replaces a span.
    pub(super) fn replace(&self, span: Span, text: &str) -> TextEdit {
        TextEdit::new(self.find_range(span), text.to_owned())
    }
}

pub(super) fn to_place(position: Position) -> TextPosition {
    TextPosition { line: position.line, column: position.character }
}

fn to_position(place: TextPosition) -> Position {
    Position::new(place.line, place.column)
}
