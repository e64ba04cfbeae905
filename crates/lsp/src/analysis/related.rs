//! Other places that belong to a problem, such as the first of two declarations of a name.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};

/// A place that belongs to a problem of the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The place.
    pub span: Span,
    /// Its description.
    pub message: &'static str,
}

/// Codes of problems with duplicates, and the name of the other place.
const REPETITIONS: [(Code, &str); 5] = [
    (Code::DuplicateKey, "the same key"),
    (Code::DuplicateName, "the same name"),
    (Code::RepeatedName, "the same name"),
    (Code::DuplicateCondition, "the same condition"),
    (Code::TwoAlways, "the other edge"),
];

/// Maximum number of related places of one problem.
const MAX_RELATED: usize = 5;

/// The places that belong to a problem: the others with the same text, of duplicates.
pub fn find_related(text: &str, problem: &Diagnostic) -> Vec<Related> {
    let Some((_, message)) = REPETITIONS.iter().find(|(code, _)| *code == problem.code) else { return Vec::new() };
    let Some(written) = text.get(problem.span.start..problem.span.end()).filter(|written| written.len() > 1) else {
        return Vec::new();
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |at: usize| {
        let before = text[..at].chars().next_back().is_some_and(is_word);
        let after = text[at + written.len()..].chars().next().is_some_and(is_word);
        !(before && written.starts_with(is_word) || after && written.ends_with(is_word))
    };
    let places = text.match_indices(written).map(|(at, _)| at).filter(|at| *at != problem.span.start);
    let places = places.filter(|at| stands_alone(*at)).take(MAX_RELATED);
    places.map(|start| Related { span: Span { start, length: written.len() }, message }).collect()
}
