//! The causes of syntax errors in JSON, with help and corrections.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Expected, JsonError, JsonErrorKind, find_constant};

/// Maximum number of places at which one mistake is corrected.
const MAX_EDITS: usize = 1000;

/// The probable cause of a syntax error.
pub(crate) struct Mistake {
    /// The place to mark.
    pub(crate) span: Span,
    /// How to solve it.
    pub(crate) help: String,
    /// The edits after which the text can be read on, in the order of their places; none if the cause is not plain.
    pub(crate) edits: Vec<(Span, String)>,
    /// Whether the edited text means what the author meant.
    pub(crate) certainty: Certainty,
    /// How the edits are offered to people; `None` if they only serve to read on.
    pub(crate) fix: Option<ProposedFix>,
    /// Whether it is a comment, which may also stand before the first bracket.
    pub(crate) is_comment: bool,
}

/// Whether a corrected text can be taken for what its author meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// There is only one way to mean the text.
    Certain,
    /// The edits are good enough to find further syntax errors.
    Guessed,
}

/// An offer to apply edits.
pub(crate) struct ProposedFix {
    pub(crate) title: String,
    /// Whether it can be applied without asking.
    pub(crate) is_safe: bool,
}

impl Mistake {
    fn new(span: Span, help: impl Into<String>) -> Mistake {
        let (help, certainty) = (help.into(), Certainty::Certain);
        Mistake { span, help, edits: Vec::new(), certainty, fix: None, is_comment: false }
    }

    /// Adds edits that say what the author meant, as a safe fix.
    fn with_correction(self, edits: Vec<(Span, String)>) -> Mistake {
        let fix = Some(ProposedFix { title: self.help.clone(), is_safe: true });
        Mistake { edits, fix, ..self }
    }

    /// Adds edits after which the text can be read on.
    fn with_patch(self, edits: Vec<(Span, String)>) -> Mistake {
        Mistake { edits, certainty: Certainty::Guessed, ..self }
    }

    /// Offers the edits as a guess.
    fn with_proposal(self, title: &str) -> Mistake {
        Mistake { fix: Some(ProposedFix { title: title.to_owned(), is_safe: false }), ..self }
    }

    /// Offers the edits with another title than the help.
    fn with_title(self, title: &str) -> Mistake {
        Mistake { fix: self.fix.map(|fix| ProposedFix { title: title.to_owned(), ..fix }), ..self }
    }
}

/// The probable cause of `error` in `text`.
pub(crate) fn find_mistake(text: &str, error: &JsonError) -> Mistake {
    match error.kind {
        JsonErrorKind::Truncated => {
            Mistake::new(error.span, "the rest of the file is missing, or a bracket is not closed")
        }
        JsonErrorKind::TooDeep => Mistake::new(error.span, "nest lists and objects less deeply"),
        JsonErrorKind::Syntax => {
            let (before, rest) = text.split_at(error.span.start);
            ErrorPlace { before, rest, span: error.span }.explain_error(error.expected)
        }
    }
}

/// The place of a syntax error.
struct ErrorPlace<'a> {
    before: &'a str,
    rest: &'a str,
    span: Span,
}

