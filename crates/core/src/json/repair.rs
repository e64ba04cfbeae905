//! Repairs text that breaks some rules of JSON, as version 3.7.0 of the JavaScript library `jsonrepair` does. The original of
//! the flow format uses that version, and the values of flows depend on the details: which words are quoted, where a string
//! without an end stops, and what is refused. A test compares both on recorded texts.

use super::{MAX_DEPTH, write_json};
use crate::value::Value;

/// Maximum number of characters that are read for each byte of the text. Only texts made to be slow need more than a few.
const MAX_STEPS_PER_BYTE: usize = 16;

/// Keywords of JSON and of Python, with their JSON.
const KEYWORDS: [(&str, &str); 6] =
    [("true", "true"), ("false", "false"), ("null", "null"), ("True", "true"), ("False", "false"), ("None", "null")];

/// The text as JSON; `None` if it cannot be repaired. What is returned may still break a rule.
pub(super) fn repair_json(text: &str) -> Option<String> {
    let mut repairer = Repairer {
        text,
        at: 0,
        out: String::with_capacity(text.len() + 16),
        depth: 0,
        steps_left: MAX_STEPS_PER_BYTE * (text.len() + 256),
    };
    repairer.copy_document().ok().map(|()| repairer.out)
}

/// A place at which no rule says what was meant.
struct Unrepairable;

/// Whether something was copied.
type Copied = Result<bool, Unrepairable>;

struct Repairer<'t> {
    text: &'t str,
    /// The next byte to read.
    at: usize,
    /// The JSON so far.
    out: String,
    /// Values and joined strings around this place.
    depth: usize,
    /// Number of characters that may still be read.
    steps_left: usize,
}

