//! Texts that look like references and are none: `{{ name }}`, which only its blanks keep from being one, and the notation of
//! another format, such as `${name}`. For formats whose references are `{{name}}`.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::expr::Template;

use crate::problems::Problems;
use crate::reader::find_span;

/// Longest text that is looked at as a reference, in bytes.
const MAX_REFERENCE_BYTES: usize = 200;

/// A text in a definition.
pub(crate) struct PlacedText<'a> {
    /// The text of the definition.
    pub(crate) source: &'a str,
    /// The text within it.
    pub(crate) text: &'a str,
    /// Where the text is.
    pub(crate) span: Span,
}

/// The references of a format.
pub(crate) struct ReferenceRules<'r> {
    /// Reads the references of a text.
    pub(crate) parse: fn(&str) -> Template,
    /// Whether something has this name. What begins with another name may belong to a template of another program.
    pub(crate) is_known: &'r dyn Fn(&str) -> bool,
    /// How a reference is written.
    pub(crate) example: &'static str,
}

/// How a text that looks like a reference is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `${name}`, as in flows.
    Dollar,
    /// `{{name}}`, as in step lists and pipelines.
    Double,
    /// `{name}`, as in Markdown workflows.
    Single,
}

/// A text that looks like a reference.
struct ReferenceCandidate<'t> {
    notation: Notation,
    /// The whole text.
    written: &'t str,
    /// What the braces enclose, with its blanks.
    inner: &'t str,
    /// Where it ends in the text.
    end: usize,
}

impl PlacedText<'_> {
    /// Reports what looks like a reference and stays as text: as an error if it looks like a secret, because the text would be
    /// sent instead, and as a warning otherwise.
    pub(crate) fn report_lookalikes(&self, rules: &ReferenceRules<'_>, problems: &mut Problems) {
        let mut seen = HashSet::new();
        let mut at = 0;
        while let Some(candidate) = ReferenceCandidate::find_next(self.text, at) {
            at = candidate.end;
            let Some(lookalike) = candidate.find_lookalike(rules) else { continue };
            if !seen.insert(candidate.written) {
                continue;
            }
            if !problems.has_room_for_warning() {
                return;
            }
            self.report_lookalike(&candidate, &lookalike, problems);
        }
    }

    /// Where a candidate is in the definition. `{name}` may also be a part of `${name}` or `{{name}}`.
    fn find_place(&self, candidate: &ReferenceCandidate<'_>) -> Span {
        let somewhere = || find_span(self.source, self.span, candidate.written);
        if candidate.notation != Notation::Single {
            return somewhere();
        }
        let text = self.source.get(self.span.start..self.span.end()).unwrap_or_default();
        let mut found = text.match_indices(candidate.written);
        let alone = found.find(|(at, _)| !text[..*at].ends_with(['$', '{']));
        alone.map_or_else(somewhere, |(at, found)| Span { start: self.span.start + at, length: found.len() })
    }

    fn report_lookalike(&self, candidate: &ReferenceCandidate<'_>, found: &Lookalike, problems: &mut Problems) {
        let written = candidate.written;
        let at = self.find_place(candidate);
        let message = match candidate.has_blanks() {
            true => format!("{written} has blanks, so it is not a reference and stays as text"),
            false => format!("{written} is not a reference in this format and stays as text"),
        };
        let diagnostic = match found.is_secret {
            true => problems.add_error(Code::NotAReference, at, message),
            false => problems.add_warning(Code::NotAReference, at, message),
        };
        diagnostic.help = Some(found.help.clone());
        let is_exact = at.length == written.len();
        diagnostic.fix = found.replacement.as_ref().filter(|_| is_exact).map(|replacement| {
            Fix::new_safe(found.help.clone(), vec![(at, replacement.clone())]).safe_if(found.is_meant)
        });
    }
}

/// A text that was probably meant as a reference.
struct Lookalike {
    is_secret: bool,
    /// Whether it certainly was.
    is_meant: bool,
    help: String,
    /// The reference, if it is clear.
    replacement: Option<String>,
}

impl<'t> ReferenceCandidate<'t> {
    /// The first candidate at or after a place.
    fn find_next(text: &'t str, from: usize) -> Option<ReferenceCandidate<'t>> {
        text[from..].match_indices('{').find_map(|(found, _)| ReferenceCandidate::read_at(text, from + found))
    }

    /// The candidate whose first brace is at `brace`.
    fn read_at(text: &'t str, brace: usize) -> Option<ReferenceCandidate<'t>> {
        let is_double = text[brace..].starts_with("{{");
        let (notation, close) = match (is_double, text[..brace].ends_with('$')) {
            (true, _) => (Notation::Double, "}}"),
            (false, true) => (Notation::Dollar, "}"),
            (false, false) => (Notation::Single, "}"),
        };
        let rest = &text[brace + close.len()..];
        let near = &rest[..rest.floor_char_boundary(MAX_REFERENCE_BYTES)];
        let (inner, _) = near.split_once(close)?;
        let is_path = |part: char| part.is_alphanumeric() || matches!(part, '_' | '.' | '-' | '[' | ']');
        let name = inner.trim();
        if name.is_empty() || !name.chars().all(is_path) {
            return None;
        }
        let start = brace - usize::from(notation == Notation::Dollar);
        let end = brace + inner.len() + 2 * close.len();
        Some(ReferenceCandidate { notation, written: &text[start..end], inner, end })
    }

    fn has_blanks(&self) -> bool {
        self.inner.trim() != self.inner
    }

    /// The reference of the format that it looks like; `None` if it is one, or looks like none.
    fn find_lookalike(&self, rules: &ReferenceRules<'_>) -> Option<Lookalike> {
        let name = self.inner.trim();
        let native = format!("{{{{{name}}}}}");
        let template = (rules.parse)(&native);
        let is_secret = template.iter_secrets().next().is_some();
        let is_reference = is_secret || template.iter_refs().next().is_some();
        let is_known = name.split(['.', '[']).next().is_some_and(rules.is_known);
        let has_blanks = self.has_blanks();
        let is_lookalike = match self.notation {
            Notation::Double if is_reference => has_blanks,
            Notation::Double | Notation::Single => is_known && !has_blanks,
            Notation::Dollar => is_known || is_secret,
        };
        let replacement = is_reference.then_some(native);
        let help = replacement.as_deref().map_or_else(|| rules.example.to_owned(), |native| format!("write {native}"));
        let is_meant = is_secret || (is_known && self.notation != Notation::Single);
        is_lookalike.then_some(Lookalike { is_secret, is_meant, help, replacement })
    }
}