impl ErrorPlace<'_> {
    fn explain_error(&self, expected: Expected) -> Mistake {
        let is_in_string = matches!(expected, Expected::StringRest | Expected::Escape | Expected::HexDigits);
        // A value such as #fff is no comment.
        let is_value = expected == Expected::Value && self.rest.starts_with('#') && !self.rest.starts_with("# ");
        if let Some(length) = comment_len(self.rest).filter(|_| !is_in_string && !is_value) {
            let edits = vec![(Span { start: self.span.start, length }, " ".repeat(length))];
            // In Markdown and other text, # means something else.
            let is_comment = !self.rest.starts_with('#');
            return Mistake { edits, is_comment, ..Mistake::new(self.span, "JSON has no comments") };
        }
        if !is_in_string && (self.found_char().is_whitespace() || self.found_char() == '\u{200b}') {
            let edits = vec![(self.span, " ".to_owned())];
            return Mistake::new(self.span, "write an ordinary space instead of this blank").with_correction(edits);
        }
        match expected {
            Expected::Value | Expected::Key => self
                .explain_comma()
                .or_else(|| self.explain_quotes())
                .unwrap_or_else(|| self.explain_word(expected == Expected::Key)),
            Expected::Number => {
                let help = "write a number such as 3, -0.5 or 1e6, or a text in double quotes";
                Mistake::new(self.span, help).with_patch(vec![(self.span, "0".to_owned())])
            }
            Expected::Colon => self.explain_colon(),
            Expected::Comma => {
                let end = Span { start: self.code_before().len(), length: 0 };
                Mistake::new(self.span, "add the comma before it").with_correction(vec![(end, ",".to_owned())])
            }
            Expected::Separator => self.explain_separator(),
            Expected::StringRest => self.explain_control(),
            Expected::Escape => self.explain_backslash(1),
            Expected::HexDigits => self.explain_backslash(2),
            Expected::End => self.explain_end(),
        }
    }

    fn found_char(&self) -> char {
        self.rest.chars().next().unwrap_or('\0')
    }

    /// The text before the place without the blanks at its end.
    fn code_before(&self) -> &str {
        self.before.trim_end()
    }

    /// A comma too many, or a missing value.
    fn explain_comma(&self) -> Option<Mistake> {
        let before = self.code_before();
        match self.found_char() {
            ']' | '}' if before.ends_with(',') => {
                let comma = Span { start: before.len() - 1, length: 1 };
                Some(
                    Mistake::new(self.span, "remove the comma before it").with_correction(vec![(comma, String::new())]),
                )
            }
            ',' if before.ends_with([',', '{', '[']) => {
                Some(Mistake::new(self.span, "remove this comma").with_correction(vec![(self.span, String::new())]))
            }
            ',' | ']' | '}' if before.ends_with(':') => {
                let value = Span { start: before.len(), length: 0 };
                let help = "write the value after the colon, such as null";
                Some(Mistake::new(self.span, help).with_patch(vec![(value, "null".to_owned())]))
            }
            _ => None,
        }
    }

    /// A text in quotation marks that are not those of JSON.
    fn explain_quotes(&self) -> Option<Mistake> {
        let closing: &[char] = match self.found_char() {
            quote @ ('\'' | '`') => &[quote],
            '“' | '”' | '„' | '‟' | '«' | '»' => &['”', '“', '»', '«', '"'],
            '‘' | '’' | '‚' => &['’', '‘', '\''],
            _ => return None,
        };
        let help = if closing.len() > 1 {
            "JSON strings need straight double quotes"
        } else {
            "JSON strings need double quotes"
        };
        let inner = &self.rest[self.found_char().len_utf8()..];
        let Some(end) = inner.find(|c| closing.contains(&c) || matches!(c, '\n' | '\\')) else {
            return Some(Mistake::new(self.span, help));
        };
        let Some(close) = inner[end..].chars().next().filter(|c| closing.contains(c)) else {
            return Some(Mistake::new(self.span, help));
        };
        let length = self.found_char().len_utf8() + end + close.len_utf8();
        let quoted = Span { start: self.span.start, length };
        let edits = vec![(quoted, quote_text(&inner[..end]))];
        let mistake = Mistake::new(quoted, help);
        let is_whole = ends_value(&self.rest[length..]);
        Some(if is_whole {
            mistake.with_correction(edits).with_title("write it in double quotes")
        } else {
            mistake.with_patch(edits)
        })
    }

    /// A text without quotation marks, or a misspelt constant or number.
    fn explain_word(&self, is_key: bool) -> Mistake {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.');
        let ends = |c: char| if is_key { !is_name(c) } else { matches!(c, ',' | ']' | '}' | '[' | '{' | '"' | '\n') };
        let word = &self.rest[..self.rest.find(ends).unwrap_or(self.rest.len())];
        let comment = ["//", "/*", " #"].iter().filter_map(|mark| word.find(mark)).min();
        let word = word[..comment.unwrap_or(word.len())].trim_end();
        let span = Span { start: self.span.start, length: word.len() };
        let after = &self.rest[word.len()..];
        if !word.is_empty() && after.strip_prefix('"').is_some_and(ends_value) {
            let open = Span { length: 0, ..span };
            return Mistake::new(span, "add the double quote before it").with_correction(vec![(open, "\"".to_owned())]);
        }
        if is_key && !word.is_empty() {
            let edits = vec![(span, quote_text(word))];
            let mistake = Mistake::new(span, "write the key in double quotes");
            return match after.trim_start().starts_with([':', '=']) {
                true => mistake.with_correction(edits),
                false => mistake.with_patch(edits).with_proposal("write the key in double quotes"),
            };
        }
        if let Some(constant) = find_constant(word).filter(|_| !is_key) {
            let edits = vec![(span, constant.to_owned())];
            let mistake = Mistake::new(span, format!("did you mean {constant}?")).with_correction(edits);
            return mistake.with_title(&format!("write {constant}"));
        }
        let help = match self.found_char() {
            _ if is_key => "write a key in double quotes, a colon and a value",
            '+' | '.' => "write a number such as 3, -0.5 or 1e6",
            _ => "only constants are allowed here: quoted strings, numbers, true, false, null, lists and objects",
        };
        if word.is_empty() || is_key {
            return Mistake::new(self.span, help);
        }
        let mistake = Mistake::new(span, help).with_patch(vec![(span, quote_text(word))]);
        if word.starts_with(char::is_alphabetic) { mistake.with_proposal("write it in double quotes") } else { mistake }
    }

    fn explain_colon(&self) -> Mistake {
        let end = Span { start: self.code_before().len(), length: 0 };
        match self.found_char() {
            '=' => {
                let length = 1 + usize::from(self.rest.starts_with("=>"));
                let edits = vec![(Span { start: self.span.start, length }, ":".to_owned())];
                Mistake::new(self.span, "write a colon instead").with_correction(edits)
            }
            '-' | '0'..='9'
                if let Some(quotes) = self.explain_inner_quotes().filter(|quotes| quotes.edits.len() > 1) =>
            {
                quotes
            }
            '{' | '[' | '-' | '0'..='9' => {
                Mistake::new(self.span, "add the colon before it").with_correction(vec![(end, ":".to_owned())])
            }
            ',' | '}' => {
                let help = "write a colon and a value after the key";
                Mistake::new(self.span, help).with_patch(vec![(end, ": null".to_owned())])
            }
            _ => self
                .explain_inner_quotes()
                .unwrap_or_else(|| Mistake::new(self.span, "write a colon between the key and its value")),
        }
    }

    fn explain_separator(&self) -> Mistake {
        let before = self.code_before();
        let is_list = is_in_list(before);
        let help = match self.found_char() {
            ';' if ends_bracket(&self.rest[1..]) => {
                return Mistake::new(self.span, "remove this semicolon")
                    .with_correction(vec![(self.span, String::new())]);
            }
            ';' => {
                return Mistake::new(self.span, "write a comma instead")
                    .with_correction(vec![(self.span, ",".to_owned())]);
            }
            '0'..='9' | '-' if let Some(quotes) = self.explain_inner_quotes() => return quotes,
            '0'..='9' | '-' if is_list => {
                let end = Span { start: before.len(), length: 0 };
                let mistake = Mistake::new(self.span, "write a comma between two values");
                return mistake.with_patch(vec![(end, ",".to_owned())]).with_proposal("add the comma before it");
            }
            ':' if is_list => "a list has no keys; write entries with keys in { and }",
            ']' => "close the object with } first",
            '}' => "close the list with ] first",
            _ => match self.explain_inner_quotes().or_else(|| self.explain_unit()) {
                Some(mistake) => return mistake,
                None => "write a comma between two values",
            },
        };
        Mistake::new(self.span, help)
    }

    /// Letters at the end of a number.
    fn explain_unit(&self) -> Option<Mistake> {
        let is_unit = self.before.ends_with(|c: char| c.is_ascii_digit());
        let length = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let letters = Span { start: self.span.start, length };
        let help = "write a number without other characters, or a text in double quotes";
        let mistake = || Mistake::new(letters, help).with_patch(vec![(letters, String::new())]);
        (is_unit && length > 0).then(mistake)
    }

    /// Quotation marks within a text, the first of which the parser has taken for its end.
    fn explain_inner_quotes(&self) -> Option<Mistake> {
        let text = self.before.strip_suffix('"')?;
        find_last_quote(text)?;
        let line = &self.rest[..self.rest.find('\n').unwrap_or(self.rest.len())];
        let mut quotes = vec![text.len()];
        let mut at = 0;
        loop {
            let found = at + find_quote(&line[at..])?;
            if ends_value(&line[found + 1..]) {
                break;
            }
            quotes.push(self.span.start + found);
            if quotes.len() > MAX_EDITS {
                return None;
            }
            at = found + 1;
        }
        let escapes = quotes.iter().map(|quote| (Span { start: *quote, length: 0 }, "\\".to_owned())).collect();
        let help = "write \\\" for a quotation mark inside a string";
        let word = self.rest.find(|c: char| !c.is_alphanumeric()).filter(|length| *length > 0);
        let span = Span { length: word.unwrap_or(self.span.length), ..self.span };
        Some(
            Mistake::new(span, help)
                .with_patch(escapes)
                .with_proposal("write \\\" for the quotation marks inside this string"),
        )
    }

    /// A character inside a string that has to be written as an escape, or a string that is not closed.
    fn explain_control(&self) -> Mistake {
        let close = find_quote(self.rest).filter(|close| ends_value(&self.rest[close + 1..]));
        let line = self.rest.find(['\n', '\r']).unwrap_or(self.rest.len());
        let is_break = line == 0;
        let mistake = Mistake::new(
            self.span,
            match self.found_char() {
                '\n' | '\r' => "write a line break inside a string as \\n",
                '\t' => "write a tab inside a string as \\t",
                _ => "write a control character inside a string as an escape such as \\u0007",
            },
        );
        let quote = find_quote(self.rest).unwrap_or(line);
        let end = close.or((!is_break).then_some(line.min(quote)));
        match end.map(|end| escape_controls(&self.rest[..end], self.span.start)) {
            Some(edits) if edits.len() <= MAX_EDITS => mistake.with_correction(edits),
            Some(_) => mistake,
            None if self.rest.trim_start().starts_with(['"', '{', '[', '}', ']']) => {
                let end = self.code_before().trim_end_matches([',', '}', ']', ' ', '\t']);
                let end = end.len().max(find_last_quote(self.before).map_or(0, |open| open + 1));
                let help = "close the string with a double quote, or write a line break inside it as \\n";
                let mistake = Mistake { help: help.to_owned(), ..mistake };
                mistake
                    .with_patch(vec![(Span { start: end, length: 0 }, "\"".to_owned())])
                    .with_proposal("close the string")
            }
            None => mistake,
        }
    }

    /// A backslash, `distance` bytes before the place, that begins no escape.
    fn explain_backslash(&self, distance: usize) -> Mistake {
        let backslash = Span { start: self.span.start - distance, length: 1 };
        let marked = Span { start: backslash.start, length: distance + self.span.length };
        if matches!(self.found_char(), '\'' | '`') && distance == 1 {
            return Mistake::new(marked, "remove the backslash").with_correction(vec![(backslash, String::new())]);
        }
        let marked = if distance == 1 { marked } else { Span { length: distance, ..marked } };
        let edits = vec![(backslash, "\\\\".to_owned())];
        Mistake { edits, ..Mistake::new(marked, "write \\\\ for a backslash") }
            .with_proposal("write \\\\ for the backslash")
    }

    fn explain_end(&self) -> Mistake {
        let rest = self.rest.trim_end();
        match self.found_char() {
            ';' | ',' if rest.len() == 1 => {
                Mistake::new(self.span, "remove it").with_correction(vec![(self.span, String::new())])
            }
            ']' | '}' => Mistake::new(self.span, "remove this bracket, or open one that is missing before it"),
            _ => Mistake::new(self.span, "a file has one JSON value; remove the text after it"),
        }
    }
}

