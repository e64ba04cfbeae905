//! Reads JSON that is being written: missing values, commas and brackets, comments, and texts without an end.
//!
//! The tree is that of the strict parser. A value that is missing is `null` with an empty span.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{MAX_DEPTH, Node, NodeKind};
use flowloom_core::value::Number;

/// The tree of a text; `None` if it has no value at all.
pub fn parse_tolerant(text: &str) -> Option<Node> {
    let mut reader = TolerantReader { text, at: 0, depth: 0 };
    reader.skip_blank();
    reader.read_value()
}

/// The part of a string's span between its quotes. The closing quote may be missing.
pub fn inner_span(text: &str, string: &Node) -> Span {
    let written = text.get(string.span.start..string.span.end()).unwrap_or_default();
    let is_closed = written.len() > 1 && written.ends_with('"') && !ends_with_escape(&written[..written.len() - 1]);
    let length = written.len().saturating_sub(if is_closed { 2 } else { 1 });
    Span { start: string.span.start + 1, length }
}

/// Whether an odd number of backslashes ends a text, so that the next character is escaped.
fn ends_with_escape(text: &str) -> bool {
    text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

struct TolerantReader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl TolerantReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn span_from(&self, start: usize) -> Span {
        Span { start, length: self.at - start }
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            let skipped = rest.len() - trimmed.len();
            let comment = if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map_or(trimmed.len(), |end| end + 2)
            } else {
                0
            };
            self.at += skipped + comment;
            if comment == 0 {
                return;
            }
        }
    }

    /// Reads a value; `None` if there is none here.
    fn read_value(&mut self) -> Option<Node> {
        let start = self.at;
        let kind = match self.peek()? {
            b'{' if self.depth < MAX_DEPTH => self.read_object(),
            b'[' if self.depth < MAX_DEPTH => self.read_list(),
            b'"' => NodeKind::String(self.read_string()),
            b',' | b':' | b']' | b'}' | b'{' | b'[' => return None,
            _ => self.read_word(),
        };
        Some(Node { span: self.span_from(start), kind })
    }

    /// Reads a number, a constant, or a word that is neither.
    fn read_word(&mut self) -> NodeKind {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || ",:]}[{\"/".contains(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let kind = match word {
            "true" => NodeKind::Bool(true),
            "false" => NodeKind::Bool(false),
            "null" => NodeKind::Null,
            _ => Number::parse(word).map_or(NodeKind::Null, NodeKind::Number),
        };
        // A character that begins nothing is skipped, so that every call moves on.
        self.at += end.max(rest.chars().next().map_or(0, char::len_utf8));
        kind
    }

    /// Reads a string up to its closing quote, or up to the end of the line.
    fn read_string(&mut self) -> String {
        let start = self.at;
        let mut escaped = false;
        let mut end = self.text.len();
        for (offset, byte) in self.text.bytes().enumerate().skip(start + 1) {
            match byte {
                b'\n' => {
                    end = offset;
                    break;
                }
                b'"' if !escaped => {
                    end = offset + 1;
                    break;
                }
                _ => escaped = byte == b'\\' && !escaped,
            }
        }
        self.at = end;
        let written = self.text[start..end].trim_end_matches('\r');
        self.at = start + written.len();
        decode_string(written)
    }

    fn read_list(&mut self) -> NodeKind {
        let mut items = Vec::new();
        self.at += 1;
        self.depth += 1;
        loop {
            self.skip_blank();
            match self.peek() {
                None => break,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                // The end of an enclosing object: the bracket is missing.
                Some(b'}') => break,
                Some(b',' | b':') => self.at += 1,
                Some(_) => match self.read_value() {
                    Some(item) => items.push(item),
                    None => self.at += 1,
                },
            }
        }
        self.depth -= 1;
        NodeKind::List(items)
    }

    fn read_object(&mut self) -> NodeKind {
        let mut entries: Vec<(String, Span, Node)> = Vec::new();
        self.at += 1;
        self.depth += 1;
        loop {
            self.skip_blank();
            match self.peek() {
                None => break,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                // The end of an enclosing list: the bracket is missing.
                Some(b']') => break,
                Some(b'"') => entries.push(self.read_entry()),
                Some(b',' | b':') => self.at += 1,
                // A value without a key.
                Some(_) => {
                    if self.read_value().is_none() {
                        self.at += 1;
                    }
                }
            }
        }
        self.depth -= 1;
        NodeKind::Map(entries)
    }

    fn read_entry(&mut self) -> (String, Span, Node) {
        let start = self.at;
        let key = self.read_string();
        let span = self.span_from(start);
        let after = self.at;
        self.skip_blank();
        if self.peek() != Some(b':') {
            self.at = after;
            return (key, span, Node { span: self.span_from(after), kind: NodeKind::Null });
        }
        self.at += 1;
        let colon = self.at;
        self.skip_blank();
        // A key in the place of the value begins the next entry.
        let is_key = self.peek() == Some(b'"') && self.is_key_ahead();
        match if is_key { None } else { self.read_value() } {
            Some(value) => (key, span, value),
            None => (key, span, Node { span: Span { start: colon, length: 0 }, kind: NodeKind::Null }),
        }
    }

    /// Whether the string that begins here is followed by a colon.
    fn is_key_ahead(&self) -> bool {
        let mut ahead = TolerantReader { text: self.text, at: self.at, depth: self.depth };
        ahead.read_string();
        ahead.skip_blank();
        ahead.peek() == Some(b':')
    }
}

