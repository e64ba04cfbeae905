//! JSON with comments as a tree that keeps the text of scalars and keys, and every comment.

/// A document: its value, and the comments around it.
pub(super) struct Document<'a> {
    pub(super) before: Vec<String>,
    pub(super) root: Value<'a>,
    pub(super) after: Vec<String>,
}

/// A value.
pub(super) enum Value<'a> {
    /// A scalar, as it is written.
    Scalar(&'a str),
    List(Items<'a>),
    Map(Items<'a>),
}

/// The content of a list or an object.
#[derive(Default)]
pub(super) struct Items<'a> {
    pub(super) items: Vec<Item<'a>>,
    /// Comments below the last item.
    pub(super) tail: Vec<String>,
}

/// An item of a list, or an entry of an object.
pub(super) struct Item<'a> {
    /// Comments above it.
    pub(super) before: Vec<String>,
    /// The key of an entry, as it is written.
    pub(super) key: Option<&'a str>,
    pub(super) value: Value<'a>,
    /// Comments behind it, on the same line.
    pub(super) after: Vec<String>,
}

/// Reads JSON in which comments and commas after the last item are allowed. `None` if the text is not that.
pub(super) fn read_document(text: &str) -> Option<Document<'_>> {
    let mut reader = Reader { text, at: 0 };
    let before = reader.read_comments(false);
    let root = reader.read_value()?;
    let after = reader.read_comments(false);
    (reader.at == text.len()).then_some(Document { before, root, after })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn remaining_text(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space and reads comments; with `same_line` only up to the end of the line.
    fn read_comments(&mut self, same_line: bool) -> Vec<String> {
        let mut comments = Vec::new();
        loop {
            let rest = self.remaining_text();
            let blank = rest.find(|c: char| !matches!(c, ' ' | '\t' | '\n' | '\r')).unwrap_or(rest.len());
            if same_line && rest[..blank].contains('\n') {
                return comments;
            }
            let found = &rest[blank..];
            let length = if found.starts_with("//") {
                found.find('\n').unwrap_or(found.len())
            } else if found.starts_with("/*") {
                found.find("*/").map_or(found.len(), |end| end + 2)
            } else {
                // White space alone is left for the next reader, which may want to know of its line breaks.
                self.at += if same_line { 0 } else { blank };
                return comments;
            };
            comments.push(found[..length].trim_end().replace("\r\n", "\n"));
            self.at += blank + length;
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.remaining_text().starts_with(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn read_value(&mut self) -> Option<Value<'a>> {
        if self.take('{') {
            return Some(Value::Map(self.read_items('}')?));
        }
        if self.take('[') {
            return Some(Value::List(self.read_items(']')?));
        }
        self.read_scalar().map(Value::Scalar)
    }

    fn read_scalar(&mut self) -> Option<&'a str> {
        let rest = self.remaining_text();
        let length = if rest.starts_with('"') {
            string_length(rest)?
        } else {
            rest.find(|c: char| !matches!(c, '-' | '+' | '.') && !c.is_ascii_alphanumeric()).unwrap_or(rest.len())
        };
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    fn read_items(&mut self, close: char) -> Option<Items<'a>> {
        let mut items = Items::default();
        loop {
            let mut before = self.read_comments(false);
            if self.take(close) {
                items.tail = before;
                return Some(items);
            }
            let mut key = None;
            if close == '}' {
                key = Some(self.read_scalar()?);
                before.extend(self.read_comments(false));
                if !self.take(':') {
                    return None;
                }
                before.extend(self.read_comments(false));
            }
            let value = self.read_value()?;
            let mut after = self.read_comments(true);
            let later = self.read_comments(false);
            if !self.take(',') {
                items.items.push(Item { before, key, value, after });
                items.tail = later;
                return self.take(close).then_some(items);
            }
            // Nothing else follows a comment between a value and its comma: it is about the value.
            before.extend(later);
            let start = self.at;
            let behind = self.read_comments(true);
            // A comment in front of the next item, on its line, is about that item.
            match self.remaining_text().trim_start_matches([' ', '\t']).starts_with(['\n', '\r']) {
                true => after.extend(behind),
                false => self.at = start,
            }
            items.items.push(Item { before, key, value, after });
        }
    }
}

/// The length of the string literal at the start of a text.
fn string_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}
