//! Finds the end of a JavaScript expression from brackets, strings, templates, comments and fragments, without a
//! parser.
//!
//! The Markdown parser asks at every closing brace whether the expression is complete. Errors in the expression are
//! reported later, all together.

use std::ops::Range;

/// The result of scanning an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// How the text ends.
    pub(super) end: ExpressionEnd,
    /// Whether there is only white space and comments.
    pub(super) is_blank: bool,
}

/// How the text of an expression ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpressionEnd {
    /// Everything that was opened is closed.
    Complete,
    /// Within a `//` comment, which lasts until a line break.
    LineComment,
    /// Within a regular expression.
    Regex,
    /// Within brackets, a string, a template, a fragment or another comment.
    Open,
}

impl ExpressionEnd {
    /// Why a brace does not end an expression that ends like this; `None` if it does.
    pub(super) fn find_problem(self) -> Option<&'static str> {
        match self {
            ExpressionEnd::Complete => None,
            ExpressionEnd::LineComment => Some(BRACE_IN_COMMENT),
            ExpressionEnd::Regex => Some("the end / of a regular expression is missing"),
            ExpressionEnd::Open => Some("a } or a quotation mark is missing"),
        }
    }
}

/// The problem of an expression that ends within a `//` comment.
pub(super) const BRACE_IN_COMMENT: &str = "a } in a // comment does not end it";

/// Keywords after which a slash starts a regular expression.
const REGEX_KEYWORDS: [&str; 7] = ["return", "typeof", "in", "void", "delete", "instanceof", "case"];

/// Scans the text of an expression.
pub(super) fn scan_expression(text: &str) -> Scan {
    let mut lexer = Lexer::new(text);
    let end = match lexer.run() {
        Err(end) => end,
        Ok(()) if lexer.open.is_empty() => ExpressionEnd::Complete,
        Ok(()) => ExpressionEnd::Open,
    };
    Scan { end, is_blank: lexer.is_blank }
}

/// The offset of the brace that ends the expression at the start of `text`: the first before which everything that was opened
/// is closed. `None` if there is none. Reads the text once.
pub fn find_expression_end(text: &str) -> Option<usize> {
    let mut lexer = Lexer::new(text);
    let _ = lexer.run();
    let complete_from = lexer.excess?.max(lexer.slash_line_end);
    text[complete_from..].find('}').map(|end| complete_from + end)
}

/// The offset of the first `}` that closes nothing in a text that starts within an expression. Reads the text once, and does
/// not look further where [`find_expression_end`] would.
pub(super) fn find_first_end(text: &str) -> Option<usize> {
    let mut lexer = Lexer::new(text);
    // Unterminated text after the brace does not matter.
    let _ = lexer.run();
    lexer.excess.filter(|at| text[*at..].starts_with('}'))
}

/// An expression without the white space and the comments between its tokens, and with the line ends of JavaScript. Two
/// expressions with the same compact text do the same.
pub fn compact_expression(text: &str) -> String {
    let mut lexer = Lexer::new(text);
    // Of text that is not terminated, the gaps so far are left out.
    let _ = lexer.run();
    let mut compact = String::with_capacity(text.len());
    let mut from = 0;
    for gap in lexer.gaps {
        compact.push_str(&text[from..gap.start]);
        from = gap.end;
        let next = text[from..].chars().next();
        if compact.chars().next_back().zip(next).is_some_and(|(before, after)| would_merge(before, after)) {
            compact.push(' ');
        }
    }
    compact.push_str(&text[from..]);
    compact.replace("\r\n", "\n")
}

/// Whether two characters would be parts of one token.
fn would_merge(before: char, after: char) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let is_operator = |c: char| c.is_ascii_punctuation() && !"()[]{},;`'\"".contains(c);
    (is_word(before) && is_word(after)) || (is_operator(before) && is_operator(after))
}

/// A line of a template or fragment that is not blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextLine {
    /// The offset of the line, or of the text if it is the first line.
    pub(super) start: usize,
    /// The offset of the template or fragment, after its first characters.
    pub(super) text_start: usize,
}

