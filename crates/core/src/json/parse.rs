//! The JSON parser: RFC 8259, with the byte span of every value.

use crate::diagnostic::Span;
use crate::value::{Map, Number, Value};

use super::MAX_DEPTH;
use super::error::{Expected, JsonError, JsonErrorKind};
use super::mistake::{find_constant, starts_entry, starts_item};

/// A value of a definition file, with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// The place in the file.
    pub span: Span,
    /// The value.
    pub kind: NodeKind,
}

/// The shape of a [`Node`].
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// a number
    Number(Number),
    /// a string
    String(String),
    /// a list
    List(Vec<Node>),
    /// an object as (key, span of the key, value), in order; a repeated key has only its last value
    Map(Vec<(String, Span, Node)>),
}

impl Node {
    /// The value without spans.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(value) => Value::Bool(*value),
            NodeKind::Number(number) => Value::Number(number.clone()),
            NodeKind::String(text) => text.as_str().into(),
            NodeKind::List(items) => Value::list(items.iter().map(Node::to_value).collect()),
            NodeKind::Map(entries) => {
                entries.iter().map(|(key, _, node)| (key.as_str().into(), node.to_value())).collect::<Map>().into()
            }
        }
    }

    /// The entry `key` of an object.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(name, _, _)| name == key).map(|(_, _, node)| node)
    }

    /// The entries of an object; empty for everything else.
    pub fn entries(&self) -> &[(String, Span, Node)] {
        if let NodeKind::Map(entries) = &self.kind { entries } else { &[] }
    }

    /// The items, if this is a list.
    pub fn items(&self) -> Option<&[Node]> {
        if let NodeKind::List(items) = &self.kind { Some(items) } else { None }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let NodeKind::String(text) = &self.kind { Some(text) } else { None }
    }

    /// The kind of this value, in words for messages.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "true/false",
            NodeKind::Number(_) => "a number",
            NodeKind::String(_) => "text",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "an object",
        }
    }
}

/// A repeated key of an object.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The key.
    pub key: String,
    /// The place of the repetition.
    pub span: Span,
}

/// Parses a definition into a tree with spans, and lists every repeated key. Fails if the text is not JSON.
pub fn parse_node(text: &str) -> Result<(Node, Vec<Duplicate>), JsonError> {
    let mut nodes = NodeBuilder::default();
    let node = parse_text(text, &mut nodes)?;
    Ok((node, nodes.duplicates))
}

#[derive(Default)]
struct NodeBuilder {
    duplicates: Vec<Duplicate>,
}

impl Build for NodeBuilder {
    type Out = Node;

    fn build_scalar(&mut self, span: Span, scalar: Scalar) -> Node {
        let kind = match scalar {
            Scalar::Null => NodeKind::Null,
            Scalar::Bool(value) => NodeKind::Bool(value),
            Scalar::Number(number) => NodeKind::Number(number),
            Scalar::String(text) => NodeKind::String(text),
        };
        Node { span, kind }
    }

    fn build_list(&mut self, span: Span, items: Vec<Node>) -> Node {
        Node { span, kind: NodeKind::List(items) }
    }

    fn build_map(&mut self, span: Span, entries: Vec<(String, Span, Node)>) -> Node {
        if entries.len() <= SMALL_OBJECT && has_distinct_keys(&entries) {
            return Node { span, kind: NodeKind::Map(entries) };
        }
        let mut index = indexmap::IndexMap::with_capacity(entries.len());
        for (key, at, node) in entries {
            if index.insert(key.clone(), (at, node)).is_some() {
                self.duplicates.push(Duplicate { key, span: at });
            }
        }
        let entries = index.into_iter().map(|(key, (at, node))| (key, at, node)).collect();
        Node { span, kind: NodeKind::Map(entries) }
    }
}

/// Number of keys up to which comparing them with each other is faster than hashing them.
const SMALL_OBJECT: usize = 8;

fn has_distinct_keys(entries: &[(String, Span, Node)]) -> bool {
    entries.iter().enumerate().all(|(index, (key, _, _))| entries[..index].iter().all(|(earlier, _, _)| earlier != key))
}

/// Parses the JavaScript object literal (bare keys, other quotation marks, `30_000`, trailing commas, comments) that starts
/// at byte `start` of `text`. Text after it is ignored. Fails if there is none, or if it is nested too deep.
pub fn parse_literal(text: &str, start: usize) -> Result<(Node, Vec<Duplicate>), JsonError> {
    let mut nodes = NodeBuilder::default();
    let mut parser = Parser { text, at: start, build: &mut nodes, relaxed: true, reads_misspelt: false };
    parser.skip_blank();
    let node = parser.parse_any(0)?;
    Ok((node, nodes.duplicates))
}

