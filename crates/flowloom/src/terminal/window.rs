//! The lines around a problem in a terminal that is narrower than they are: the part of each that fits, so that what is
//! underlined stays above its underline.

use std::ops::Range;

use flowloom_app::definitions::source::SourceText;
use miette::MietteSpanContents;

use super::measure::{count_char_columns, count_columns};
use crate::print::replace_controls;

/// The mark for an omitted part of a line.
const OMISSION: &str = "...";

/// Columns to the left of a line in addition to its number, plus one free column at the right.
const GUTTER_COLUMNS: usize = 5;

/// The fewest columns of a line that are shown.
const MIN_COLUMNS: usize = 20;

/// Parts of the line of a problem and of the lines around it.
#[derive(Debug)]
pub(crate) struct SourceWindow {
    /// The parts, one line each.
    text: String,
    /// The marked part of the text.
    pub(crate) marked: Range<usize>,
    /// The line of the first part, from 0.
    first_line: usize,
    /// The place of the marked bytes in the file, from 0.
    line: usize,
    column: usize,
}

/// A line of the file, or the part of a very long line that may be shown.
struct LinePart<'t> {
    text: &'t str,
    is_cut_left: bool,
    is_cut_right: bool,
}

/// The line of the marked bytes, or the part of it that may be shown.
struct MarkedLine<'t> {
    part: LinePart<'t>,
    /// The marked bytes within the part.
    marked: Range<usize>,
    /// The bytes of the whole line in the file.
    whole: Range<usize>,
}

impl<'t> MarkedLine<'t> {
    /// The line in which the marked bytes start, at most `reach` bytes to both sides of them.
    fn find_line(text: &'t str, marked: Range<usize>, reach: usize) -> MarkedLine<'t> {
        let start = text[..marked.start].rfind('\n').map_or(0, |found| found + 1);
        let end = text[marked.start..].find('\n').map_or(text.len(), |found| marked.start + found);
        let marked = marked.start..marked.end.clamp(marked.start, end);
        let near = text.ceil_char_boundary(marked.start.saturating_sub(reach)).max(start);
        let far = text.floor_char_boundary(marked.end.saturating_add(reach)).min(end);
        let part = LinePart { text: &text[near..far], is_cut_left: near > start, is_cut_right: far < end };
        MarkedLine { part, marked: marked.start - near..marked.end - near, whole: start..end }
    }
}

impl SourceWindow {
    /// The window on the marked bytes, which are within a line; `None` if all lines fit.
    pub(crate) fn find_window(source: &SourceText<'_>, marked: Range<usize>, columns: usize) -> Option<SourceWindow> {
        let text = &*source.text;
        let marked = text.floor_char_boundary(marked.start)..text.ceil_char_boundary(marked.end.min(text.len()));
        let position = source.lines.find_position(text, marked.start);
        let room = columns.saturating_sub(GUTTER_COLUMNS + (position.line + 1).to_string().len()).max(MIN_COLUMNS);
        // Beyond this distance, nothing fits.
        let reach = 8 * columns;
        let MarkedLine { part, marked, whole } = MarkedLine::find_line(text, marked, reach);
        let before = whole.start.checked_sub(1).map(|end| take_line_before(text, end, reach));
        let after = text.get(whole.end + 1..).filter(|rest| !rest.is_empty()).map(|rest| take_line(rest, reach));
        let lines = [before.as_ref(), Some(&part), after.as_ref()];
        if lines.into_iter().flatten().all(|line| line.fits_into(room)) {
            return None;
        }
        let mut window = SourceWindow {
            text: String::new(),
            marked: 0..0,
            first_line: position.line - 1 - usize::from(before.is_some()),
            line: position.line - 1,
            column: position.column - 1,
        };
        if let Some(before) = &before {
            window.add_line(before, 0..0, room);
        }
        window.marked = window.add_line(&part, marked, room);
        if let Some(after) = &after {
            window.add_line(after, 0..0, room);
        }
        Some(window)
    }

    /// Adds the part of a line around the bytes `focus`. Returns where they are in the text.
    fn add_line(&mut self, line: &LinePart<'_>, focus: Range<usize>, room: usize) -> Range<usize> {
        // A tab has another width at another place.
        let shown = replace_controls(line.text).replace('\t', " ");
        let part = choose_part(&shown, &focus, line, room);
        if part.start > 0 || line.is_cut_left {
            self.text.push_str(OMISSION);
        }
        let start = self.text.len();
        self.text.push_str(&shown[part.clone()]);
        let end = self.text.len();
        if part.end < shown.len() || line.is_cut_right {
            self.text.push_str(OMISSION);
        }
        self.text.push('\n');
        let place = |at: usize| (start + at.saturating_sub(part.start)).min(end);
        place(focus.start)..place(focus.end)
    }

