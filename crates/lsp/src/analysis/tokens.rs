//! The meaning of the words in embedded expressions and references, for colours.

use flowloom_core::diagnostic::Span;

use super::index::{Body, Index};
use super::names::{NameKind, Role};

/// The kinds of tokens, in the order in which an editor numbers them.
pub const TOKEN_KINDS: [&str; 8] =
    ["variable", "parameter", "property", "function", "class", "string", "number", "keyword"];

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its place.
    pub span: Span,
    /// The position of its kind in [`TOKEN_KINDS`].
    pub kind: usize,
    /// Whether the name is declared here.
    pub is_declaration: bool,
}

/// The tokens of a document, in order and without overlaps.
pub fn list_tokens(index: &Index) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for name in &index.names {
        let kind = match name.kind {
            NameKind::Variable if name.about.origin.starts_with("input") => 1,
            NameKind::Variable => 0,
            NameKind::Field => 1,
            NameKind::Node | NameKind::Destination | NameKind::Agent | NameKind::Block => 4,
            NameKind::Function | NameKind::Tool => 3,
            NameKind::Model => continue,
        };
        tokens.push(Token { span: name.span, kind, is_declaration: name.role != Role::Read });
    }
    if let Body::Markdown(document) = &index.body {
        for expression in &document.expressions {
            let text = &index.text[expression.span.start..expression.span.end()];
            add_words(text, expression.span.start, &mut tokens);
        }
    }
    // Where a name and a word are at one place, the name is more informative.
    tokens.sort_by_key(|token| token.span.start);
    tokens.dedup_by(|later, earlier| later.span.start < earlier.span.end());
    tokens
}

/// Words of JavaScript that are no names.
const KEYWORDS: [&str; 8] = ["true", "false", "null", "undefined", "typeof", "return", "const", "let"];

/// Adds the members, keywords, numbers and texts of an expression that are not there yet.
fn add_words(text: &str, start: usize, tokens: &mut Vec<Token>) {
    let known: Vec<Span> = tokens.iter().map(|token| token.span).collect();
    let mut add = |from: usize, to: usize, kind: usize| {
        let span = Span { start: start + from, length: to - from };
        if !known.iter().any(|other| other.start < span.end() && span.start < other.end()) {
            tokens.push(Token { span, kind, is_declaration: false });
        }
    };
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if matches!(c, '"' | '\'') {
            let mut escaped = false;
            let end = text[at + 1..].find(|next: char| {
                let closes = next == c && !escaped;
                escaped = next == '\\' && !escaped;
                closes
            });
            let end = end.map_or(text.len(), |end| at + 2 + end);
            // Tokens do not cross lines.
            if !text[at..end].contains('\n') {
                add(at, end, 5);
            }
            while rest.next_if(|(next, _)| *next < end).is_some() {}
        } else if c.is_alphanumeric() || matches!(c, '_' | '$') {
            let length = text[at..].find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$')));
            let end = length.map_or(text.len(), |length| at + length);
            let word = &text[at..end];
            if c.is_ascii_digit() {
                add(at, end, 6);
            } else if KEYWORDS.contains(&word) {
                add(at, end, 7);
            } else if text[..at].ends_with('.') {
                add(at, end, if text[end..].starts_with('(') { 3 } else { 2 });
            }
            while rest.next_if(|(next, _)| *next < end).is_some() {}
        }
    }
}
