//! Tables: with a header for people on a terminal, and rows only for programs.

use std::io::IsTerminal as _;

use super::measure::{count_columns, fit_line, pad_columns};
use super::width::{stdout_columns, wrap_hanging};
use crate::style::{Style, paint_text};

/// The blanks between two columns.
const GAP: &str = "  ";

/// The indentation of columns that do not fit next to the first ones.
const INDENT: &str = "    ";

/// Minimum width of a text next to other columns, in columns of the terminal.
const MIN_TEXT_COLUMNS: usize = 16;

/// The treatment of the last cell of a row that is too long for the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastCell {
    /// It loses its end: it is a description that another command shows.
    Cut,
    /// It continues on further lines.
    Wrap,
}

/// Prints rows whose columns are as wide as their widest cell. On a terminal they have a header, and their lines fit.
pub(crate) fn print_table<const N: usize>(header: [&str; N], rows: &[[String; N]], last: LastCell) {
    let mut lines = render_table(header, rows, last, stdout_columns()).into_iter();
    print_header(&lines.next().unwrap_or_default());
    for line in lines {
        println!("{line}");
    }
}

/// Prints the header of a table on a terminal, and nothing into a pipe.
pub(crate) fn print_header(header: &str) {
    if std::io::stdout().is_terminal() {
        println!("{}", paint_text(Style::Dim, header));
    }
}

/// The header and the rows, each as one text. Without a width, as of a pipe, each is one line and complete.
fn render_table<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    last: LastCell,
    columns: Option<usize>,
) -> Vec<String> {
    let header = header.map(str::to_owned);
    let all = || std::iter::once(&header).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| all().map(|row| count_columns(&row[column])).max().unwrap_or(0));
    let breaks = columns.map_or([false; N], |columns| find_breaks(&widths, count_columns(&header[N - 1]), columns));
    let render = |row: &[String; N], style: Option<Style>| {
        let mut out = String::new();
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if breaks[column] {
                out += &format!("{}\n", line.trim_end());
                line = INDENT.to_owned();
            } else if column > 0 {
                line += GAP;
            }
            let style = style.filter(|_| column == 0);
            let painted = style.map_or_else(|| cell.clone(), |style| paint_text(style, cell));
            match columns {
                Some(columns) if column + 1 == N => line = end_line(&line, &painted, last, columns),
                _ => line += &pad_columns(&painted, width),
            }
        }
        (out + &line).trim_end().to_owned()
    };
    // The first column names the row.
    let rows = rows.iter().map(|row| render(row, Some(Style::Heading)));
    std::iter::once(render(&header, None)).chain(rows).collect()
}

/// The columns that start on a line of their own, because they do not fit next to those before them. The last one needs
/// its title and some room only.
fn find_breaks<const N: usize>(widths: &[usize; N], last_title: usize, columns: usize) -> [bool; N] {
    let mut used = 0;
    std::array::from_fn(|column| {
        let least = if column + 1 == N { MIN_TEXT_COLUMNS.max(last_title).min(widths[column]) } else { widths[column] };
        let breaks = column > 0 && used + GAP.len() + least > columns;
        used = if breaks { INDENT.len() } else { used + if column > 0 { GAP.len() } else { 0 } };
        used += widths[column];
        breaks
    })
}

/// The last line of a row, with its last cell.
fn end_line(line: &str, cell: &str, last: LastCell, columns: usize) -> String {
    match last {
        LastCell::Cut => fit_line(&format!("{line}{cell}"), columns),
        LastCell::Wrap => wrap_hanging(&format!("{line}{cell}"), columns, count_columns(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::apply_styles;

    fn show_table<const N: usize>(
        header: [&str; N],
        rows: &[[&str; N]],
        last: LastCell,
        columns: Option<usize>,
    ) -> Vec<String> {
        let rows: Vec<_> = rows.iter().map(|row| row.map(str::to_owned)).collect();
        let lines = render_table(header, &rows, last, columns);
        lines.iter().map(|line| apply_styles(line, false).into_owned()).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "weather"], ["nightly", ""]];
        let shown = show_table(["ID", "WORKFLOW"], &rows, LastCell::Wrap, None);
        assert_eq!(shown, ["ID       WORKFLOW", "a        weather", "nightly"]);
        let painted = render_table(["ID"], &[["nightly".to_owned()]], LastCell::Wrap, None);
        assert_eq!(apply_styles(&painted[1], true), "\x1b[1mnightly\x1b[0m");
    }

    #[test]
    fn wide_characters_keep_columns_aligned() {
        let shown = show_table(["ID", "WORKFLOW"], &[["灯台", "a"], ["ab", "b"]], LastCell::Wrap, None);
        assert_eq!(shown, ["ID    WORKFLOW", "灯台  a", "ab    b"]);
    }

    #[test]
    fn a_narrow_table_loses_no_cell() {
        let header = ["ID", "CRON", "NEXT", "LAST PROBLEM"];
        let rows = [["nightly", "0 6 * * *", "2026-11-27 06:00", "the workflow has no input named city"]];
        let show = |columns| show_table(header, &rows, LastCell::Wrap, columns);
        assert_eq!(
            show(Some(60)),
            [
                "ID       CRON       NEXT              LAST PROBLEM",
                "nightly  0 6 * * *  2026-11-27 06:00  the workflow has no\n                                      input named city"
            ]
        );
        assert_eq!(
            show(Some(40)),
            [
                "ID       CRON       NEXT\n    LAST PROBLEM",
                "nightly  0 6 * * *  2026-11-27 06:00\n    the workflow has no input named city"
            ]
        );
        assert_eq!(
            show(Some(30)),
            [
                "ID       CRON\n    NEXT\n    LAST PROBLEM",
                "nightly  0 6 * * *\n    2026-11-27 06:00\n    the workflow has no input\n    named city"
            ]
        );
        assert_eq!(show(None)[1], "nightly  0 6 * * *  2026-11-27 06:00  the workflow has no input named city");
    }

    #[test]
    fn a_description_is_cut_on_a_terminal_only() {
        let rows = [["a", "Counts the words of a text"]];
        let show = |columns| show_table(["ID", "DESCRIPTION"], &rows, LastCell::Cut, columns);
        assert_eq!(show(Some(24))[1], "a   Counts the words of…");
        assert_eq!(show(None)[1], "a   Counts the words of a text");
    }
}