impl Repairer<'_> {
    fn copy_document(&mut self) -> Result<(), Unrepairable> {
        if !self.copy_value()? {
            return Err(Unrepairable);
        }
        let has_comma = self.copy_char(',');
        if has_comma {
            self.skip_blanks();
        }
        if self.peek_char().is_some_and(starts_value) && ends_line(&self.out) {
            // Values one after another, such as one on each line.
            if !has_comma {
                insert_before_blanks(&mut self.out, ',');
            }
            self.copy_further_values()?;
        } else if has_comma {
            self.remove_last(',');
        }
        while matches!(self.peek_char(), Some('}' | ']')) {
            self.at += 1;
            self.skip_blanks();
        }
        if self.at >= self.text.len() { Ok(()) } else { Err(Unrepairable) }
    }

    /// Copies the values behind the first one, and makes a list of all.
    fn copy_further_values(&mut self) -> Result<(), Unrepairable> {
        while self.copy_value()? {
            self.copy_or_insert(',');
        }
        self.remove_last(',');
        self.out = format!("[\n{}\n]", self.out);
        Ok(())
    }

    fn copy_value(&mut self) -> Copied {
        self.enter_value()?;
        self.skip_blanks();
        let is_copied = self.copy_map()?
            || self.copy_list()?
            || self.copy_string(false)?
            || self.copy_number()
            || self.copy_keyword()
            || self.copy_bare_text()?;
        self.skip_blanks();
        self.depth -= 1;
        Ok(is_copied)
    }

    fn copy_map(&mut self) -> Copied {
        if !self.copy_char('{') {
            return Ok(false);
        }
        self.skip_blanks();
        let mut is_first = true;
        while self.peek_char().is_some_and(|next| next != '}') {
            if !std::mem::take(&mut is_first) {
                self.copy_or_insert(',');
                self.skip_blanks();
            }
            if !self.copy_string(false)? && !self.copy_bare_text()? {
                if !matches!(self.peek_char(), None | Some('{' | '}' | '[' | ']')) {
                    return Err(Unrepairable);
                }
                self.remove_last(',');
                break;
            }
            self.copy_entry_value()?;
        }
        self.copy_or_insert('}');
        Ok(true)
    }

    /// The colon behind a key, and the value.
    fn copy_entry_value(&mut self) -> Result<(), Unrepairable> {
        self.skip_blanks();
        let has_colon = self.copy_char(':');
        let is_end = self.at >= self.text.len();
        if !has_colon {
            if !is_end && !self.peek_char().is_some_and(starts_value) {
                return Err(Unrepairable);
            }
            insert_before_blanks(&mut self.out, ':');
        }
        if !self.copy_value()? {
            if !has_colon && !is_end {
                return Err(Unrepairable);
            }
            self.out.push_str("null");
        }
        Ok(())
    }

    fn copy_list(&mut self) -> Copied {
        if !self.copy_char('[') {
            return Ok(false);
        }
        self.skip_blanks();
        let mut is_first = true;
        while self.peek_char().is_some_and(|next| next != ']') {
            if !std::mem::take(&mut is_first) {
                self.copy_or_insert(',');
            }
            if !self.copy_value()? {
                self.remove_last(',');
                break;
            }
        }
        self.copy_or_insert(']');
        Ok(true)
    }

    /// Copies a text between quotes of any kind. With `stops_early`, it ends before the first delimiter, because its end
    /// quote is missing.
    fn copy_string(&mut self, stops_early: bool) -> Copied {
        let is_escaped = self.peek_char() == Some('\\');
        self.at += usize::from(is_escaped);
        let Some(open) = self.peek_char().filter(|open| is_quote(*open)) else { return Ok(false) };
        let (start, out_start) = (self.at, self.out.len());
        let mut string = String::from("\"");
        self.at += open.len_utf8();
        loop {
            self.count_step()?;
            let Some(next) = self.peek_char() else {
                if !stops_early && self.is_behind_delimiter(self.at) {
                    return self.copy_string_again(start, out_start);
                }
                insert_before_blanks(&mut string, '"');
                self.out.push_str(&string);
                return Ok(true);
            };
            if ends_quote(open, next) {
                let quote = self.at;
                self.at += next.len_utf8();
                if self.is_end_quote(stops_early) {
                    string.push('"');
                    self.out.insert_str(out_start, &string);
                    return self.copy_joined_strings().map(|()| true);
                }
                if self.is_behind_delimiter(quote) {
                    return self.copy_string_again(start, out_start);
                }
                self.out.truncate(out_start);
                self.at = quote + next.len_utf8();
                string.push_str("\\\"");
            } else if stops_early && is_delimiter(next) {
                insert_before_blanks(&mut string, '"');
                self.out.push_str(&string);
                return self.copy_joined_strings().map(|()| true);
            } else if next == '\\' {
                self.copy_escape(&mut string)?;
            } else {
                self.copy_character(next, &mut string)?;
            }
            if is_escaped && self.peek_char() == Some('\\') {
                self.at += 1;
            }
        }
    }

    /// Copies the text that starts at `start` up to the first delimiter.
    fn copy_string_again(&mut self, start: usize, out_start: usize) -> Copied {
        self.at = start;
        self.out.truncate(out_start);
        self.copy_string(true)
    }

    /// Whether the quote before this place ends a text: if a delimiter or another value follows. Copies the blanks behind it.
    fn is_end_quote(&mut self, stops_early: bool) -> bool {
        self.skip_blanks();
        let is_next = |next: char| is_delimiter(next) || is_quote(next) || next.is_ascii_digit();
        stops_early || self.peek_char().is_none_or(is_next)
    }

    /// Copies an escape sequence, or what remains of one.
    fn copy_escape(&mut self, string: &mut String) -> Result<(), Unrepairable> {
        let rest = &self.text[self.at + 1..];
        match rest.chars().next() {
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => {
                string.push_str(&self.text[self.at..self.at + 2]);
                self.at += 2;
            }
            Some('u') => {
                let digits = rest[1..].bytes().take(4).take_while(u8::is_ascii_hexdigit).count();
                if digits == 4 {
                    string.push_str(&self.text[self.at..self.at + 6]);
                    self.at += 6;
                } else if self.at + 2 + digits >= self.text.len() {
                    self.at = self.text.len();
                } else {
                    return Err(Unrepairable);
                }
            }
            other => {
                string.extend(other);
                self.at += 1 + other.map_or(0, char::len_utf8);
            }
        }
        Ok(())
    }

    fn copy_character(&mut self, next: char, string: &mut String) -> Result<(), Unrepairable> {
        match next {
            '"' if !self.text[..self.at].ends_with('\\') => string.push_str("\\\""),
            '\u{8}' => string.push_str("\\b"),
            '\u{c}' => string.push_str("\\f"),
            '\n' => string.push_str("\\n"),
            '\r' => string.push_str("\\r"),
            '\t' => string.push_str("\\t"),
            next if next < ' ' => return Err(Unrepairable),
            next => string.push(next),
        }
        self.at += next.len_utf8();
        Ok(())
    }

    /// Joins texts with `+` between them.
    fn copy_joined_strings(&mut self) -> Result<(), Unrepairable> {
        self.enter_value()?;
        self.skip_blanks();
        while self.skip_char('+') {
            self.skip_blanks();
            if let Some(end) = self.out.rfind('"') {
                self.out.truncate(end);
            }
            let start = self.out.len();
            if self.copy_string(false)? {
                self.out.remove(start);
            } else {
                insert_before_blanks(&mut self.out, '"');
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn copy_number(&mut self) -> bool {
        let start = self.at;
        let is_copied = self.copy_number_from(start);
        if !is_copied {
            self.at = start;
        }
        is_copied
    }

    /// Copies a number. A zero is appended to one that ends with a sign, a point or an exponent.
    fn copy_number_from(&mut self, start: usize) -> bool {
        if self.skip_char('-') && !self.starts_digit() {
            return self.copy_cut_number(start);
        }
        self.skip_digits();
        if self.skip_char('.') && !self.skip_digits() {
            return self.copy_cut_number(start);
        }
        if self.skip_char('e') || self.skip_char('E') {
            let _has_sign = self.skip_char('-') || self.skip_char('+');
            if !self.skip_digits() {
                return self.copy_cut_number(start);
            }
        }
        let number = &self.text[start..self.at];
        if number.is_empty() || !self.is_number_end() {
            return false;
        }
        let has_leading_zero = number.starts_with('0') && number[1..].starts_with(|next: char| next.is_ascii_digit());
        if has_leading_zero {
            self.out.extend(["\"", number, "\""]);
        } else {
            self.out.push_str(number);
        }
        true
    }

    fn copy_cut_number(&mut self, start: usize) -> bool {
        if !self.is_number_end() {
            return false;
        }
        self.out.extend([&self.text[start..self.at], "0"]);
        true
    }

    fn starts_digit(&self) -> bool {
        self.peek_char().is_some_and(|next| next.is_ascii_digit())
    }

    fn skip_digits(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let digits = rest.len() - rest.trim_start_matches(|next: char| next.is_ascii_digit()).len();
        self.at += digits;
        digits > 0
    }

    fn is_number_end(&self) -> bool {
        self.peek_char().is_none_or(|next| is_delimiter(next) || is_blank(next))
    }

    fn copy_keyword(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some((word, json)) = KEYWORDS.iter().find(|(word, _)| rest.starts_with(word)) else { return false };
        self.at += word.len();
        self.out.push_str(json);
        true
    }

    /// Quotes a text without quotes, which ends before a delimiter. Of a function call, the argument is copied.
    fn copy_bare_text(&mut self) -> Copied {
        let rest = &self.text[self.at..];
        let end = rest.find(|next| (is_delimiter(next) && next != '/') || is_quote(next)).unwrap_or(rest.len());
        if end == 0 {
            return Ok(false);
        }
        let symbol = rest[..end].trim_end_matches(is_blank);
        self.at += end;
        if self.skip_char('(') {
            self.copy_value()?;
            if self.skip_char(')') {
                self.skip_char(';');
            }
            return Ok(true);
        }
        self.at -= end - symbol.len();
        match symbol {
            "undefined" => self.out.push_str("null"),
            symbol => self.out.push_str(&write_json(&Value::from(symbol))),
        }
        self.skip_char('"');
        Ok(true)
    }

    /// Copies blanks, and skips the comments between them.
    fn skip_blanks(&mut self) {
        self.copy_blanks();
        while self.skip_comment() && self.copy_blanks() {}
    }

    fn copy_blanks(&mut self) -> bool {
        let start = self.at;
        while let Some(next) = self.peek_char().filter(|next| is_blank(*next) || is_unusual_blank(*next)) {
            self.out.push(if is_blank(next) { next } else { ' ' });
            self.at += next.len_utf8();
        }
        self.at > start
    }

    fn skip_comment(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let length = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            return false;
        };
        self.steps_left = self.steps_left.saturating_sub(length);
        self.at += length;
        true
    }

    fn peek_char(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_char(&mut self, wanted: char) -> bool {
        let is_next = self.peek_char() == Some(wanted);
        self.at += if is_next { wanted.len_utf8() } else { 0 };
        is_next
    }

    fn copy_char(&mut self, wanted: char) -> bool {
        let is_next = self.skip_char(wanted);
        self.out.extend(is_next.then_some(wanted));
        is_next
    }

    fn copy_or_insert(&mut self, wanted: char) {
        if !self.copy_char(wanted) {
            insert_before_blanks(&mut self.out, wanted);
        }
    }

    /// Removes the last `unwanted` of the output, wherever it is.
    fn remove_last(&mut self, unwanted: char) {
        if let Some(found) = self.out.rfind(unwanted) {
            self.steps_left = self.steps_left.saturating_sub(self.out.len() - found);
            self.out.remove(found);
        }
    }

    /// Whether the last character before `at` that is no blank is a delimiter.
    fn is_behind_delimiter(&self, at: usize) -> bool {
        self.text[..at].trim_end_matches(is_blank).ends_with(is_delimiter)
    }

    fn enter_value(&mut self) -> Result<(), Unrepairable> {
        self.depth += 1;
        if self.depth > 2 * MAX_DEPTH { Err(Unrepairable) } else { self.count_step() }
    }

    fn count_step(&mut self) -> Result<(), Unrepairable> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Unrepairable)?;
        Ok(())
    }
}

