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
    let render = |row: &[String; N], paint: &dyn Fn(&str) -> String| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            let blanks = " ".repeat(width - cell.chars().count());
            let cell = if column == 0 { paint(cell) } else { cell.clone() };
            format!("{cell}{blanks}")
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    // The first column names the row.
    let name = |cell: &str| paint_text(Style::Heading, cell);
    let rows = rows.iter().map(|row| render(row, &name));
    std::iter::once(render(&header, &str::to_owned)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::apply_styles;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |id: &str, workflow: &str| [id.to_owned(), workflow.to_owned()];
        let lines = render_table(["ID", "WORKFLOW"], &[row("a", "weather"), row("nightly", "")]);
        let shown: Vec<_> = lines.iter().map(|line| apply_styles(line, false)).collect();
        assert_eq!(shown, ["ID       WORKFLOW", "a        weather", "nightly"]);
        assert_eq!(apply_styles(&lines[2], true), "\x1b[1mnightly\x1b[0m");
    }
}
