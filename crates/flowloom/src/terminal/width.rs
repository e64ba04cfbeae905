//! The width of the terminal.

use std::os::fd::AsFd;

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

fn measure_columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    let columns = if size.ws_col == 0 { DEFAULT_COLUMNS } else { usize::from(size.ws_col) };
    Some(columns.max(MIN_COLUMNS))
}
