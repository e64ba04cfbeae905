//! `{{node.field}}` references: word characters and at least one dot, without blanks (docs/formats/pipeline.md). A text
//! that consists of one reference, apart from white space, preserves the type of the value.

use flowloom_core::expr::{Ref, Segment, Template, TemplatePart};

/// Parses an input of a node.
pub fn parse(text: &str) -> Template {
    let trimmed = text.trim();
    if let Some((reference, rest)) = parse_reference(trimmed)
        && rest.is_empty()
    {
        return Template { parts: vec![reference] };
    }
    parse_with(text, parse_reference)
}

/// Parses the prompt template of a block; `{name}` refers to an input.
pub fn parse_prompt(text: &str) -> Template {
    parse_with(text, parse_placeholder)
}

/// Splits a text into references and the text between them. `read` receives the text from a brace on and returns the
/// reference and the text after it.
fn parse_with(text: &str, read: impl Fn(&str) -> Option<(TemplatePart, &str)>) -> Template {
    let mut parts = Vec::new();
    let mut plain = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('{') {
        let start = at + found;
        let Some((part, rest)) = read(&text[start..]) else {
            at = start + 1;
            continue;
        };
        if plain < start {
            parts.push(TemplatePart::Text(text[plain..start].into()));
        }
        parts.push(part);
        at = text.len() - rest.len();
        plain = at;
    }
    if plain < text.len() {
        parts.push(TemplatePart::Text(text[plain..].into()));
    }
    Template { parts }
}

fn parse_reference(text: &str) -> Option<(TemplatePart, &str)> {
    let inner = text.strip_prefix("{{")?;
    let length = inner.find(|c: char| !is_word(c) && c != '.')?;
    let (path, rest) = (&inner[..length], inner[length..].strip_prefix("}}")?);
    let mut names = path.split('.');
    let name = names.next().filter(|name| !name.is_empty())?;
    let fields: Vec<&str> = names.collect();
    if fields.is_empty() || fields.iter().any(|field| field.is_empty()) {
        return None;
    }
    if let ("secret", [secret]) = (name, fields.as_slice()) {
        return Some((TemplatePart::Secret((*secret).into()), rest));
    }
    let path = fields.into_iter().map(|field| Segment::Key(field.into())).collect();
    let source = text[..text.len() - rest.len()].into();
    Some((TemplatePart::Ref(Ref { name: name.into(), path, source }), rest))
}

fn parse_placeholder(text: &str) -> Option<(TemplatePart, &str)> {
    let inner = text.strip_prefix('{')?;
    let length = inner.find(|c: char| !is_word(c))?;
    let (name, rest) = (&inner[..length], inner[length..].strip_prefix('}')?);
    if name.is_empty() {
        return None;
    }
    let source = text[..text.len() - rest.len()].into();
    Some((TemplatePart::Ref(Ref { name: "inputs".into(), path: vec![Segment::Field(name.into())], source }), rest))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference_sources(template: &Template) -> Vec<String> {
        template.iter_refs().map(|reference| reference.source.to_string()).collect()
    }

    #[test]
    fn references_have_a_dot_and_no_blanks() {
        let text = "{{n1.s}} {{n1}} {{ n1.s }} {{n1.some-key}} {{n1..x}} {{{n2.y}} {{.a}} {{n.é.0}}";
        assert_eq!(reference_sources(&parse(text)), ["{{n1.s}}", "{{n2.y}}", "{{n.é.0}}"]);
        assert_eq!(parse("  {{n1.s}} ").parts.len(), 1);
        assert_eq!(parse("{{n1.s}}{{n1.s}}").parts.len(), 2);
    }

    #[test]
    fn placeholders_are_names_only() {
        assert_eq!(reference_sources(&parse_prompt("{a} {b.c} {{a}} {x!r} {} {\"json\": {a}}")), ["{a}", "{a}", "{a}"]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_no_reference_stays(text in r"[{}a-cé. ]{0,30}") {
            let parsed = parse(&text);
            let back: String = parsed.parts.iter().map(|part| match part {
                TemplatePart::Text(text) => text.to_string(),
                TemplatePart::Ref(reference) => reference.source.to_string(),
                TemplatePart::Secret(_) | TemplatePart::Expr(_) => String::new(),
            }).collect();
            proptest::prop_assert!(back == text || back == text.trim());
        }
    }
}