/// The lines of the templates and fragments in an expression.
pub(super) fn find_text_lines(text: &str) -> Vec<TextLine> {
    let mut lexer = Lexer::new(text);
    // Of text that is not terminated, the lines so far are found.
    let _ = lexer.run();
    lexer.text_lines
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The open brackets: `{`, `(`, `[`, `$` (in a template), `` ` `` (text of a template), `<` (text of a fragment).
    open: Vec<u8>,
    after_value: bool,
    is_blank: bool,
    /// White space and comments between tokens.
    gaps: Vec<Range<usize>>,
    /// Where the open templates and fragments start.
    text_starts: Vec<usize>,
    /// The start of a line of text whose content is still to come.
    blank_line: Option<usize>,
    text_lines: Vec<TextLine>,
    /// Where a bracket closes more than was opened.
    excess: Option<usize>,
    /// The end of the last line whose slash could begin a regular expression that does not end there. Up to it, a brace may be
    /// part of that expression.
    slash_line_end: usize,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Lexer<'a> {
        Lexer {
            bytes: text.as_bytes(),
            at: 0,
            open: Vec::new(),
            after_value: false,
            is_blank: true,
            gaps: Vec::new(),
            text_starts: Vec::new(),
            blank_line: None,
            text_lines: Vec::new(),
            excess: None,
            slash_line_end: 0,
        }
    }

    fn remaining_bytes(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Reads to the end. Fails if the end is within a string, a comment or a regular expression.
    fn run(&mut self) -> Result<(), ExpressionEnd> {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            match self.open.last() {
                Some(b'`') => self.lex_template(byte),
                Some(b'<') => self.lex_fragment(byte),
                _ => match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => self.skip_gap(1),
                    b'/' if self.remaining_bytes().starts_with(b"//") => {
                        let line = self.remaining_bytes().iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                        self.skip_gap(line.ok_or(ExpressionEnd::LineComment)?);
                    }
                    b'/' if self.remaining_bytes().starts_with(b"/*") => {
                        let comment = self.remaining_bytes()[2..].windows(2).position(|pair| pair == b"*/");
                        self.skip_gap(comment.ok_or(ExpressionEnd::Open)? + 4);
                    }
                    _ => {
                        self.is_blank = false;
                        self.lex_token(byte)?;
                    }
                },
            }
        }
        Ok(())
    }

    fn skip_gap(&mut self, length: usize) {
        let start = self.at;
        self.at += length;
        match self.gaps.last_mut() {
            Some(last) if last.end == start => last.end = self.at,
            _ => self.gaps.push(start..self.at),
        }
    }

    /// Begins a template or fragment whose text follows after `length` bytes.
    fn open_text(&mut self, kind: u8, length: usize) {
        self.open.push(kind);
        self.at += length;
        self.text_starts.push(self.at);
        self.blank_line = Some(self.at);
    }

    fn close_text(&mut self) {
        self.open.pop();
        self.text_starts.pop();
        self.blank_line = None;
        self.after_value = true;
    }

    /// Notes a byte of the text of a template or fragment.
    fn note_text(&mut self, byte: u8) {
        match byte {
            b'\n' => self.blank_line = Some(self.at + 1),
            b' ' | b'\t' | b'\r' => {}
            _ => {
                if let (Some(start), Some(text_start)) = (self.blank_line.take(), self.text_starts.last().copied()) {
                    self.text_lines.push(TextLine { start, text_start });
                }
            }
        }
    }

    fn lex_template(&mut self, byte: u8) {
        if byte == b'`' {
            self.close_text();
            self.at += 1;
            return;
        }
        self.note_text(byte);
        match byte {
            b'\\' => self.at += 1,
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
            self.close_text();
            self.at += 3;
        } else if self.remaining_bytes().starts_with(b"<>") {
            self.open_text(b'<', 2);
        } else {
            self.note_text(byte);
            if byte == b'{' {
                self.open.push(b'{');
                self.after_value = false;
            }
            self.at += 1;
        }
    }

    /// Reads one token of code. Fails if it is not terminated.
    fn lex_token(&mut self, byte: u8) -> Result<(), ExpressionEnd> {
        match byte {
            b'"' | b'\'' => return self.lex_string(byte),
            b'`' => {
                self.open_text(b'`', 1);
                return Ok(());
            }
            b'{' | b'(' | b'[' => {
                self.open.push(byte);
                self.after_value = false;
            }
            b'}' | b')' | b']' => {
                let opening = self.open.pop();
                if opening.is_none() {
                    // More is closed than was opened; the expression parser reports that error.
                    self.excess = Some(self.at);
                    self.at = self.bytes.len();
                    return Ok(());
                }
                self.after_value = opening != Some(b'$');
            }
            b'<' if self.remaining_bytes().starts_with(b"<>") => {
                self.open_text(b'<', 2);
                return Ok(());
            }
            // In `</`, the slash belongs to a tag.
            b'/' if !self.after_value && !self.bytes[..self.at].ends_with(b"<") => return self.lex_regex(),
            // `i++` is a value, and `++i` starts one.
            b'+' | b'-' if self.bytes.get(self.at + 1) == Some(&byte) => self.at += 1,
            // A number may end with it; otherwise a name follows.
            b'.' => {}
            _ if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80 => {
                let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || *b >= 0x80;
                let length = self.remaining_bytes().iter().take_while(|b| is_word(b)).count();
                let word = &self.remaining_bytes()[..length];
                self.after_value =
                    self.is_member_name() || !REGEX_KEYWORDS.iter().any(|keyword| keyword.as_bytes() == word);
                self.at += length;
                return Ok(());
            }
            _ => self.after_value = false,
        }
        self.at += 1;
        Ok(())
    }

    /// Whether the word here is the name of a member, as in `a.in`.
    fn is_member_name(&self) -> bool {
        let before = self.bytes[..self.at].trim_ascii_end();
        before.ends_with(b".") && !before.ends_with(b"...")
    }

    fn lex_string(&mut self, quote: u8) -> Result<(), ExpressionEnd> {
        let mut at = self.at + 1;
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\n' => break,
                byte if *byte == quote => {
                    self.at = at + 1;
                    self.after_value = true;
                    return Ok(());
                }
                _ => {}
            }
            at += 1;
        }
        Err(ExpressionEnd::Open)
    }

    /// Reads a regular expression, or a single slash if the line ends first.
    fn lex_regex(&mut self) -> Result<(), ExpressionEnd> {
        let (mut at, mut in_class) = (self.at + 1, false);
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\n' | b'\r' => {
                    self.slash_line_end = at;
                    self.at += 1;
                    return Ok(());
                }
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => {
                    self.at = at + 1;
                    self.after_value = true;
                    return Ok(());
                }
                _ => {}
            }
            at += 1;
        }
        Err(ExpressionEnd::Regex)
    }
}

