//! Reading text that is nearly JSON: answers of models, arguments of tools, replies of servers, and bodies with raw text
//! pasted in. All of them are read at run time, in every format, so the repair is here and not in a front end.
//!
//! In order: strict JSON; a repair, if the text starts like an object or list; the first bracketed part of the text that
//! can be read.

use crate::json::{MAX_DEPTH, parse_value};
use crate::value::{Map, Number, Value};

/// Reads `text` leniently; `None` if nothing JSON-like is in it.
pub fn read_lenient(text: &str) -> Option<Value> {
    if let Ok(value) = parse_value(text) {
        return Some(value);
    }
    let repaired = if text.starts_with(['{', '[']) { repair_text(text) } else { None };
    repaired.or_else(|| extract_json(text))
}

/// Number of opening brackets that [`extract_json`] tries; bounds the work on text full of brackets.
const MAX_EXTRACT_STARTS: usize = 1000;

/// The first part between matching brackets that parses as JSON, either unchanged or with its keys and quotes repaired.
fn extract_json(text: &str) -> Option<Value> {
    let starts = text.char_indices().filter(|(_, c)| matches!(c, '{' | '['));
    let mut next = 0;
    for (start, open) in starts.take(MAX_EXTRACT_STARTS) {
        if start < next {
            continue;
        }
        let close = if open == '{' { '}' } else { ']' };
        let mut depth = 0i32;
        let end = text[start..].char_indices().find_map(|(at, c)| {
            depth += i32::from(c == open) - i32::from(c == close);
            (depth == 0).then_some(start + at + 1)
        });
        let Some(end) = end else { continue };
        let part = &text[start..end];
        if let Some(value) = parse_value(part).ok().or_else(|| parse_value(&quote_keys(part)).ok()) {
            return Some(value);
        }
        next = start + 1;
    }
    None
}

/// Quotes bare keys and replaces single quotes by double quotes.
fn quote_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        out.push(if c == '\'' { '"' } else { c });
        if !matches!(c, '{' | ',') {
            continue;
        }
        let blank = rest.len() - rest.trim_start().len();
        let word = rest[blank..].bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
        if word > 0 && rest[blank + word..].trim_start().starts_with(':') {
            out.push_str(&rest[..blank]);
            out.push('"');
            out.push_str(&rest[blank..blank + word]);
            out.push('"');
            rest = &rest[blank + word..];
        }
    }
    out
}

fn repair_text(text: &str) -> Option<Value> {
    let mut repairer = Repairer { text, at: 0 };
    let first = repairer.read_value(0)?;
    let mut lines = vec![first];
    loop {
        let before = repairer.at;
        repairer.skip_blank();
        let between = &text[before..repairer.at];
        if repairer.at >= text.len() {
            break;
        }
        // Several values form a list only if each is on its own line (newline-delimited JSON).
        let comma = repairer.take_char(',');
        if !(between.contains('\n') || comma) {
            return None;
        }
        repairer.skip_blank();
        if repairer.at >= text.len() {
            break;
        }
        lines.push(repairer.read_value(0)?);
    }
    if lines.len() == 1 { lines.pop() } else { Some(Value::list(lines)) }
}