/// Like [`parse_literal`], but misspelt constants are read as [`find_constant`](super::find_constant) understands them.
/// Fails in the same cases.
pub fn parse_misspelt(text: &str, start: usize) -> Result<Node, JsonError> {
    let mut nodes = NodeBuilder::default();
    let mut parser = Parser { text, at: start, build: &mut nodes, relaxed: true, reads_misspelt: true };
    parser.skip_blank();
    parser.parse_any(0)
}

/// A value without children.
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
}

/// Builds a tree from the values that the parser reports.
pub(super) trait Build {
    type Out;
    fn build_scalar(&mut self, span: Span, scalar: Scalar) -> Self::Out;
    fn build_list(&mut self, span: Span, items: Vec<Self::Out>) -> Self::Out;
    fn build_map(&mut self, span: Span, entries: Vec<(String, Span, Self::Out)>) -> Self::Out;
}

/// Parses all of `text`.
pub(super) fn parse_text<B: Build>(text: &str, build: &mut B) -> Result<B::Out, JsonError> {
    // Windows editors write a byte order mark; it carries no meaning.
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut parser = Parser { text, at: start, build, relaxed: false, reads_misspelt: false };
    parser.skip_blank();
    let out = parser.parse_any(0)?;
    parser.skip_blank();
    if parser.at < text.len() {
        return Err(parser.unexpected_error(Expected::End, "the end of the text"));
    }
    Ok(out)
}

struct Parser<'a, B> {
    text: &'a str,
    at: usize,
    build: &'a mut B,
    /// Whether JavaScript's extensions of JSON are accepted.
    relaxed: bool,
    /// Whether misspelt constants are accepted.
    reads_misspelt: bool,
}

