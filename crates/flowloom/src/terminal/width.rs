//! The width of the terminal.

use std::os::fd::AsFd;

use crate::style::is_marker;

/// Columns of a terminal of unknown width, and of a pipe.
const DEFAULT_COLUMNS: usize = 80;

/// Columns of the narrowest terminal that is supported.
const MIN_COLUMNS: usize = 60;

/// The width of the terminal of stdout, in columns, or what is usual.
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

/// The line within `columns`, without its end if it is too long. Markers of styles have no width.
pub(crate) fn fit_line(line: &str, columns: usize) -> String {
    if count_columns(line) <= columns {
        return line.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let mut out = String::new();
    for c in line.chars() {
        if !is_marker(c) {
            if left == 0 {
                break;
            }
            left -= 1;
        }
        out.push(c);
    }
    out + "…"
}

/// The text with lines of at most `columns`, broken between words; further lines are indented. Excerpts of a source stay
/// as they are.
pub(crate) fn wrap_lines(text: &str, columns: usize) -> String {
    let wrap = |line: &str| match count_columns(line) <= columns || line.contains('│') {
        true => line.to_owned(),
        false => wrap_line(line, columns),
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str, columns: usize) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mut out = " ".repeat(indent);
    let mut used = indent;
    for (index, word) in line.trim_start_matches(' ').split(' ').enumerate() {
        let width = count_columns(word);
        if index > 0 && used + 1 + width > columns {
            used = indent + 2;
            out.push('\n');
            out.push_str(&" ".repeat(used));
        } else if index > 0 {
            used += 1;
            out.push(' ');
        }
        used += width;
        out.push_str(word);
    }
    out
}

fn count_columns(text: &str) -> usize {
    text.chars().filter(|c| !is_marker(*c)).count()
}

fn measure_columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    let columns = if size.ws_col == 0 { DEFAULT_COLUMNS } else { usize::from(size.ws_col) };
    Some(columns.max(MIN_COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{Style, paint_text};

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "error: one two three four\n  flowloom resume 01a2 now\n 1 │ a line of a source stays";
        assert_eq!(
            wrap_lines(text, 16),
            "error: one two\n  three four\n  flowloom\n    resume 01a2\n    now\n 1 │ a line of a source stays"
        );
        assert_eq!(wrap_lines("short\n", 16), "short\n");
    }

    #[test]
    fn styles_have_no_width() {
        let good = paint_text(Style::Good, "✓");
        assert_eq!(fit_line(&format!("{good} 12345"), 7), format!("{good} 12345"));
        assert_eq!(fit_line(&format!("{good} 123456"), 7), format!("{good} 1234…"));
    }
}
