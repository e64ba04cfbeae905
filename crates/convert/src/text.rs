//! Text with references, between the notations of the formats.

use flowloom_core::expr::js::Js;
use flowloom_core::expr::{Expr, Segment, Template, TemplatePart};
use flowloom_core::render::{shorten_text, to_json};
use flowloom_core::value::Value;
use flowloom_formats::markdown::can_name_variable;

/// Maximum number of characters of a text in a message.
const MAX_SHOWN_CHARS: usize = 40;

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// A variable, or a part of one.
    Value(Reference),
    /// A secret.
    Secret(String),
    /// An expression, as it is written.
    Expression(String),
}

/// A reference to a variable.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reference {
    pub(crate) name: String,
    /// Fields and positions; a position is a number.
    pub(crate) path: Vec<PathPart>,
    /// The reference as the source writes it.
    pub(crate) source: String,
}

/// A step into a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathPart {
    Field(String),
    Index(i64),
}

/// The pieces of a template.
pub(crate) fn read_pieces(template: &Template) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for part in &template.parts {
        let read = match part {
            TemplatePart::Text(text) => vec![Piece::Text(text.to_string())],
            TemplatePart::Secret(name) => vec![Piece::Secret(name.to_string())],
            TemplatePart::Ref(reference) => vec![Piece::Value(Reference {
                name: reference.name.to_string(),
                path: reference.path.iter().map(read_segment).collect(),
                source: reference.source.to_string(),
            })],
            TemplatePart::Expr(expr) => read_expression(expr),
        };
        for piece in read {
            match (pieces.last_mut(), piece) {
                (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(&text),
                (_, piece) => pieces.push(piece),
            }
        }
    }
    pieces
}

fn read_segment(segment: &Segment) -> PathPart {
    match segment {
        Segment::Field(name) | Segment::Key(name) => PathPart::Field(name.to_string()),
        Segment::Index(index) => PathPart::Index(*index),
    }
}

/// An expression of Markdown: a variable with a path, a text, a template literal of these, or something else.
pub(crate) fn read_expression(expr: &Expr) -> Vec<Piece> {
    let Expr::Js(js) = expr else {
        let source = if let Expr::Script(script) = expr { script.place.source.clone() } else { String::new() };
        return vec![Piece::Expression(source)];
    };
    let (inner, source) = match &**js {
        Js::Placed(inner, place) => (&**inner, place.source.clone()),
        other => (other, String::new()),
    };
    let pieces = match inner {
        Js::Template(parts) => parts.iter().map(|part| read_part(part, None)).collect(),
        single => read_part(single, Some(&source)).map(|piece| vec![piece]),
    };
    pieces.unwrap_or_else(|| vec![Piece::Expression(source)])
}

/// A constant text, or a variable with a path. `source`: how it is written, if that is known.
fn read_part(js: &Js, source: Option<&str>) -> Option<Piece> {
    if let Js::Literal(Value::String(text)) = js {
        return Some(Piece::Text(text.to_string()));
    }
    let (name, path) = read_path(js)?;
    let mut reference = Reference { name, path, source: String::new() };
    reference.source = match source {
        Some(source) => format!("{{{source}}}"),
        None => format!("${{{}}}", write_value(&reference)),
    };
    Some(Piece::Value(reference))
}

fn read_path(js: &Js) -> Option<(String, Vec<PathPart>)> {
    match js {
        Js::Name(name) => Some((name.to_string(), Vec::new())),
        Js::Member(object, key, false) => {
            let (name, mut path) = read_path(object)?;
            path.push(match &**key {
                Js::Literal(Value::String(field)) => PathPart::Field(field.to_string()),
                Js::Literal(number @ Value::Number(_)) => PathPart::Index(number.as_i64()?),
                _ => return None,
            });
            Some((name, path))
        }
        _ => None,
    }
}

/// A reference as JavaScript.
pub(crate) fn write_value(reference: &Reference) -> String {
    let mut out = reference.name.clone();
    for part in &reference.path {
        match part {
            PathPart::Field(field) if is_identifier(field) => out.push_str(&format!(".{field}")),
            PathPart::Field(field) => {
                let key = to_json(&field.as_str().into());
                out.push_str(&format!("[{key}]"));
            }
            PathPart::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// Whether a text consists of letters, digits and `_`.
pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// A JavaScript identifier for a name: its words in camel case.
pub(crate) fn to_identifier(name: &str, otherwise: &str) -> String {
    if is_identifier(name) {
        return name.to_owned();
    }
    let mut out = String::new();
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let mut chars = word.chars();
        let first = chars.next().map(|c| if out.is_empty() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() });
        out.extend(first);
        out.extend(chars);
    }
    if is_identifier(&out) { out } else { otherwise.to_owned() }
}

/// Whether a name can be written in an expression as it is.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && can_name_variable(name)
}

/// A text in words for a message: its beginning, on one line.
pub(crate) fn shorten_line(text: &str) -> String {
    shorten_text(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_SHOWN_CHARS)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_template_literal_of_texts_and_variables_is_a_text() {
        let name = |name: &str| Js::Name(name.into());
        let text = |text: &str| Js::Literal(text.into());
        let field = Js::Member(Box::new(name("a")), Box::new(text("b")), false);
        let sum = Js::Binary(flowloom_core::expr::js::Binary::Add, Box::new(name("a")), Box::new(name("b")));
        let cases = [
            (Js::Template(vec![text(" say "), name("a"), field, text(".")]), " say [${a}][${a.b}]."),
            (Js::Template(Vec::new()), ""),
            (Js::Template(vec![name("a"), sum]), "an expression"),
            (text("a"), "a"),
        ];
        for (js, expected) in cases {
            let template = Template { parts: vec![TemplatePart::Expr(Arc::new(Expr::Js(Arc::new(js))))] };
            let show = |piece: Piece| match piece {
                Piece::Text(text) => text,
                Piece::Value(reference) => format!("[{}]", reference.source),
                Piece::Secret(_) | Piece::Expression(_) => "an expression".to_owned(),
            };
            assert_eq!(read_pieces(&template).into_iter().map(show).collect::<String>(), expected);
        }
    }

    #[test]
    fn names_become_identifiers() {
        let cases = [
            ("draft", "draft"),
            ("Write the draft", "writeTheDraft"),
            ("new", "step1"),
            ("天", "step1"),
            ("document", "step1"),
        ];
        for (name, expected) in cases {
            assert_eq!(to_identifier(name, "step1"), expected);
        }
    }
}
