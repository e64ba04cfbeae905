//! The width of the terminal.

use std::os::fd::AsFd;

use super::measure::count_columns;
use super::word_wrap::WordWrap;

/// Columns of a terminal of unknown width, and of a pipe.
const DEFAULT_COLUMNS: usize = 80;

/// Columns of the narrowest terminal that is supported.
const MIN_COLUMNS: usize = 60;

/// The width of the terminal of stdout, in columns, or the usual one.
pub(crate) fn terminal_columns() -> usize {
    stdout_columns().unwrap_or(DEFAULT_COLUMNS)
}

/// The width of the terminal of stdout, in columns; `None` if it is none.
pub(crate) fn stdout_columns() -> Option<usize> {
    measure_columns(std::io::stdout())
}

/// The width of the terminal of stderr, in columns; `None` if it is none.
pub(crate) fn stderr_columns() -> Option<usize> {
    measure_columns(std::io::stderr())
}

/// The text with lines of at most `columns`, broken between words; further lines are indented. Excerpts of a source stay
/// as they are.
pub(crate) fn wrap_lines(text: &str, columns: usize) -> String {
    let wrap = |line: &str| match count_columns(line) <= columns || line.contains('│') {
        true => line.to_owned(),
        false => wrap_line(line, columns, 2),
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n")
}

/// The text with lines of at most `columns`, broken between words; further lines start in column `hang`.
pub(crate) fn wrap_hanging(text: &str, columns: usize, hang: usize) -> String {
    let wrap = |line: &str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        wrap_line(line, columns, hang.saturating_sub(indent))
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n")
}

/// A page of text with lines of at most `columns`. Lists stay lists, and code stays as it is.
pub(crate) fn wrap_page(text: &str, columns: usize) -> String {
    let mut is_code = false;
    let mut wrap = |line: &str| {
        is_code ^= line.starts_with("```");
        match is_code || line.starts_with('|') {
            true => line.to_owned(),
            false => wrap_line(line, columns, if line.trim_start().starts_with(['-', '*']) { 2 } else { 0 }),
        }
    };
    join_paragraphs(text).lines().map(&mut wrap).collect::<Vec<_>>().join("\n")
}

/// The text with each paragraph on one line.
fn join_paragraphs(text: &str) -> String {
    let mut out = String::new();
    let (mut is_code, mut is_open) = (false, false);
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        let starts =
            is_code || is_fence || line.trim().is_empty() || line.trim_start().starts_with(['-', '*', '#', '|']);
        if starts || !is_open {
            out.push('\n');
            out.push_str(line);
        } else {
            out.push(' ');
            out.push_str(line.trim_start());
        }
        is_code ^= is_fence;
        is_open = !is_code && !is_fence && !line.trim().is_empty() && !line.starts_with(['#', '|']);
    }
    out.split_off(1.min(out.len()))
}

/// A line broken between words; further lines are indented by `hang` more columns.
fn wrap_line(line: &str, columns: usize, hang: usize) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mut wrap = WordWrap::new(columns).with_indent(indent + hang);
    wrap.push(line) + &wrap.finish()
}

fn measure_columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    let columns = if size.ws_col == 0 { DEFAULT_COLUMNS } else { usize::from(size.ws_col) };
    Some(columns.max(MIN_COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "error: one two three four\n  flowloom resume 01a2 now\n 1 │ a line of a source stays";
        assert_eq!(
            wrap_lines(text, 16),
            "error: one two\n  three four\n  flowloom\n    resume 01a2\n    now\n 1 │ a line of a source stays"
        );
        assert_eq!(wrap_lines("short\n", 16), "short\n");
        assert_eq!(
            wrap_hanging("✓ name  one two three\n        four five", 14, 8),
            "✓ name  one\n        two\n        three\n        four\n        five"
        );
    }

    #[test]
    fn lines_of_wide_characters_are_broken_and_indented() {
        assert_eq!(wrap_hanging("  ✓ 灯台は岩の上に立つ。", 14, 4), "  ✓ 灯台は岩の\n    上に立つ。");
        assert_eq!(wrap_lines("灯台 light 灯台", 10), "灯台 light\n  灯台");
    }

    #[test]
    fn pages_are_wrapped_by_paragraphs() {
        let page = "# A title\n\nOne two\nthree four five.\n\n- six seven eight\n- nine\n\n```\nlong code stays as it is\n```\n";
        let shown = "# A title\n\nOne two three\nfour five.\n\n- six seven\n  eight\n- nine\n\n```\nlong code stays as it is\n```";
        assert_eq!(wrap_page(page, 14), shown);
        assert_eq!(wrap_page(shown, 14), shown);
    }
}
