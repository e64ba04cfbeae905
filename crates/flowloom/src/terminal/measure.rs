//! The columns that text takes in a terminal: wide characters take two, combining ones and markers of styles none.

use unicode_width::UnicodeWidthChar as _;

use crate::style::is_marker;

/// The columns of a character. A control character is printed as a blank.
pub(crate) fn count_char_columns(c: char) -> usize {
    if is_marker(c) { 0 } else { c.width().unwrap_or(1) }
}

/// The columns of a line.
pub(crate) fn count_columns(text: &str) -> usize {
    text.chars().map(count_char_columns).sum()
}

/// The longest start of a text that takes at most `columns`.
pub(crate) fn take_columns(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += count_char_columns(*c);
        used > columns
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// The longest end of a text that takes at most `columns`.
pub(crate) fn take_last_columns(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let start = text.char_indices().rev().find(|(_, c)| {
        used += count_char_columns(*c);
        used > columns
    });
    start.map_or(text, |(at, c)| &text[at + c.len_utf8()..])
}

/// The text with blanks after it, so that it takes `columns`.
pub(crate) fn pad_columns(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(count_columns(text))))
}

/// The line within `columns`, without its end if it is too long.
pub(crate) fn fit_line(line: &str, columns: usize) -> String {
    match count_columns(line) <= columns {
        true => line.to_owned(),
        false => format!("{}…", take_columns(line, columns.saturating_sub(1))),
    }
}

/// The parts of a word between which a line may be broken: a script with wide characters has no blanks between its words.
pub(crate) fn split_word(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut was_wide) = (0, false);
    for (at, c) in word.char_indices() {
        // Combining characters belong to the one before them.
        let columns = count_char_columns(c);
        if columns == 0 {
            continue;
        }
        let is_wide = columns > 1;
        if at > start && (is_wide || was_wide) && !ends_phrase(c) {
            parts.push(&word[start..at]);
            start = at;
        }
        was_wide = is_wide;
    }
    parts.push(&word[start..]);
    parts
}

/// Whether no line begins with this character.
fn ends_phrase(c: char) -> bool {
    c.is_ascii_punctuation() || "、。，．！？：；）」』】〉》…ー".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{Style, paint_text};

    #[test]
    fn wide_characters_take_two_columns_and_combining_ones_none() {
        let painted = paint_text(Style::Good, "✓");
        let counted = ["日本", "e\u{301}", "🙂", "a\tb", &painted].map(count_columns);
        assert_eq!(counted, [4, 1, 2, 3, 1]);
        assert_eq!((take_columns("日本語", 5), take_last_columns("日本語", 5)), ("日本", "本語"));
        assert_eq!((pad_columns("日", 4), pad_columns("日本", 3)), ("日  ".to_owned(), "日本".to_owned()));
    }

    #[test]
    fn lines_are_cut_to_columns_without_their_styles() {
        let good = paint_text(Style::Good, "✓");
        assert_eq!(fit_line(&format!("{good} 12345"), 7), format!("{good} 12345"));
        assert_eq!(fit_line(&format!("{good} 123456"), 7), format!("{good} 1234…"));
        assert_eq!((fit_line("日本語", 6), fit_line("日本語", 5)), ("日本語".to_owned(), "日本…".to_owned()));
    }

    #[test]
    fn words_of_wide_characters_can_be_broken() {
        assert_eq!(split_word("lamp"), ["lamp"]);
        assert_eq!(split_word("灯台の光。abc"), ["灯", "台", "の", "光。", "abc"]);
        assert_eq!(split_word("(灯台)"), ["(", "灯", "台)"]);
    }
}
