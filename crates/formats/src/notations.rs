//! `{{ name }}`: a reference that only its blanks keep from being one, in formats whose references have none.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::expr::Template;

use crate::problems::Problems;
use crate::reader::find_span;

/// Longest reference with blanks that is looked for, in bytes.
const MAX_BLANK_REFERENCE_BYTES: usize = 200;

/// A text in a definition.
pub(crate) struct PlacedText<'a> {
    /// The text of the definition.
    pub(crate) source: &'a str,
    /// The text within it.
    pub(crate) text: &'a str,
    /// Where the text is.
    pub(crate) span: Span,
}

impl PlacedText<'_> {
    /// Warns about references with blanks, which stay as text. `parse` reads the references of the format. Names for which
    /// `is_known` is false may belong to a template of another program, so the fix for them is a suggestion.
    pub(crate) fn warn_blank_references(
        &self,
        parse: fn(&str) -> Template,
        is_known: impl Fn(&str) -> bool,
        problems: &mut Problems,
    ) {
        let mut seen = HashSet::new();
        for (written, name) in find_blank_references(self.text, parse) {
            if !seen.insert(written) || !problems.has_room_for_warning() {
                return;
            }
            let at = find_span(self.source, self.span, written);
            let message = format_args!("{written} has blanks, so it is not a reference and stays as text");
            let diagnostic = problems.add_warning(Code::DoubleBraces, at, message);
            let title = format!("write {{{{{name}}}}}");
            diagnostic.help = Some(title.clone());
            let is_known = name.split('.').next().is_some_and(&is_known);
            diagnostic.fix = (at.length == written.len())
                .then(|| Fix::new_safe(title, vec![(at, format!("{{{{{name}}}}}"))]).safe_if(is_known));
        }
    }
}

/// The references that only blanks keep from being one: as they are written, and the name.
fn find_blank_references(text: &str, parse: fn(&str) -> Template) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("{{").filter_map(move |(start, _)| {
        let rest = &text[start + 2..];
        let near = &rest[..rest.floor_char_boundary(MAX_BLANK_REFERENCE_BYTES)];
        let (inner, _) = near.split_once("}}")?;
        let name = inner.trim();
        let is_one = name != inner && parse(&format!("{{{{{name}}}}}")).iter_refs().next().is_some();
        is_one.then(|| (&text[start..start + inner.len() + 4], name))
    })
}
