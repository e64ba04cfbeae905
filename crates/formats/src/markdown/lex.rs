//! Finds the end of a JavaScript expression from brackets, strings, templates, comments and fragments, without a
//! parser.
//!
//! The Markdown parser asks at every closing brace whether the expression is complete. Errors in the expression are
//! reported later, all at once.

/// The result of scanning an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// Whether everything that was opened is closed.
    pub(super) is_balanced: bool,
    /// Whether there is only white space and comments.
    pub(super) is_blank: bool,
}

/// Keywords after which a slash starts a regular expression.
const REGEX_KEYWORDS: [&str; 8] = ["return", "typeof", "in", "of", "void", "delete", "instanceof", "case"];

/// Scans the text of an expression.
pub(super) fn scan_expression(text: &str) -> Scan {
    let mut lexer = Lexer { bytes: text.as_bytes(), at: 0, open: Vec::new(), after_value: false, is_blank: true };
    let is_closed = lexer.run();
    Scan { is_balanced: is_closed && lexer.open.is_empty(), is_blank: lexer.is_blank }
}

/// Maximum number of braces at which [`find_expression_end`] looks for the end.
const MAX_END_CANDIDATES: usize = 256;

/// The offset of the brace that ends the expression at the start of `text`; `None` if it is not closed.
pub fn find_expression_end(text: &str) -> Option<usize> {
    let ends = text.match_indices('}').map(|(at, _)| at).take(MAX_END_CANDIDATES);
    ends.into_iter().find(|end| scan_expression(&text[..*end]).is_balanced)
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The open brackets: `{`, `(`, `[`, `$` (in a template), `` ` `` (text of a template), `<` (text of a fragment).
    open: Vec<u8>,
    after_value: bool,
    is_blank: bool,
}

impl Lexer<'_> {
    fn remaining_bytes(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Reads to the end; `false` if that is inside a string or a comment.
    fn run(&mut self) -> bool {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            match self.open.last() {
                Some(b'`') => self.lex_template(byte),
                Some(b'<') => self.lex_fragment(byte),
                _ => match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                    b'/' if self.remaining_bytes().starts_with(b"//") => self.skip_past(b"\n"),
                    b'/' if self.remaining_bytes().starts_with(b"/*") => {
                        self.at += 2;
                        if !self.remaining_bytes().windows(2).any(|pair| pair == b"*/") {
                            return false;
                        }
                        self.skip_past(b"*/");
                    }
                    _ => {
                        self.is_blank = false;
                        if !self.lex_token(byte) {
                            return false;
                        }
                    }
                },
            }
        }
        true
    }

    fn skip_past(&mut self, end: &[u8]) {
        let found = self.remaining_bytes().windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.bytes.len(), |found| self.at + found + end.len());
    }

    fn lex_template(&mut self, byte: u8) {
        match byte {
            b'\\' => self.at += 1,
            b'`' => {
                self.open.pop();
                self.after_value = true;
            }
            b'$' if self.remaining_bytes().starts_with(b"${") => {
                self.at += 1;
                self.open.push(b'$');
                self.after_value = false;
            }
            _ => {}
        }
        self.at += 1;
    }

    fn lex_fragment(&mut self, byte: u8) {
        if self.remaining_bytes().starts_with(b"</>") {
            self.open.pop();
            self.after_value = true;
            self.at += 3;
        } else if self.remaining_bytes().starts_with(b"<>") {
            self.open.push(b'<');
            self.at += 2;
        } else {
            if byte == b'{' {
                self.open.push(b'{');
                self.after_value = false;
            }
            self.at += 1;
        }
    }

    /// Reads one token of code; `false` if it is not terminated.
    fn lex_token(&mut self, byte: u8) -> bool {
        match byte {
            b'"' | b'\'' => return self.lex_string(byte),
            b'`' => self.open.push(b'`'),
            b'{' | b'(' | b'[' => {
                self.open.push(byte);
                self.after_value = false;
            }
            b'}' | b')' | b']' => {
                let opening = self.open.pop();
                if opening.is_none() {
                    // More is closed than was opened; the expression parser reports that error.
                    self.at = self.bytes.len();
                    return true;
                }
                self.after_value = opening != Some(b'$');
            }
            b'<' if self.remaining_bytes().starts_with(b"<>") => {
                self.open.push(b'<');
                self.at += 1;
            }
            b'/' if !self.after_value => self.lex_regex(),
            _ if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80 => {
                let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || *b >= 0x80;
                let length = self.remaining_bytes().iter().take_while(|b| is_word(b)).count();
                let word = &self.remaining_bytes()[..length];
                self.after_value = !REGEX_KEYWORDS.iter().any(|keyword| keyword.as_bytes() == word);
                self.at += length;
                return true;
            }
            _ => self.after_value = false,
        }
        self.at += 1;
        true
    }

    fn lex_string(&mut self, quote: u8) -> bool {
        let mut at = self.at + 1;
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\n' => return false,
                byte if *byte == quote => {
                    self.at = at + 1;
                    self.after_value = true;
                    return true;
                }
                _ => {}
            }
            at += 1;
        }
        false
    }

    /// Reads a regular expression, or a single slash if the line ends first.
    fn lex_regex(&mut self) {
        let (mut at, mut in_class) = (self.at + 1, false);
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\n' => return,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => {
                    self.at = at;
                    self.after_value = true;
                    return;
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// Length of a tag from its `<` to its `>`, which stands outside of quotes and braces; `None` if it does not end.
pub fn measure_tag(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') => depth = depth.saturating_sub(1),
            (None, '>') if depth == 0 => return Some(at + 1),
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_end_where_everything_is_closed() {
        let complete =
            ["a", "{a: 1}", "`x${y}`", "'}'", "/[}/]/.test(a)", "a / b", "<>it's {x}</>", "// c\n", "/* } */", ""];
        for text in complete {
            assert!(scan_expression(text).is_balanced, "{text:?}");
        }
        for text in ["{a", "`x${y", "'", "\"a", "(1", "/* c", "<>a", "`a", "<>{x</>"] {
            assert!(!scan_expression(text).is_balanced, "{text:?}");
        }
        for (text, is_blank) in [(" // c", true), ("/* a */ /* b */", true), ("", true), ("/* a */ 1", false)] {
            assert_eq!(scan_expression(text).is_blank, is_blank, "{text:?}");
        }
    }
}
