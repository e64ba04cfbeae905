//! Printing. Texts of models, servers and definitions must not control the terminal: neither with control characters nor
//! with characters that change the direction of text and so its order on the screen.
//!
//! The macros replace those of the standard library in this crate.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::style::{apply_styles, colors_stderr, colors_stdout};
use crate::terminal::width::{stderr_columns, stdout_columns, wrap_hanging, wrap_lines};

/// Whether a terminal does something else with a character than showing it.
pub(crate) fn is_control(c: char) -> bool {
    let is_bidirectional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_bidirectional || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// The text with a replacement of the same length in bytes for each control character.
pub(crate) fn replace_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let replace = |c: char| match (is_control(c), c.len_utf8()) {
        (false, _) => c,
        (true, 1) => ' ',
        (true, 2) => '\u{b7}',
        (true, _) => '\u{fffd}',
    };
    text.chars().map(replace).collect()
}

/// The name of a file or of a workflow as people see it: on one line, with escapes in place of characters that would end the
/// line or control the terminal.
pub(crate) fn show_name(name: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_control(c) || matches!(c, '\n' | '\t');
    if !name.contains(is_escaped) {
        return name.into();
    }
    let escape = |c: char| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(escape).collect::<String>().into()
}

/// A path as people see it.
pub(crate) fn show_path(path: &Path) -> String {
    show_name(&path.display().to_string()).into_owned()
}

/// A JSON text in which characters that could control a terminal are escapes. Outside of its strings it has none.
fn escape_controls(json: &str) -> Cow<'_, str> {
    if !json.contains(is_control) {
        return json.into();
    }
    // None of them is beyond the first plane.
    let escape = |c: char| match is_control(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    json.chars().map(escape).collect::<String>().into()
}

/// Whether something was printed to stdout.
static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether something was printed to stdout.
pub(crate) fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

/// Prints to stdout. Data for another program stays as it is.
pub(crate) fn write_stdout(text: fmt::Arguments<'_>) {
    HAS_PRINTED.store(true, Ordering::Relaxed);
    let text = text.to_string();
    let text = if io::stdout().is_terminal() { replace_controls(&text) } else { text.into() };
    std::print!("{}", apply_styles(&text, colors_stdout()));
}

/// Prints a value as JSON to stdout, piece by piece: the result of a run may be large.
pub(crate) fn write_json(value: &impl Serialize, is_indented: bool) {
    HAS_PRINTED.store(true, Ordering::Relaxed);
    let mut out = EscapingWriter(BufWriter::new(io::stdout().lock()));
    let written = match is_indented {
        true => serde_json::to_writer_pretty(&mut out, value),
        false => serde_json::to_writer(&mut out, value),
    };
    let ended = written.map_err(io::Error::from).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    if let Err(error) = ended {
        // As the macros of the standard library do.
        panic!("failed printing to stdout: {error}");
    }
}

/// Replaces characters of JSON that could control a terminal by escapes. Each write must be whole characters.
struct EscapingWriter<W>(W);

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(json).map_err(io::Error::other)?;
        self.0.write_all(escape_controls(text).as_bytes())?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints text for people to stdout, also if it goes through a pipe: its reader is often a terminal.
pub(crate) fn write_for_people(text: fmt::Arguments<'_>) {
    write_stdout(format_args!("{}", replace_controls(&text.to_string())));
}

/// Prints a text for people to stdout. On a terminal, lines that are too long are broken between words, and further lines
/// start in column `hang`.
pub(crate) fn print_wrapped(text: &str, hang: usize) {
    match stdout_columns() {
        Some(columns) => write_for_people(format_args!("{}\n", wrap_hanging(text, columns, hang))),
        None => write_for_people(format_args!("{text}\n")),
    }
}

/// Prints to stderr, which is for people. On a terminal, lines that are too long are broken between words.
pub(crate) fn write_stderr(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let text = replace_controls(&text);
    let text = stderr_columns().map_or_else(|| text.clone(), |columns| wrap_lines(&text, columns).into());
    std::eprint!("{}", apply_styles(&text, colors_stderr()));
}

macro_rules! print {
    ($($text:tt)*) => { $crate::print::write_stdout(format_args!($($text)*)) };
}

macro_rules! print_for_people {
    ($($text:tt)*) => { $crate::print::write_for_people(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::print::write_stdout(format_args!("\n")) };
    ($($text:tt)*) => { $crate::print::write_stdout(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! eprint {
    ($($text:tt)*) => { $crate::print::write_stderr(format_args!($($text)*)) };
}

macro_rules! eprintln {
    () => { $crate::print::write_stderr(format_args!("\n")) };
    ($($text:tt)*) => { $crate::print::write_stderr(format_args!("{}\n", format_args!($($text)*))) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_control_the_terminal() {
        let hostile = "a\x1b[31mb\u{202e}c\u{2066}d\u{200f}e\u{61c}f\u{9b}g\rh\n\ti\u{e9}";
        let shown = replace_controls(hostile);
        assert_eq!(shown, "a [31mb\u{fffd}c\u{fffd}d\u{fffd}e\u{b7}f\u{b7}g h\n\ti\u{e9}");
        assert_eq!(shown.len(), hostile.len());
        assert!(matches!(replace_controls("plain \u{1f600}"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(show_name("a\nb.json: ok\t\x1b[2J\u{9b}\u{202e}"), r"a\nb.json: ok\t\u{1b}[2J\u{9b}\u{202e}");
        assert!(matches!(show_name("caf\u{e9}.json"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_value_without_controls() {
        let value = serde_json::json!({"a\u{9b}": "b\u{202e}\u{7f}\u{1b}\n\u{e9}"});
        let mut out = EscapingWriter(Vec::new());
        serde_json::to_writer_pretty(&mut out, &value).expect("JSON");
        let escaped = String::from_utf8(out.0).expect("text");
        assert!(!escaped.contains(is_control) && escaped.contains('\u{e9}'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), value);
    }
}