fn insert_before_blanks(out: &mut String, inserted: char) {
    let end = out.trim_end_matches(is_blank).len();
    out.insert(end, inserted);
}

/// Whether the last line of the output is blank, or the output ends with a comma.
fn ends_line(out: &str) -> bool {
    out.trim_end_matches([' ', '\t', '\r']).ends_with([',', '\n'])
}

fn is_delimiter(character: char) -> bool {
    matches!(character, ',' | ':' | '[' | ']' | '/' | '{' | '}' | '(' | ')' | '\n' | '+')
}

fn starts_value(character: char) -> bool {
    matches!(character, '[' | '{' | '_' | '-') || character.is_ascii_alphanumeric() || is_quote(character)
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\n' | '\t' | '\r')
}

fn is_unusual_blank(character: char) -> bool {
    matches!(character, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

fn is_quote(character: char) -> bool {
    is_double_quote(character) || is_single_quote(character)
}

fn is_double_quote(character: char) -> bool {
    matches!(character, '"' | '\u{201c}' | '\u{201d}')
}

fn is_single_quote(character: char) -> bool {
    matches!(character, '\'' | '\u{2018}' | '\u{2019}' | '`' | '\u{b4}')
}

/// Whether `close` ends a text that `open` has begun: the plain quotes end with the same one, the others with any of their kind.
fn ends_quote(open: char, close: char) -> bool {
    match open {
        '"' | '\'' => close == open,
        open if is_single_quote(open) => is_single_quote(close),
        _ => is_double_quote(close),
    }
}
