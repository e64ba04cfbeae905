//! The parameters of function declarations.

use crate::source::split_list;

/// A parameter of a function declaration.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Pattern and type, as they are written.
    pub text: &'a str,
    /// Line of the declaration in the file, from 1.
    pub line: usize,
}

impl Parameter<'_> {
    /// Whether the type is a tuple of two or more elements, or a reference to one.
    pub fn is_tuple(&self) -> bool {
        let referent = self.type_text().trim_start_matches('&').trim_start();
        let lifetime = referent.starts_with('\'').then(|| referent.find(char::is_whitespace)).flatten().unwrap_or(0);
        let value = referent[lifetime..].trim_start();
        let value = value.strip_prefix("mut ").unwrap_or(value).trim();
        let elements = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        elements.is_some_and(|elements| split_list(elements).len() > 1)
    }

    /// The text after the first colon that is not part of a path; empty for `self`.
    fn type_text(&self) -> &str {
        let is_colon = |at: usize| !self.text[at + 1..].starts_with(':') && !self.text[..at].ends_with(':');
        let colon = self.text.match_indices(':').map(|(at, _)| at).find(|at| is_colon(*at));
        colon.map_or("", |at| self.text[at + 1..].trim_start())
    }
}

/// The parameters of every function that code declares; [`blank_text`](crate::source::blank_text) returned the code.
pub fn declared_parameters(code: &str) -> Vec<Parameter<'_>> {
    let mut parameters = Vec::new();
    for (at, keyword) in code.match_indices("fn ") {
        let follows_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if let Some(list) = parameter_list(&code[at + keyword.len()..]).filter(|_| !follows_word) {
            let line = code[..at].matches('\n').count() + 1;
            parameters.extend(split_list(list).into_iter().map(|text| Parameter { text: text.trim(), line }));
        }
    }
    parameters
}

/// The parameters between the parentheses of a declaration that begins with the name of the function.
fn parameter_list(declaration: &str) -> Option<&str> {
    let mut angles = 0_usize;
    let mut previous = ' ';
    for (at, c) in declaration.char_indices() {
        match c {
            '<' => angles += 1,
            '>' if previous != '-' => angles = angles.checked_sub(1)?,
            '(' if angles == 0 => return inside_parentheses(&declaration[at..]),
            '{' | ';' if angles == 0 => return None,
            _ => {}
        }
        previous = c;
    }
    None
}

/// The text between the parenthesis at the beginning and the one that closes it.
fn inside_parentheses(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(&text[1..at]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple_parameters(code: &str) -> Vec<(&str, usize)> {
        let found = declared_parameters(code).into_iter().filter(Parameter::is_tuple);
        found.map(|parameter| (parameter.text, parameter.line)).collect()
    }

    #[test]
    fn tuples_and_references_to_tuples_are_found() {
        let code =
            "fn a<F: Fn(u8) -> (u8, u8)>(\n    x: u8,\n    (b, c): (u8, Vec<u8>),\n) {}\nfn d(e: &'a mut (A, B));";
        assert_eq!(tuple_parameters(code), [("(b, c): (u8, Vec<u8>)", 1), ("e: &'a mut (A, B)", 5)]);
    }

    #[test]
    fn tuples_inside_other_types_are_not_found() {
        let code = "fn a(&self, b: &[(A, B)], c: impl Fn((A, B)) -> (A, B), d: &(dyn C<A, B> + Send), e: (), f: g::H) -> (A, B)";
        assert_eq!(tuple_parameters(code), []);
        assert_eq!(declared_parameters(code).len(), 6);
    }
}