/// Length of a tag from its `<` to its `>` outside of quotes and braces; `None` if it does not end.
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
    fn the_lines_of_texts_are_found() {
        let lines =
            |text: &str| find_text_lines(text).iter().map(|line| (line.start, line.text_start)).collect::<Vec<_>>();
        assert_eq!(lines("a +\n  b"), []);
        assert_eq!(lines("`x:\n  y`"), [(1, 1), (4, 1)]);
        assert_eq!(lines("`\n\n  ${ a\n + b }\n`"), [(3, 1)]);
        assert_eq!(lines("<>\n- {`a\nb`}\n  c\n</>"), [(3, 2), (7, 7), (9, 7), (13, 2)]);
    }

    #[test]
    fn compact_expressions_have_no_gaps() {
        for (text, compact) in [
            ("a + b", "a+b"),
            ("items\r\n  .map(t => `- ${ t }\r\n  x`)", "items.map(t=>`- ${t}\n  x`)"),
            ("typeof  x", "typeof x"),
            ("a + +b - - c", "a+ +b- -c"),
            ("/* c */ a // d\n || 'a  b'", "a||'a  b'"),
            ("a / /x  y/.source", "a/ /x  y/.source"),
            ("<>Dear  {name  ||  'x'}</>", "<>Dear  {name||'x'}</>"),
        ] {
            assert_eq!(compact_expression(text), compact);
            assert_eq!(compact_expression(compact), compact);
        }
    }

    #[test]
    fn expressions_end_where_everything_is_closed() {
        let complete =
            ["a", "{a: 1}", "`x${y}`", "'}'", "/[}/]/.test(a)", "a / b", "<>it's {x}</>", "// c\n", "/* } */", ""];
        for text in complete {
            assert_eq!(scan_expression(text).end, ExpressionEnd::Complete, "{text:?}");
        }
        for text in ["{a", "`x${y", "'", "\"a", "(1", "/* c", "/*/", "<>a", "`a", "<>{x</>"] {
            assert_eq!(scan_expression(text).end, ExpressionEnd::Open, "{text:?}");
        }
        for text in ["// c", "1 // c", "\n  // joins {items", "a / b // {", "/* c */ // '"] {
            assert_eq!(scan_expression(text).end, ExpressionEnd::LineComment, "{text:?}");
        }
        for (text, is_blank) in [(" // c", true), ("/* a */ /* b */", true), ("", true), ("/* a */ 1", false)] {
            assert_eq!(scan_expression(text).is_blank, is_blank, "{text:?}");
        }
    }

    #[test]
    fn a_brace_in_a_regular_expression_does_not_end_it() {
        for text in ["/", "!/", "typeof /", "c ? /", "a + /", "[.../", "x => /a", "{a: /"] {
            assert_eq!(scan_expression(text).end, ExpressionEnd::Regex, "{text:?}");
            let whole = format!("{text}}}/.source");
            assert_ne!(scan_expression(&whole).end, ExpressionEnd::Regex, "{whole:?}");
        }
        // These slashes divide, or belong to tags.
        for text in ["a / b", "i++ / 2", "a.in / 2", "a?.typeof / 2", "of / 2", "1. / 2", "(a) / 2", "<b>x</b>"] {
            assert_eq!(scan_expression(text).end, ExpressionEnd::Complete, "{text:?}");
        }
        assert_eq!(find_expression_end("/}/.test(s)} y"), Some(11));
        assert_eq!(find_expression_end(" // stop at }\n $.index === 1}"), Some(28));
        assert_eq!(find_expression_end("// }"), None);
        assert_eq!(find_expression_end("a ? /x } b\n} c"), Some(11));
        assert_eq!(find_expression_end("a) '}' }"), Some(4));
    }

    proptest::proptest! {
        /// The rule, without the single pass.
        #[test]
        fn an_expression_ends_at_the_first_brace_before_which_it_is_complete(text in "[a '\"`/\\n\\\\<>$(){}\\[\\]*+.-]{0,24}") {
            let mut braces = text.match_indices('}').map(|(at, _)| at);
            let expected = braces.find(|end| scan_expression(&text[..*end]).end == ExpressionEnd::Complete);
            proptest::prop_assert_eq!(find_expression_end(&text), expected, "{:?}", text);
        }
    }
}