/// The content of a string with its opening quote; a wrong escape stays as it is written.
fn decode_string(written: &str) -> String {
    let closed = if written.len() > 1 && written.ends_with('"') { written.to_owned() } else { format!("{written}\"") };
    match flowloom_core::json::parse_value(&closed) {
        Ok(value) => value.as_str().unwrap_or_default().to_owned(),
        Err(_) => written.trim_matches('"').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        parse_tolerant(text)
            .map_or_else(|| "nothing".to_owned(), |node| flowloom_core::json::write_json(&node.to_value()))
    }

    #[test]
    fn what_is_missing_is_null() {
        let cases = [
            (r#"{"a": 1, "b": [1, 2"#, r#"{"a":1,"b":[1,2]}"#),
            (r#"{"a": , "b": 2}"#, r#"{"a":null,"b":2}"#),
            ("{\"a\": \"x\n\"b\": 2}", r#"{"a":"x","b":2}"#),
            (r#"{"a" "b": 2}"#, r#"{"a":null,"b":2}"#),
            ("{\"a\":\n\"b\": 2}", r#"{"a":null,"b":2}"#),
            ("// why\n{\"a\": 1, /* x */ \"b\": 2,}", r#"{"a":1,"b":2}"#),
            (r#"{"steps": [{"type": "st}]}"#, r#"{"steps":[{"type":"st}]}"}]}"#),
            (r#"{"a": [1}"#, r#"{"a":[1]}"#),
            (r#"{"a": "say \"hi\" \\"}"#, r#"{"a":"say \"hi\" \\"}"#),
            ("", "nothing"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn the_inside_of_a_string_has_no_quotes() {
        for (text, inside) in [(r#""ab""#, "ab"), (r#""ab"#, "ab"), (r#"""#, ""), (r#""a\""#, r#"a\""#), (r#""""#, "")]
        {
            let node = parse_tolerant(text).expect("a string");
            let span = inner_span(text, &node);
            assert_eq!(&text[span.start..span.end()], inside, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_text_has_an_end(text in r#"[{}\[\]":,a1/*\\é \n]{0,60}"#) {
            if let Some(node) = parse_tolerant(&text) {
                proptest::prop_assert!(node.span.end() <= text.len());
            }
        }

        #[test]
        fn correct_json_is_read_as_usual(text in r#"(\{"a": ?(1|"x"|\[true, ?null\])(, "b": (2|\{\}))?\})"#) {
            let strict = flowloom_core::json::parse_value(&text).expect("correct");
            proptest::prop_assert_eq!(read(&text), flowloom_core::json::write_json(&strict));
        }
    }
}
