//! References in texts, at the places where they are written.

use flowloom_core::diagnostic::Span;

/// How a format writes references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateStyle {
    /// `${name.path}`
    DollarBraces,
    /// `{{name.path}}`
    DoubleBraces,
    /// `{name}`
    Braces,
}

impl TemplateStyle {
    /// The text that begins a reference.
    pub fn opening(self) -> &'static str {
        match self {
            TemplateStyle::DollarBraces => "${",
            TemplateStyle::DoubleBraces => "{{",
            TemplateStyle::Braces => "{",
        }
    }

    /// The text that ends a reference.
    pub fn closing(self) -> &'static str {
        match self {
            TemplateStyle::DoubleBraces => "}}",
            TemplateStyle::DollarBraces | TemplateStyle::Braces => "}",
        }
    }
}

/// A reference in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The whole reference.
    pub span: Span,
    /// The name.
    pub name: String,
    /// The place of the name.
    pub name_span: Span,
    /// The path after the name, with its dot; empty if there is none.
    pub path: String,
}

/// Maximum length of a reference, in bytes. The search for its end goes no further.
const MAX_REFERENCE_BYTES: usize = 1024;

/// The references in `text`, which begins at byte `start` of the file. The time is linear in the length of the text.
pub fn find_references(text: &str, start: usize, style: TemplateStyle) -> Vec<Reference> {
    let (opening, closing) = (style.opening(), style.closing());
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find(opening) {
        let inner_start = at + next + opening.len();
        let window_end = text.floor_char_boundary(inner_start + MAX_REFERENCE_BYTES);
        let inner = &text[inner_start..window_end];
        let Some(length) = inner.find(closing).filter(|length| is_reference(&inner[..*length], style)) else {
            // `{{{name}}` is a brace followed by a reference.
            at = at + next + 1;
            continue;
        };
        let inner = &inner[..length];
        let (name, path) = find_name(inner);
        found.push(Reference {
            span: Span { start: start + at + next, length: opening.len() + length + closing.len() },
            name: inner[name.clone()].to_owned(),
            name_span: Span { start: start + inner_start + name.start, length: name.len() },
            path: inner[path..].to_owned(),
        });
        at = inner_start + length + closing.len();
    }
    found
}

/// Where the name is in a reference without its braces, and where the path after it begins. The name may be in brackets, with
/// or without quotes, which JSON escapes: `['a.b']`.
fn find_name(inner: &str) -> (std::ops::Range<usize>, usize) {
    let start = inner.len() - inner.trim_start_matches('.').len();
    let in_brackets = inner[start..].strip_prefix('[').and_then(|rest| rest.find(']'));
    let Some(length) = in_brackets else {
        let end = inner[start..].find(['.', '[']).map_or(inner.len(), |length| start + length);
        return (start..end, end);
    };
    let (mut from, mut to) = (start + 1, start + 1 + length);
    for quote in ["'", "\\\"", "\""] {
        if let Some(rest) = inner[from..to].strip_prefix(quote) {
            from = to - rest.len();
            to -= if rest.ends_with(quote) { quote.len() } else { 0 };
            break;
        }
    }
    (from..to, start + length + 2)
}

fn is_reference(inner: &str, style: TemplateStyle) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    match style {
        TemplateStyle::DollarBraces => !find_name(inner).0.is_empty(),
        TemplateStyle::DoubleBraces => inner.split('.').all(|part| !part.is_empty() && part.chars().all(is_word)),
        TemplateStyle::Braces => !inner.is_empty() && inner.chars().all(is_word),
    }
}

/// The rest of a reference after a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceRest {
    /// Bytes of the name, or of the field, that follow the position; 0 if the reference does not end.
    pub name_length: usize,
    /// The text that the end of the reference lacks.
    pub missing: &'static str,
}

/// The rest of the reference in which byte `at` of `text` is. Without an end, what follows is ordinary text.
pub fn find_rest(text: &str, at: usize, style: TemplateStyle) -> ReferenceRest {
    let after = text.get(at..).unwrap_or_default();
    let past = |is_part: fn(char) -> bool| after.find(|c| !is_part(c)).unwrap_or(after.len());
    let closing = style.closing();
    let end = &after[past(continues_name)..];
    let written = closing.bytes().zip(end.bytes()).take_while(|(wanted, found)| wanted == found).count();
    match written {
        0 => ReferenceRest { name_length: 0, missing: closing },
        _ => ReferenceRest {
            name_length: past(|c| continues_name(c) && !matches!(c, '.' | '[' | ']')),
            missing: &closing[written..],
        },
    }
}

/// Whether a reference can continue with a character.
fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '-')
}

/// The start of the reference in which byte `at` of `text` is, from its start up to there; `None` outside of a
/// reference.
pub fn find_started(text: &str, at: usize, style: TemplateStyle) -> Option<&str> {
    let before = text.get(..at)?;
    let start = before.rfind(style.opening())? + style.opening().len();
    let written = &before[start..];
    written.chars().all(continues_name).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_a_name_and_a_path() {
        let show = |text: &str, style| {
            let found = find_references(text, 0, style).into_iter();
            found.map(|found| format!("{}|{}|{}", found.name_span.start, found.name, found.path)).collect::<Vec<_>>()
        };
        assert_eq!(show("${a.b[0]} ${} ${c", TemplateStyle::DollarBraces), ["2|a|.b[0]"]);
        assert_eq!(
            show("${['a.b'].c} ${[\\\"d\\\"]} ${[e][0]} ${.f} ${['']}", TemplateStyle::DollarBraces),
            ["4|a.b|.c", "18|d|", "27|e|[0]", "37|f|"]
        );
        assert_eq!(show("{{{a}} {{ b }} {{c.d}}", TemplateStyle::DoubleBraces), ["3|a|", "17|c|.d"]);
        assert_eq!(show("{a} {\"json\": {b}}", TemplateStyle::Braces), ["1|a|", "14|b|"]);
    }

    #[test]
    fn a_started_reference_is_found() {
        assert_eq!(find_started("say {{na", 8, TemplateStyle::DoubleBraces), Some("na"));
        assert_eq!(find_started("say {{name}} and", 16, TemplateStyle::DoubleBraces), None);
        let rest = |text: &str, style| {
            let ReferenceRest { name_length, missing } = find_rest(text, 0, style);
            (name_length, missing)
        };
        assert_eq!(rest("pic} and", TemplateStyle::DollarBraces), (3, ""));
        assert_eq!(rest("pic.title[0]} and", TemplateStyle::DollarBraces), (3, ""));
        assert_eq!(rest("put}} and", TemplateStyle::DoubleBraces), (3, ""));
        assert_eq!(rest("put} and", TemplateStyle::DoubleBraces), (3, "}"));
        assert_eq!(rest("pic and {more}", TemplateStyle::DollarBraces), (0, "}"));
        assert_eq!(find_started("${a.b", 5, TemplateStyle::DollarBraces), Some("a.b"));
    }
}
