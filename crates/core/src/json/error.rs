//! The syntax errors of JSON.

use crate::diagnostic::Span;

/// A syntax error and its place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// The place of the error.
    pub span: Span,
    /// The problem, and the expectation.
    pub message: String,
    /// The kind of the error.
    pub kind: JsonErrorKind,
    /// The part of JSON that was expected at the place.
    pub expected: Expected,
}

/// The kinds of errors; each has a diagnostic of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// An unexpected character.
    Syntax,
    /// The text ends in the middle of a value.
    Truncated,
    /// More than [`MAX_DEPTH`](super::MAX_DEPTH) levels of nesting.
    TooDeep,
}

/// The parts of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A value.
    Value,
    /// The digits of a number, in the form of JSON.
    Number,
    /// A key of an object.
    Key,
    /// The colon after a key.
    Colon,
    /// A comma, which would correct the error.
    Comma,
    /// A comma or a closing bracket.
    Separator,
    /// A character of a string, or the quotation mark at its end.
    StringRest,
    /// The letter of an escape, after its backslash.
    Escape,
    /// The digits of an escape, after `\u`.
    HexDigits,
    /// The end of the text.
    End,
}
