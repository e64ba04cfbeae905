//! Breaks text between words while it arrives, so that a terminal does not break it within them.

use super::measure::{count_columns, split_word};

/// A blank at which no line is broken.
const NO_BREAK_SPACE: char = '\u{a0}';

/// Wraps a text that arrives in pieces. The last word is held until it ends.
#[derive(Debug)]
pub(crate) struct WordWrap {
    columns: usize,
    /// The column in which further lines of a line start.
    indent: usize,
    /// The column after the output so far.
    column: usize,
    /// The blanks before the word that is held.
    blanks: String,
    word: String,
}

impl WordWrap {
    /// Lines of at most `columns`.
    pub(crate) fn new(columns: usize) -> WordWrap {
        WordWrap { columns, indent: 0, column: 0, blanks: String::new(), word: String::new() }
    }

    /// Starts further lines of a line in column `indent`.
    pub(crate) fn with_indent(self, indent: usize) -> WordWrap {
        WordWrap { indent, ..self }
    }

    /// Takes a piece. Returns what can be printed.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '\n' => {
                    self.release_word(&mut out);
                    self.blanks.clear();
                    out.push('\n');
                    self.column = 0;
                }
                c if c.is_whitespace() && c != NO_BREAK_SPACE => {
                    self.release_word(&mut out);
                    self.blanks.push(c);
                }
                c => self.word.push(c),
            }
        }
        out
    }

    /// The rest of the text.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.release_word(&mut out);
        self.blanks.clear();
        out
    }

    fn release_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let mut blanks = std::mem::take(&mut self.blanks);
        for part in split_word(&std::mem::take(&mut self.word)) {
            let (gap, width) = (count_columns(&blanks), count_columns(part));
            if self.column > 0 && self.column + gap + width > self.columns {
                out.push('\n');
                out.push_str(&" ".repeat(self.indent));
                self.column = self.indent + width;
            } else {
                out.push_str(&blanks);
                self.column += gap + width;
            }
            out.push_str(part);
            blanks.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_however_it_arrives() {
        let text = "One two three, four.\n\n  five six seven  eight";
        let expected = "One two\nthree,\nfour.\n\n  five six\nseven\neight";
        for size in 1..9 {
            let mut wrap = WordWrap::new(10);
            let pieces: Vec<char> = text.chars().collect();
            let mut shown: String =
                pieces.chunks(size).map(|piece| wrap.push(&piece.iter().collect::<String>())).collect();
            shown += &wrap.finish();
            assert_eq!(shown, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn wide_characters_are_broken_at_the_edge() {
        let mut wrap = WordWrap::new(9).with_indent(2);
        let shown = wrap.push("灯台は岩の上に立つ。 one\u{a0}two") + &wrap.finish();
        assert_eq!(shown, "灯台は岩\n  の上に\n  立つ。\n  one\u{a0}two");
    }
}
