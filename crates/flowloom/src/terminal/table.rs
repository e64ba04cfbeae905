//! Tables: with a header for people on a terminal, and rows only for programs.

use std::io::IsTerminal as _;

use super::width::{fit_line, stdout_columns};
use crate::style::{Style, paint_text};

/// The spaces between two columns.
const GAP: &str = "  ";

/// Prints rows whose columns are as wide as their widest cell. On a terminal they have a header, and each fits a line.
pub(crate) fn print_table<const N: usize>(header: [&str; N], rows: &[[String; N]]) {
    let columns = stdout_columns();
    let mut lines = render_table(header, rows).into_iter();
    print_header(&lines.next().unwrap_or_default());
    for line in lines {
        println!("{}", columns.map_or_else(|| line.clone(), |columns| fit_line(&line, columns)));
    }
}

/// Prints the header of a table on a terminal, and nothing into a pipe.
pub(crate) fn print_header(header: &str) {
    if std::io::stdout().is_terminal() {
        println!("{}", paint_text(Style::Dim, header));
    }
}

/// The header and the rows as lines.
fn render_table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let header = header.map(str::to_owned);
    let all = || std::iter::once(&header).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let render = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    all().map(render).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |id: &str, workflow: &str| [id.to_owned(), workflow.to_owned()];
        let lines = render_table(["ID", "WORKFLOW"], &[row("a", "weather"), row("nightly", "")]);
        assert_eq!(lines, ["ID       WORKFLOW", "a        weather", "nightly"]);
    }
}
