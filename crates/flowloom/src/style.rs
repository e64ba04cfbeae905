//! Colours. A style is written as a marker into a text and becomes an escape sequence when the text is printed, after control
//! characters were replaced. The meaning never depends on the colour.

use std::borrow::Cow;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

use clap::ValueEnum;

/// When output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    // The names say it all; a text for each would make every help page three times as long.
    #[default]
    Auto,
    Always,
    Never,
}

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets when output is coloured. The first call counts.
pub(crate) fn set_color_choice(choice: ColorChoice) {
    CHOICE.get_or_init(|| choice);
}

/// Whether stdout is coloured.
pub(crate) fn colors_stdout() -> bool {
    is_enabled(std::io::stdout().is_terminal())
}

/// Whether stderr is coloured.
pub(crate) fn colors_stderr() -> bool {
    is_enabled(std::io::stderr().is_terminal())
}

fn is_enabled(is_terminal: bool) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match CHOICE.get().copied().unwrap_or_default() {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            is_terminal && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Something succeeded.
    Good,
    /// Something failed.
    Bad,
    /// Something needs attention.
    Attention,
    /// Less important text.
    Dim,
    /// A heading.
    Heading,
}

/// The styles with their markers, which are Unicode noncharacters, and their escape sequences.
const MARKERS: [(Style, char, &str); 5] = [
    (Style::Good, '\u{fdd0}', "\x1b[32m"),
    (Style::Bad, '\u{fdd1}', "\x1b[31m"),
    (Style::Attention, '\u{fdd2}', "\x1b[33m"),
    (Style::Dim, '\u{fdd3}', "\x1b[2m"),
    (Style::Heading, '\u{fdd4}', "\x1b[1m"),
];

/// Ends a style.
const END_MARKER: (char, &str) = ('\u{fdd5}', "\x1b[0m");

/// A text with a style.
pub(crate) fn paint_text(style: Style, text: &str) -> String {
    let marker = MARKERS.iter().find(|(known, _, _)| *known == style).map(|(_, marker, _)| *marker);
    marker.map(String::from).unwrap_or_default() + text + &END_MARKER.0.to_string()
}

/// Whether a character marks a style. It has no width.
pub(crate) fn is_marker(c: char) -> bool {
    ('\u{fdd0}'..='\u{fdd5}').contains(&c)
}

/// Replaces the markers of styles by escape sequences, or removes them.
pub(crate) fn apply_styles(text: &str, is_colored: bool) -> Cow<'_, str> {
    if !text.contains(is_marker) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let sequence = MARKERS.iter().find(|(_, marker, _)| *marker == c).map(|(_, _, sequence)| *sequence);
        match (sequence.or((c == END_MARKER.0).then_some(END_MARKER.1)), is_colored) {
            (None, _) => out.push(c),
            (Some(sequence), true) => out.push_str(sequence),
            (Some(_), false) => {}
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_become_sequences_or_nothing() {
        let text = format!("{} /a", paint_text(Style::Good, "✓"));
        assert_eq!(apply_styles(&text, true), "\x1b[32m✓\x1b[0m /a");
        assert_eq!(apply_styles(&text, false), "✓ /a");
        assert!(matches!(apply_styles("plain", true), Cow::Borrowed("plain")));
    }
}
