//! `${path}` references (docs/formats/flow.md).

use std::sync::Arc;

use flowloom_core::expr::{Ref, Segment, Template, TemplatePart};

/// Parses text with references. A reference extends from `${` to the first `}`; `${}` is text. `secret.NAME` is a
/// secret unless the flow has a variable called `secret`.
pub(super) fn parse(text: &str, has_secret_variable: bool) -> Template {
    let mut parts = Vec::new();
    let mut plain = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let start = at + found;
        // No reference after this one ends either.
        let Some(length) = text[start + 2..].find('}') else { break };
        if length == 0 {
            at = start + 2;
            continue;
        }
        let end = start + 2 + length + 1;
        if plain < start {
            parts.push(TemplatePart::Text(text[plain..start].into()));
        }
        parts.push(parse_reference(&text[start..end], has_secret_variable));
        (plain, at) = (end, end);
    }
    if plain < text.len() {
        parts.push(TemplatePart::Text(text[plain..].into()));
    }
    Template { parts }
}

fn parse_reference(source: &str, has_secret_variable: bool) -> TemplatePart {
    let inner = &source[2..source.len() - 1];
    let mut segments = split_path(inner).into_iter();
    let name: Arc<str> = match segments.next() {
        Some(Segment::Field(name)) => name,
        // The variables are not a list, so a number in brackets refers to none of them.
        Some(Segment::Index(_) | Segment::Key(_)) | None => {
            return TemplatePart::Ref(Ref { name: "".into(), path: vec![Segment::Index(-1)], source: source.into() });
        }
    };
    let path: Vec<Segment> = segments.collect();
    if let ("secret", [Segment::Field(secret)], false) = (&*name, path.as_slice(), has_secret_variable) {
        return TemplatePart::Secret(secret.clone());
    }
    TemplatePart::Ref(Ref { name, path, source: source.into() })
}

/// Splits a path at the dots outside brackets, before each `[` and after each `]`. Empty parts are skipped; nothing is
/// trimmed.
fn split_path(path: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut start = 0;
    let mut is_in_brackets = false;
    for (at, character) in path.char_indices() {
        // The end of the part before the character, and the start of the next one.
        let (end, next) = match character {
            '[' => (at, at),
            ']' => (at + 1, at + 1),
            '.' if !is_in_brackets => (at, at + 1),
            _ => continue,
        };
        is_in_brackets = if character == '.' { is_in_brackets } else { character == '[' };
        segments.extend(parse_part(&path[start..end]));
        start = next;
    }
    segments.extend(parse_part(&path[start..]));
    segments
}

/// The segment of a part. A bracket that is not closed is part of a key.
fn parse_part(part: &str) -> Option<Segment> {
    match part.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) {
        Some(inside) => Some(parse_bracket(inside)),
        None => (!part.is_empty()).then(|| Segment::Field(part.into())),
    }
}

/// The segment in brackets: an index if JavaScript parses it as a number, otherwise a key.
fn parse_bracket(inside: &str) -> Segment {
    let start = usize::from(inside.starts_with(['\'', '"']));
    let text = &inside[start..];
    let text = text.strip_suffix(['\'', '"']).unwrap_or(text);
    if !is_js_number(text) {
        return Segment::Field(text.into());
    }
    // parseInt: an optional sign and digits, or hexadecimal digits; anything else is not an index.
    let trimmed = text.trim();
    if let Some(hex) = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")) {
        return Segment::Index(i64::from_str_radix(hex, 16).unwrap_or(-1));
    }
    let unsigned = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    let digits: String = unsigned.chars().take_while(char::is_ascii_digit).collect();
    let index = digits.parse::<i64>().unwrap_or(-1);
    Segment::Index(if trimmed.starts_with('-') && index != 0 { -1 } else { index })
}

fn is_js_number(text: &str) -> bool {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let prefixed = [("0x", 16), ("0o", 8), ("0b", 2)];
    let digits = prefixed.iter().find_map(|(prefix, radix)| Some((lower.strip_prefix(prefix)?, *radix)));
    if let Some((digits, radix)) = digits {
        return !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    }
    let is_word = text.bytes().any(|b| b.is_ascii_alphabetic() && !matches!(b, b'e' | b'E'));
    text.is_empty() || text == "Infinity" || (!is_word && text.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments_text(path: &str) -> String {
        format!("{:?}", split_path(path)).replace("Field", "").replace("Index", "#")
    }

    #[test]
    fn path_grammar() {
        let cases = [
            ("r.items[0].name", r#"[("r"), ("items"), #(0), ("name")]"#),
            ("r['my-key'].x", r#"[("r"), ("my-key"), ("x")]"#),
            ("r[items].1", r#"[("r"), ("items"), ("1")]"#),
            ("r..zero", r#"[("r"), ("zero")]"#),
            (" r ", r#"[(" r ")]"#),
            ("a[1.9][0x1][ 1 ][]", r#"[("a"), #(1), #(1), #(1), #(-1)]"#),
            // Numbers for JavaScript, of which parseInt reads the zero.
            ("a[0b1][0O7][0b2]", r#"[("a"), #(0), #(0), ("0b2")]"#),
            ("a[-1]['0']", r#"[("a"), #(-1), #(0)]"#),
            ("['a.b']", r#"[("a.b")]"#),
            ("o['a", r#"[("o"), ("['a")]"#),
            ("o[a[0].b]c", r#"[("o"), ("[a"), #(0), ("b]"), ("c")]"#),
        ];
        for (path, expected) in cases {
            assert_eq!(segments_text(path), expected, "{path}");
        }
    }

    #[test]
    fn references_end_at_the_first_brace() {
        let template = parse("${r['x}y']} ${} $${a} ${", false);
        let texts: Vec<_> = template.iter_refs().map(|reference| reference.source.to_string()).collect();
        assert_eq!(texts, ["${r['x}", "${a}"]);
    }

    proptest::proptest! {
        #[test]
        fn text_without_references_is_itself(text in "[^$]*") {
            let template = parse(&text, false);
            proptest::prop_assert_eq!(template.as_literal(), Some(text.as_str()));
        }

        #[test]
        fn unknown_references_stay(text in r#"[${}\[\]a-c.' ]{0,30}"#) {
            let none = flowloom_core::value::Map::new();
            let resolved = parse(&text, true).resolve(&none, super::super::TEXT_RULES).expect("never fails");
            proptest::prop_assert_eq!(resolved.to_redacted_text(), text);
        }
    }
}
