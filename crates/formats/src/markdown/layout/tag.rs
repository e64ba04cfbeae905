//! The opening tag of an action: its attributes on one line if they fit, or else each on a line of its own.

use super::super::lex;

/// Characters of the longest line that is not broken.
const MAX_LINE_CHARS: usize = 120;

/// An opening tag.
pub(super) struct Tag<'a> {
    name: &'a str,
    /// The attributes, each without the white space around it.
    attributes: Vec<String>,
    /// Whether the element has no content: `/>`.
    is_closed: bool,
    /// Bytes of the tag.
    pub(super) length: usize,
}

/// Reads the tag at the start of a text; `None` if it holds more than names with values.
pub(super) fn read_tag(text: &str) -> Option<Tag<'_>> {
    let rest = text.strip_prefix('<')?;
    let name = &rest[..name_length(rest)];
    let mut at = 1 + name.len();
    let mut attributes = Vec::new();
    loop {
        at += blank_length(&text[at..]);
        let rest = &text[at..];
        if let Some(length) = ["/>", ">"].iter().find(|end| rest.starts_with(**end)).map(|end| end.len()) {
            return Some(Tag { name, attributes, is_closed: length == 2, length: at + length });
        }
        let attribute = &rest[..name_length(rest)];
        if attribute.is_empty() {
            return None;
        }
        at += attribute.len();
        let gap = blank_length(&text[at..]);
        if !text[at + gap..].starts_with('=') {
            attributes.push(attribute.to_owned());
            continue;
        }
        at += gap + 1;
        at += blank_length(&text[at..]);
        let value = &text[at..at + value_length(&text[at..])?];
        at += value.len();
        attributes.push(format!("{attribute}={value}"));
    }
}

fn blank_length(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | ':' | '.' | '$')).unwrap_or(text.len())
}

/// The length of a string or of an expression in braces.
fn value_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    match first {
        '"' | '\'' => text[1..].find(first).map(|end| end + 2),
        '{' => {
            let mut ends = text.match_indices('}').map(|(at, _)| at);
            ends.find(|at| lex::scan_expression(&text[1..*at]).end == lex::ExpressionEnd::Complete).map(|at| at + 1)
        }
        _ => None,
    }
}

/// The tag in the canonical layout. `indent` is the white space in front of it.
pub(super) fn write_tag(tag: &Tag<'_>, indent: &str, line_end: &str) -> String {
    let end = if tag.is_closed { "/>" } else { ">" };
    let line = [&[format!("<{}", tag.name)], tag.attributes.as_slice()].concat().join(" ");
    let line = format!("{line}{}{end}", if tag.is_closed { " " } else { "" });
    let is_short = indent.chars().count() + line.chars().count() <= MAX_LINE_CHARS;
    if tag.attributes.is_empty() || (is_short && !line.contains('\n')) {
        return line;
    }
    let mut lines = format!("<{}{line_end}", tag.name);
    for attribute in &tag.attributes {
        lines.push_str(&format!("{indent}  {attribute}{line_end}"));
    }
    format!("{lines}{indent}{end}")
}