    /// The contents for the report: the lines, or only the place of the marked text.
    pub(crate) fn read_contents(&self, file: &str, only_place: bool) -> MietteSpanContents<'_> {
        let (range, line, column) = match only_place {
            true => (self.marked.clone(), self.line, self.column),
            false => (0..self.text.len(), self.first_line, 0),
        };
        let data = &self.text.as_bytes()[range.clone()];
        let line_count = data.iter().filter(|byte| **byte == b'\n').count();
        let span = (range.start, range.len()).into();
        MietteSpanContents::new_named(file.to_owned(), data, span, line, column, line_count)
    }
}

impl LinePart<'_> {
    fn fits_into(&self, room: usize) -> bool {
        !self.is_cut_left && !self.is_cut_right && count_columns(self.text) <= room
    }
}

/// The line that ends at byte `end`, or its start if it is longer than `max` bytes.
fn take_line_before(text: &str, end: usize, max: usize) -> LinePart<'_> {
    let start = text[..end].rfind('\n').map_or(0, |found| found + 1);
    take_line(&text[start..end], max)
}

/// The first line of a text, or its start if it is longer than `max` bytes.
fn take_line(text: &str, max: usize) -> LinePart<'_> {
    let line = text.split('\n').next().unwrap_or_default().trim_end_matches('\r');
    let end = line.floor_char_boundary(max);
    LinePart { text: &line[..end], is_cut_left: false, is_cut_right: end < line.len() }
}

/// The part of a line that is shown in `room` columns: the start of the focus, and as much on both sides of it.
fn choose_part(shown: &str, focus: &Range<usize>, line: &LinePart<'_>, room: usize) -> Range<usize> {
    if line.fits_into(room) {
        return 0..shown.len();
    }
    let inner = room - 2 * OMISSION.len();
    let marked = count_columns(&shown[focus.clone()]).min(inner);
    let around = (inner - marked) / 2;
    // What would only be replaced by the omission is shown.
    let head = inner + OMISSION.len();
    let fits_head = !line.is_cut_left && count_columns(&shown[..focus.start]) + marked <= head;
    let start = if fits_head { 0 } else { step_left(shown, focus.start, around) };
    let end = step_right(shown, start, if fits_head { head } else { inner });
    let rest = count_columns(&shown[end..]);
    if line.is_cut_right || rest > OMISSION.len() || fits_head && rest > 0 {
        return start..end;
    }
    // The line ends within the window.
    let start = step_left(shown, shown.len(), head).min(focus.start);
    start..shown.len()
}

/// The place that is up to `columns` columns before byte `at`.
fn step_left(text: &str, at: usize, columns: usize) -> usize {
    let mut left = columns;
    let mut start = at;
    for (index, c) in text[..at].char_indices().rev() {
        let width = count_char_columns(c);
        if width > left {
            break;
        }
        left -= width;
        start = index;
    }
    start
}

/// The place that is up to `columns` columns after byte `at`.
fn step_right(text: &str, at: usize, columns: usize) -> usize {
    let mut left = columns;
    for (index, c) in text[at..].char_indices() {
        let width = count_char_columns(c);
        if width > left {
            return at + index;
        }
        left -= width;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use flowloom_core::diagnostic::LineTable;

    use super::*;

    fn show_window(text: &str, word: &str, columns: usize) -> Option<SourceWindow> {
        let at = text.find(word).expect("it is there");
        let source = SourceText { text: text.into(), lines: LineTable::new(text) };
        SourceWindow::find_window(&source, at..at + word.len(), columns)
    }

    #[test]
    fn the_marked_word_is_in_every_window() {
        let long = "{\"a\": \"".to_owned() + &"word ".repeat(60) + "WRONG" + &" ende".repeat(60) + "\"}";
        for text in [long.clone(), format!("{{\n{long}\n}}\n"), long.replace("word", "wört"), long.replace(' ', "\t")]
        {
            for columns in [30, 60, 80, 120] {
                let window = show_window(&text, "WRONG", columns).expect("it is too wide");
                assert_eq!(&window.text[window.marked.clone()], "WRONG", "{window:?}");
                assert!(window.text.lines().all(|line| count_columns(line) <= columns - 6), "{columns}: {window:?}");
                let own = window.text.lines().find(|line| line.contains("WRONG")).expect("the line");
                assert!(own.starts_with(OMISSION) && own.ends_with(OMISSION), "{own}");
            }
        }
    }

    #[test]
    fn a_line_is_cut_only_where_it_is_left_out() {
        let line = "WRONG".to_owned() + &" word".repeat(40);
        let window = show_window(&line, "WRONG", 60).expect("it is too wide");
        assert!(window.text.starts_with("WRONG word") && window.text.ends_with("...\n"), "{window:?}");
        let line = "word ".repeat(40) + "WRONG";
        let window = show_window(&line, "WRONG", 60).expect("it is too wide");
        assert!(window.text.starts_with("...") && window.text.ends_with(" WRONG\n"), "{window:?}");
        assert!(show_window("a WRONG line", "WRONG", 60).is_none());
        // The marked text is wider than the window.
        let wide = "x".repeat(500);
        let window = show_window(&format!("ab {wide} cd"), &wide, 60).expect("it is too wide");
        assert!(!window.marked.is_empty() && window.marked.end <= window.text.len(), "{window:?}");
    }
}
