//! Breaks text between words while it arrives, so that a terminal does not break it within them.

/// Wraps a text that arrives in pieces. The last word is held until it ends.
#[derive(Debug)]
pub(crate) struct WordWrap {
    columns: usize,
    /// The column after what was given out.
    column: usize,
    /// The blanks before the word that is held.
    blanks: String,
    word: String,
}

impl WordWrap {
    /// Lines of at most `columns`.
    pub(crate) fn new(columns: usize) -> WordWrap {
        WordWrap { columns, column: 0, blanks: String::new(), word: String::new() }
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
                c if c.is_whitespace() => {
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
        let (blanks, width) = (self.blanks.chars().count(), self.word.chars().count());
        if self.column > 0 && self.column + blanks + width > self.columns {
            out.push('\n');
            self.column = width;
        } else {
            out.push_str(&self.blanks);
            self.column += blanks + width;
        }
        out.push_str(&self.word);
        self.blanks.clear();
        self.word.clear();
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
}
