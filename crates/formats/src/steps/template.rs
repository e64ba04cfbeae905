//! `{{name}}` references: letters, digits and `_` without blanks (docs/formats/steps.md), extended by dotted paths.

use std::collections::HashSet;

use flowloom_core::expr::{Ref, Segment, Template, TemplatePart};

/// Parses a prompt. Anything other than `{{name}}` or `{{name.part.part}}` is text; `{{secret.NAME}}` is a secret.
pub(super) fn parse(text: &str) -> Template {
    let mut parts = Vec::new();
    let mut plain = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find("{{") {
        let start = at + found;
        let inner = &text[start + 2..];
        let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let length = inner.find(|c: char| !is_path(c)).unwrap_or(inner.len());
        let path = &inner[..length];
        if path.split('.').any(str::is_empty) || !inner[length..].starts_with("}}") {
            // `{{{name}}` is a brace followed by a reference, so only one character is skipped.
            at = start + 1;
            continue;
        }
        let end = start + 2 + length + 2;
        if plain < start {
            parts.push(TemplatePart::Text(text[plain..start].into()));
        }
        parts.push(parse_reference(path, &text[start..end]));
        (plain, at) = (end, end);
    }
    if plain < text.len() {
        parts.push(TemplatePart::Text(text[plain..].into()));
    }
    Template { parts }
}

fn parse_reference(path: &str, source: &str) -> TemplatePart {
    let mut names = path.split('.');
    let name = names.next().unwrap_or_default();
    let rest: Vec<&str> = names.collect();
    if let ("secret", [secret]) = (name, rest.as_slice()) {
        return TemplatePart::Secret((*secret).into());
    }
    let path = rest.into_iter().map(|part| Segment::Field(part.into())).collect();
    TemplatePart::Ref(Ref { name: name.into(), path, source: source.into() })
}

/// Makes references refer to the variables with dots in their names that are known, which have at most `max_bytes`.
pub(super) fn name_dotted_variables(template: &mut Template, known: &HashSet<String>, max_bytes: usize) {
    for part in &mut template.parts {
        let TemplatePart::Ref(reference) = part else { continue };
        let mut name = reference.name.to_string();
        let mut found = None;
        for (index, segment) in reference.path.iter().enumerate() {
            let Segment::Field(field) = segment else { break };
            name.push('.');
            name.push_str(field);
            if name.len() > max_bytes {
                break;
            }
            found = if known.contains(&name) { Some((name.clone(), index + 1)) } else { found };
        }
        if let Some((name, length)) = found {
            reference.name = name.into();
            reference.path.drain(..length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_are_references() {
        let sources = |text: &str| -> Vec<String> {
            parse(text).iter_refs().map(|reference| reference.source.to_string()).collect()
        };
        assert_eq!(sources("{{gr\u{f6}\u{df}e}} {{\u{5929}.a}}").len(), 2);
        assert_eq!(sources("{{a}} {{ b }} {{c-d}} {{{e}}} {{f.g}} {{.h}} {{}}"), ["{{a}}", "{{e}}", "{{f.g}}"]);
    }

    proptest::proptest! {
        #[test]
        fn unknown_references_stay(text in r#"[{}a-cé. ]{0,30}"#) {
            let none = flowloom_core::value::Map::new();
            let resolved = parse(&text).resolve(&none, super::super::TEXT_RULES).expect("never fails");
            proptest::prop_assert_eq!(resolved.to_redacted_text(), text);
        }
    }
}