/// The length of the comment with which a text begins; `None` if it begins with none that ends.
fn comment_len(rest: &str) -> Option<usize> {
    let line = || rest.find('\n').unwrap_or(rest.len());
    match rest.as_bytes() {
        [b'/', b'/', ..] | [b'#', ..] => Some(line()),
        [b'/', b'*', ..] => rest.find("*/").map(|end| end + 2),
        _ => None,
    }
}

/// The text as a JSON string. Backslashes are those of escapes already.
fn quote_text(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}

/// Whether a value may end before this text.
fn ends_value(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with([',', ':']) || ends_bracket(rest)
}

/// Whether a closing bracket follows.
fn ends_bracket(rest: &str) -> bool {
    rest.trim_start().starts_with(['}', ']'])
}

/// The first quotation mark of a text without a backslash before it.
fn find_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_quote = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_quote
    })
}

/// The last quotation mark of a text without a backslash before it.
fn find_last_quote(text: &str) -> Option<usize> {
    let is_escaped = |at: usize| text.as_bytes()[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    text.rmatch_indices('"').map(|(at, _)| at).find(|at| !is_escaped(*at))
}

/// Edits that write the control characters of the text at `start` as escapes.
fn escape_controls(text: &str, start: usize) -> Vec<(Span, String)> {
    let mut edits = Vec::new();
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_ascii_control() && *c != '\u{7f}') {
        let is_crlf = text[at..].starts_with("\r\n");
        let (length, escape) = match c {
            '\n' if text[..at].ends_with('\r') => continue,
            '\n' => (1, "\\n".to_owned()),
            '\r' if is_crlf => (2, "\\n".to_owned()),
            '\r' => (1, "\\r".to_owned()),
            '\t' => (1, "\\t".to_owned()),
            _ => (1, format!("\\u{:04x}", u32::from(c))),
        };
        edits.push((Span { start: start + at, length }, escape));
    }
    edits
}

/// Whether the innermost open bracket of a text is that of a list.
fn is_in_list(before: &str) -> bool {
    let mut depth = 0;
    for c in before.chars().rev() {
        match c {
            ']' | '}' => depth += 1,
            '[' | '{' if depth > 0 => depth -= 1,
            '[' => return true,
            '{' => return false,
            _ => {}
        }
    }
    false
}