impl<B: Build> Parser<'_, B> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let rest = &self.text[self.at..];
        let comment = match (self.relaxed, rest.get(..2)) {
            (true, Some("//")) => rest.find('\n').unwrap_or(rest.len()),
            (true, Some("/*")) => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => return,
        };
        self.at += comment;
        self.skip_blank();
    }

    fn parse_key(&mut self) -> Result<String, JsonError> {
        let rest = &self.text[self.at..];
        let word = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
        match self.peek() {
            Some(b'"') => self.parse_string(b'"'),
            Some(b'\'') if self.relaxed => self.parse_string(b'\''),
            _ if self.relaxed && word > 0 => {
                self.at += word;
                Ok(rest[..word].to_owned())
            }
            _ => Err(self.unexpected_error(Expected::Key, "a key in double quotes")),
        }
    }

    fn unexpected_error(&self, expected: Expected, words: &str) -> JsonError {
        let found = self.text[self.at..].chars().next();
        let (kind, message) = match found {
            None => (JsonErrorKind::Truncated, format!("the text ends here, but {words} was expected")),
            Some(found) => (JsonErrorKind::Syntax, format!("found {found:?} where {words} was expected")),
        };
        let span = Span { start: self.at, length: found.map_or(0, char::len_utf8) };
        JsonError { span, message, kind, expected }
    }

    fn separator_error(&self, words: &str, lacks_comma: bool) -> JsonError {
        self.unexpected_error(if lacks_comma { Expected::Comma } else { Expected::Separator }, words)
    }

    fn parse_any(&mut self, depth: usize) -> Result<B::Out, JsonError> {
        if depth > MAX_DEPTH {
            let message = format!("values are nested more than {MAX_DEPTH} levels deep");
            let span = Span { start: self.at, length: 1 };
            return Err(JsonError { span, message, kind: JsonErrorKind::TooDeep, expected: Expected::Value });
        }
        let start = self.at;
        match self.peek() {
            Some(b'{') => self.parse_map(depth),
            Some(b'[') => self.parse_list(depth),
            Some(quote @ (b'"' | b'\'' | b'`')) if quote == b'"' || self.relaxed => {
                let text = self.parse_string(quote)?;
                Ok(self.build.build_scalar(self.span_from(start), Scalar::String(text)))
            }
            Some(b'-' | b'0'..=b'9') => self.parse_number(),
            _ => self.parse_word(),
        }
    }

    fn span_from(&self, start: usize) -> Span {
        Span { start, length: self.at - start }
    }

    fn parse_word(&mut self) -> Result<B::Out, JsonError> {
        let start = self.at;
        if self.reads_misspelt {
            let rest = &self.text[start..];
            let word = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())];
            let scalar = match find_constant(word) {
                Some("true") => Scalar::Bool(true),
                Some("false") => Scalar::Bool(false),
                Some(_) => Scalar::Null,
                None => return Err(self.unexpected_error(Expected::Value, "a value")),
            };
            self.at += word.len();
            return Ok(self.build.build_scalar(self.span_from(start), scalar));
        }
        for (word, scalar) in [("null", Scalar::Null), ("true", Scalar::Bool(true)), ("false", Scalar::Bool(false))] {
            if self.text[start..].starts_with(word) {
                self.at += word.len();
                return Ok(self.build.build_scalar(self.span_from(start), scalar));
            }
        }
        Err(self.unexpected_error(Expected::Value, "a value"))
    }

    fn parse_number(&mut self) -> Result<B::Out, JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
            || (self.relaxed && self.peek() == Some(b'_'))
        {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let is_separated = text.split('_').all(|digits| !digits.is_empty());
        let Some(number) = Number::parse(&text.replace('_', "")).filter(|_| is_separated) else {
            let message = format!("{text} is not a JSON number");
            let span = self.span_from(start);
            return Err(JsonError { span, message, kind: JsonErrorKind::Syntax, expected: Expected::Number });
        };
        Ok(self.build.build_scalar(self.span_from(start), Scalar::Number(number)))
    }

    fn parse_list(&mut self, depth: usize) -> Result<B::Out, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut items = Vec::new();
        self.skip_blank();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(self.build.build_list(self.span_from(start), items));
        }
        loop {
            self.skip_blank();
            items.push(self.parse_any(depth + 1)?);
            self.skip_blank();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_blank();
                    if self.relaxed && self.peek() == Some(b']') {
                        self.at += 1;
                        return Ok(self.build.build_list(self.span_from(start), items));
                    }
                }
                Some(b']') => {
                    self.at += 1;
                    return Ok(self.build.build_list(self.span_from(start), items));
                }
                _ => return Err(self.separator_error("`,` or `]`", starts_item(self.text, self.at))),
            }
        }
    }

    fn parse_map(&mut self, depth: usize) -> Result<B::Out, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut entries = Vec::new();
        self.skip_blank();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(self.build.build_map(self.span_from(start), entries));
        }
        loop {
            self.skip_blank();
            let key_start = self.at;
            let key = self.parse_key()?;
            let key_span = self.span_from(key_start);
            self.skip_blank();
            if self.peek() != Some(b':') {
                return Err(self.unexpected_error(Expected::Colon, "`:`"));
            }
            self.at += 1;
            self.skip_blank();
            entries.push((key, key_span, self.parse_any(depth + 1)?));
            self.skip_blank();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_blank();
                    if self.relaxed && self.peek() == Some(b'}') {
                        self.at += 1;
                        return Ok(self.build.build_map(self.span_from(start), entries));
                    }
                }
                Some(b'}') => {
                    self.at += 1;
                    return Ok(self.build.build_map(self.span_from(start), entries));
                }
                _ => return Err(self.separator_error("`,` or `}`", starts_entry(self.text, self.at))),
            }
        }
    }

    fn parse_string(&mut self, quote: u8) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            // A template of JavaScript may have several lines, and expressions.
            let is_plain = |b: u8| match b {
                b'\n' | b'\r' | b'\t' => quote == b'`',
                b'$' => quote != b'`',
                _ => b != quote && b != b'\\' && b >= 0x20,
            };
            let plain = rest.bytes().take_while(|b| is_plain(*b)).count();
            out.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(found) if found == quote => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.parse_escape(&mut out)?,
                Some(b'$') if quote == b'`' && self.text[self.at..].starts_with("${") => {
                    let message =
                        "`${…}` is computed by JavaScript, which is not run; write the text itself".to_owned();
                    let span = Span { start: self.at, length: 2 };
                    return Err(JsonError {
                        span,
                        message,
                        kind: JsonErrorKind::Syntax,
                        expected: Expected::StringRest,
                    });
                }
                Some(b'$') if quote == b'`' => {
                    out.push('$');
                    self.at += 1;
                }
                _ => return Err(self.unexpected_error(Expected::StringRest, "the rest of the string")),
            }
        }
    }

    fn parse_escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        self.at += 1;
        let plain = match self.peek() {
            Some(quote @ (b'"' | b'\\' | b'/')) => char::from(quote),
            Some(mark @ (b'\'' | b'`' | b'$')) if self.relaxed => char::from(mark),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let unit = self.parse_hex4()?;
                out.push(self.decode_surrogate(unit)?);
                return Ok(());
            }
            _ => return Err(self.unexpected_error(Expected::Escape, "an escape such as \\n or \\u0041")),
        };
        out.push(plain);
        self.at += 1;
        Ok(())
    }

    /// The character of a `\u` unit. A surrogate without its partner becomes U+FFFD, because it is not text.
    fn decode_surrogate(&mut self, unit: u32) -> Result<char, JsonError> {
        if (0xd800..0xdc00).contains(&unit) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.parse_hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            self.at = before;
        }
        Ok(char::from_u32(unit).unwrap_or('\u{fffd}'))
    }

    fn parse_hex4(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or_default();
        let unit = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 4));
        let Some(unit) = unit else {
            return Err(self.unexpected_error(Expected::HexDigits, "four hexadecimal digits"));
        };
        self.at += 4;
        Ok(unit)
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