struct Repairer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Repairer<'a> {
    fn remaining_text(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.remaining_text().chars().next()
    }

    fn take_char(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.remaining_text();
            let trimmed = rest.trim_start();
            let skipped = if let Some(comment) = trimmed.strip_prefix("//") {
                comment.find('\n').map_or("", |end| &comment[end..])
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                comment.find("*/").map_or("", |end| &comment[end + 2..])
            } else {
                self.at = self.text.len() - trimmed.len();
                return;
            };
            self.at = self.text.len() - skipped.len();
        }
    }

    fn read_value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_blank();
        match self.peek() {
            Some('{') => self.read_map(depth),
            Some('[') => self.read_list(depth),
            Some(quote) if is_quote(quote) => Some(self.read_string(quote).into()),
            _ => self.read_word(),
        }
    }

    fn read_map(&mut self, depth: usize) -> Option<Value> {
        self.take_char('{');
        let mut map = Map::new();
        loop {
            self.skip_blank();
            if self.take_char(',') {
                continue;
            }
            if self.take_char('}') || self.at >= self.text.len() {
                return Some(map.into());
            }
            let key = match self.peek() {
                Some(quote) if is_quote(quote) => self.read_string(quote),
                _ => self.take_bare_word(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'))?.to_owned(),
            };
            self.skip_blank();
            let value = if self.take_char(':') {
                self.skip_blank();
                match self.peek() {
                    None | Some(',' | '}') => Value::Null,
                    Some(_) => self.read_value(depth + 1)?,
                }
            } else if self.at >= self.text.len() {
                Value::Null
            } else {
                return None;
            };
            map.insert(key.into(), value);
            self.skip_blank();
            if !self.peek().is_none_or(|next| matches!(next, ',' | '}') || is_quote(next)) {
                return None;
            }
        }
    }

    fn read_list(&mut self, depth: usize) -> Option<Value> {
        self.take_char('[');
        let mut items = Vec::new();
        loop {
            self.skip_blank();
            if self.take_char(',') {
                continue;
            }
            if self.take_char(']') || self.at >= self.text.len() {
                return Some(Value::list(items));
            }
            items.push(self.read_value(depth + 1)?);
            self.skip_blank();
            if matches!(self.peek(), Some('}')) {
                return None;
            }
        }
    }

    /// Reads a string. A quote ends it only where a string can end: before `,`, `:`, a closing bracket, the next string
    /// or the end of the text. Unescaped quotes inside a string therefore survive.
    fn read_string(&mut self, quote: char) -> String {
        self.take_char(quote);
        let mut out = String::new();
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c == '\\' {
                self.read_escape(&mut out);
            } else if is_closing_quote(quote, c) && self.ends_string() {
                return out;
            } else {
                out.push(c);
            }
        }
        out
    }

    fn ends_string(&self) -> bool {
        // A quotation mark here starts the next string; only the comma is missing.
        let next = self.remaining_text().trim_start().chars().next();
        next.is_none_or(|next| matches!(next, ',' | ':' | '}' | ']') || is_quote(next))
    }

    fn read_escape(&mut self, out: &mut String) {
        let Some(c) = self.peek() else { return };
        self.at += c.len_utf8();
        match c {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'u' => {
                let digits = self.remaining_text().get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                if let Some(digits) = digits {
                    self.at += 4;
                    let unit = u32::from_str_radix(digits, 16).unwrap_or(0xfffd);
                    out.push(char::from_u32(unit).unwrap_or('\u{fffd}'));
                }
            }
            other => out.push(other),
        }
    }

    fn take_bare_word(&mut self, allowed: impl Fn(char) -> bool) -> Option<&'a str> {
        let length: usize = self.remaining_text().chars().take_while(|c| allowed(*c)).map(char::len_utf8).sum();
        let word = &self.remaining_text()[..length];
        self.at += length;
        (length > 0).then_some(word)
    }

    /// Reads a literal, a number or a bare word. A bare word becomes a string.
    fn read_word(&mut self) -> Option<Value> {
        let start = self.at;
        let word = self.take_bare_word(|c| !matches!(c, ',' | ':' | '{' | '}' | '[' | ']' | '"' | '\'' | '\n'))?;
        let word = word.find("//").into_iter().chain(word.find("/*")).min().map_or(word, |end| &word[..end]);
        // A number ends at white space; only the comma after it is missing.
        let first = word.split_whitespace().next().unwrap_or_default();
        let word = if Number::parse(first).is_some() { first } else { word.trim_end() };
        if word.is_empty() {
            return None;
        }
        self.at = start + word.len();
        Some(match word {
            "null" | "undefined" | "None" => Value::Null,
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            _ => Number::parse(word).map_or_else(|| word.into(), Value::Number),
        })
    }
}

/// Whether the character is a quotation mark of a keyboard or a word processor.
fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '\u{b4}' | '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}')
}

/// Whether `c` can close a string opened by `quote`. A plain mark is closed by itself; the others by any of their kind.
fn is_closing_quote(quote: char, c: char) -> bool {
    let is_double = |c| matches!(c, '"' | '\u{201c}' | '\u{201d}');
    match quote {
        '"' | '\'' => c == quote,
        quote => is_quote(c) && is_double(c) == is_double(quote),
    }
}

#[cfg(test)]
mod tests {
    use super::read_lenient;

    #[test]
    fn observed_readings() {
        let cases = [
            ("x [1,2] y", Some("[1,2]")),
            ("callback({\"a\":1})", Some("{\"a\":1}")),
            ("```json\n{\"a\":1}```", Some("{\"a\":1}")),
            ("{\"a\":1}\n{\"b\":2}", Some("[{\"a\":1},{\"b\":2}]")),
            ("{\"a\":1}{\"b\":2}", Some("{\"a\":1}")),
            (" {a:1,}", None),
            ("data: {\"a\":\"}\"}", None),
            ("plain words", None),
            ("{a:'x', list:[1,2,],}", Some("{\"a\":\"x\",\"list\":[1,2]}")),
            ("{oops", Some("{\"oops\":null}")),
            ("{\"q\":\"say \"hi\"\nnow\",\"n\":1}", Some("{\"q\":\"say \\\"hi\\\"\\nnow\",\"n\":1}")),
            ("{\"a\": undefined, /* c */ \"b\": [1, 2", Some("{\"a\":null,\"b\":[1,2]}")),
            ("{\"a\":\"b\" \"c\":\"d\"}", Some("{\"a\":\"b\",\"c\":\"d\"}")),
            ("[1 2 3]", Some("[1,2,3]")),
            ("{\"a\":1 // x\n}", Some("{\"a\":1}")),
            ("{\u{201c}a\u{201d}:`b`}", Some("{\"a\":\"b\"}")),
            ("null", Some("null")),
            ("", None),
        ];
        for (text, expected) in cases {
            let read = read_lenient(text).map(|value| crate::json::write_json(&value));
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in r#"[\[\]{}",':a-z0-9\\ /*\n]{0,40}"#) {
            let _ = read_lenient(&text);
        }
    }
}
