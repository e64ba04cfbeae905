//! Positions as editors count them: lines and columns from 0, in units of an encoding.

use std::ops::Range;

use flowloom_core::diagnostic::Span;

/// How an editor counts the columns of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnUnit {
    /// In bytes of UTF-8.
    Utf8,
    /// In units of UTF-16, as every editor can.
    #[default]
    Utf16,
}

/// A place in a text, as an editor counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line, from 0.
    pub line: u32,
    /// The column, from 0, in units of the encoding.
    pub column: u32,
}

/// The lines of a text.
///
/// # Examples
///
/// ```
/// use flowloom_lsp::analysis::lines::{ColumnUnit, Lines, TextPosition};
///
/// let text = "one\ntwö three\n";
/// let lines = Lines::new(text);
/// let three = text.find("three").expect("found");
/// let place = lines.find_place(text, three, ColumnUnit::Utf16);
/// assert_eq!(place, TextPosition { line: 1, column: 4 });
/// assert_eq!(lines.find_offset(text, place, ColumnUnit::Utf16), three);
/// ```
#[derive(Clone, Debug)]
pub struct Lines {
    /// The offset of each line's first byte.
    starts: Vec<usize>,
}

impl Lines {
    /// The lines of a text.
    pub fn new(text: &str) -> Lines {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Lines { starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// Follows a change of the text, in which `new` takes the place of a range of bytes.
    pub fn replace_range(&mut self, range: Range<usize>, new: &str) {
        let breaks = new.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| range.start + at + 1);
        // A line that begins at the start of the range stays: its line break is in front of it.
        let first = self.starts.partition_point(|start| *start <= range.start);
        let behind = self.starts.partition_point(|start| *start <= range.end);
        let added: Vec<usize> = breaks.collect();
        let moved = first + added.len();
        self.starts.splice(first..behind, added);
        for start in &mut self.starts[moved..] {
            *start = *start + new.len() - range.len();
        }
    }

    /// The number of lines.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The text of a line, with its line break; empty for a line that is not there.
    pub fn line_text<'t>(&self, text: &'t str, line: usize) -> &'t str {
        let Some(start) = self.starts.get(line) else { return "" };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        text.get(*start..end).unwrap_or_default()
    }

    /// The line of a byte offset.
    pub fn find_line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// The offset of the first byte of a line; that of the end for a line that is not there.
    pub fn line_start(&self, text: &str, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(text.len())
    }

    /// The place of a byte offset.
    pub fn find_place(&self, text: &str, offset: usize, unit: ColumnUnit) -> TextPosition {
        let offset = text.floor_char_boundary(offset);
        let line = self.find_line(offset);
        let before = &text[self.starts[line]..offset];
        let column = match unit {
            ColumnUnit::Utf8 => before.len(),
            ColumnUnit::Utf16 => before.encode_utf16().count(),
        };
        TextPosition { line: to_u32(line), column: to_u32(column) }
    }

    /// The byte offset of a place. A place after the end of a line is the end of that line, and a place within a
    /// character is its start.
    pub fn find_offset(&self, text: &str, place: TextPosition, unit: ColumnUnit) -> usize {
        let line = place.line as usize;
        let start = self.line_start(text, line);
        let content = self.line_text(text, line).trim_end_matches(['\n', '\r']);
        let column = place.column as usize;
        let within = match unit {
            ColumnUnit::Utf8 => content.floor_char_boundary(column),
            ColumnUnit::Utf16 => find_utf16_offset(content, column),
        };
        start + within
    }

    /// The start and the end of a span.
    pub fn find_range(&self, text: &str, span: Span, unit: ColumnUnit) -> (TextPosition, TextPosition) {
        (self.find_place(text, span.start, unit), self.find_place(text, span.end(), unit))
    }
}

fn find_utf16_offset(line: &str, column: usize) -> usize {
    let mut units = 0;
    for (at, character) in line.char_indices() {
        units += character.len_utf16();
        if units > column {
            return at;
        }
    }
    line.len()
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_units_of_the_encoding() {
        let text = "a😀b\r\nö\n";
        let lines = Lines::new(text);
        let place = |offset, unit| {
            let place = lines.find_place(text, offset, unit);
            (place.line, place.column)
        };
        assert_eq!(place(5, ColumnUnit::Utf16), (0, 3));
        assert_eq!(place(5, ColumnUnit::Utf8), (0, 5));
        assert_eq!(place(10, ColumnUnit::Utf16), (1, 1));
        let offset = |line, column| lines.find_offset(text, TextPosition { line, column }, ColumnUnit::Utf16);
        assert_eq!(offset(0, 2), 1, "within a character");
        assert_eq!(offset(0, 99), 6, "after the end of a line, but before its line break");
        assert_eq!(offset(9, 0), text.len(), "after the last line");
    }

    proptest::proptest! {
        #[test]
        fn lines_follow_changes(text in "[ab\n]{0,20}", new in "[ab\n]{0,6}", from in 0usize..21, length in 0usize..21) {
            let (from, mut changed) = (from.min(text.len()), text.clone());
            let range = from..(from + length).min(text.len());
            let mut lines = Lines::new(&text);
            lines.replace_range(range.clone(), &new);
            changed.replace_range(range, &new);
            proptest::prop_assert_eq!(lines.starts, Lines::new(&changed).starts);
        }

        #[test]
        fn a_place_leads_back_to_its_offset(text in "[a-c\u{e9}\u{1f600}\n]{0,40}", at in 0usize..80) {
            let lines = Lines::new(&text);
            let offset = text.floor_char_boundary(at);
            for unit in [ColumnUnit::Utf8, ColumnUnit::Utf16] {
                let place = lines.find_place(&text, offset, unit);
                proptest::prop_assert_eq!(lines.find_offset(&text, place, unit), offset);
            }
        }
    }
}
