//! Redacts all secrets of a server, in the encodings in which servers return them.
//!
//! One automaton searches for all encodings of all secrets in one pass, so the cost of a text does not grow with the
//! number of secrets.

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use flowloom_runtime::redact::{RedactedStream, Redactor};

use super::used::MIN_REDACTED_BYTES;
use patterns::{Pattern, encode_value, is_base64};

mod patterns;

/// Minimum length in bytes of a secret that is redacted from the texts of users who may not use it. A person who
/// chooses a text sees which parts were redacted, and could find a shorter value by trying all.
const MIN_FOREIGN_BYTES: usize = 16;

/// Granularity in bytes of the length for which text is held back.
const WINDOW_STEP_BYTES: usize = 64;

/// A secret to redact.
#[derive(Clone, Debug)]
pub struct HiddenSecret {
    /// Its name, which replaces it; `None` for a secret that the reader may not know of.
    pub name: Option<String>,
    /// Its value.
    pub value: String,
}

/// A value to redact.
#[derive(Clone, Copy, Debug)]
pub struct ReplacedValue<'v> {
    /// The value. One shorter than six bytes occurs by chance and is not redacted.
    pub value: &'v str,
    /// The text shown instead of the secret.
    pub shown: &'v str,
}

impl HiddenSecret {
    /// Whether it is long enough. Values that occur by chance, or that can be found by trying all, are not redacted.
    pub fn is_redacted(&self) -> bool {
        let min_bytes = if self.name.is_some() { MIN_REDACTED_BYTES } else { MIN_FOREIGN_BYTES };
        self.value.trim().len() >= min_bytes
    }

    fn list_patterns(&self) -> Vec<Pattern> {
        let replacement = match &self.name {
            Some(name) => format!("${{secret.{name}}}").into(),
            None => "${secret}".into(),
        };
        encode_value(&self.value, &replacement)
    }
}

/// Redacts a fixed set of secrets.
#[derive(Clone, Default)]
pub struct SecretRedactor {
    search: Option<Arc<Search>>,
}

/// The automaton, and what its patterns mean.
struct Search {
    automaton: AhoCorasick,
    /// By the index in the automaton.
    patterns: Vec<Pattern>,
    /// No pattern is longer than this number of bytes.
    window: usize,
    /// Whether no pattern contains white space.
    ends_at_space: bool,
    /// Whether no pattern contains characters outside ASCII.
    ends_at_non_ascii: bool,
}

impl SecretRedactor {
    /// A redactor of some secrets. Values shorter than six bytes occur by chance and are not redacted.
    pub fn new(secrets: impl IntoIterator<Item = HiddenSecret>) -> SecretRedactor {
        let redacted = secrets.into_iter().filter(HiddenSecret::is_redacted);
        SecretRedactor::from_patterns(redacted.flat_map(|secret| secret.list_patterns()).collect())
    }

    /// A redactor of values, with the texts that replace them.
    pub fn of_values<'v>(values: impl IntoIterator<Item = ReplacedValue<'v>>) -> SecretRedactor {
        let encode = |replaced: ReplacedValue<'_>| encode_value(replaced.value, &replaced.shown.into());
        SecretRedactor::from_patterns(values.into_iter().flat_map(encode).collect())
    }

    fn from_patterns(mut patterns: Vec<Pattern>) -> SecretRedactor {
        // Of equal texts, one with a name is kept.
        patterns.sort_by(|a, b| a.text.cmp(&b.text).then(b.replacement.len().cmp(&a.replacement.len())));
        patterns.dedup_by(|b, a| a.text == b.text);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns.iter().map(|pattern| &pattern.text));
        // Building fails only for more patterns than a process can hold.
        let Some(automaton) = automaton.ok().filter(|_| !patterns.is_empty()) else { return SecretRedactor::default() };
        let longest = patterns.iter().map(|pattern| pattern.text.len()).max().unwrap_or_default();
        let has_none = |is_border: fn(char) -> bool| !patterns.iter().any(|pattern| pattern.text.contains(is_border));
        let search = Search {
            automaton,
            window: longest.next_multiple_of(WINDOW_STEP_BYTES),
            ends_at_space: has_none(|c| c.is_ascii_whitespace()),
            ends_at_non_ascii: has_none(|c| !c.is_ascii()),
            patterns,
        };
        SecretRedactor { search: Some(Arc::new(search)) }
    }
}

impl SecretRedactor {
    /// Whether there is nothing to redact.
    pub fn is_empty(&self) -> bool {
        self.search.is_none()
    }
}

impl Redactor for SecretRedactor {
    fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.search.as_ref().map_or(Cow::Borrowed(text), |search| search.redact_text(text))
    }

    fn start_stream(&self) -> Box<dyn RedactedStream> {
        Box::new(SecretStream { search: self.search.clone(), held: String::new() })
    }
}

impl Search {
    fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::new();
        let mut copied = 0;
        for found in self.automaton.find_iter(text) {
            let pattern = &self.patterns[found.pattern()];
            let (start, end) = pattern.widen_match(text, copied, found.range());
            out.push_str(&text[copied..start]);
            // The parts of a long secret follow each other.
            if start > copied || !out.ends_with(&*pattern.replacement) {
                out.push_str(&pattern.replacement);
            }
            copied = end;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }

    /// The number of bytes at the start of a text that later text cannot make part of a secret. It depends on the length of
    /// the longest pattern and on the kinds of characters in the patterns, not on how they begin.
    fn count_safe_bytes(&self, text: &str) -> usize {
        let border = text.char_indices().rev().find(|(_, c)| self.is_border(*c));
        let after_border = border.map_or(0, |(at, c)| at + c.len_utf8());
        let before_window = text.floor_char_boundary(text.len().saturating_sub(self.window));
        let safe = after_border.max(start_of_match(text, before_window));
        // A match at the end is held back as a whole.
        let at_end = self.automaton.find_iter(text).find(|found| found.end() >= safe);
        at_end.map_or(safe, |found| safe.min(start_of_match(text, found.start())))
    }

    /// Whether no pattern contains a character, so that every secret ends before it.
    fn is_border(&self, c: char) -> bool {
        self.ends_at_space && c.is_ascii_whitespace() || self.ends_at_non_ascii && !c.is_ascii()
    }
}

/// Where a match begins whose pattern is found at `position`: the character before it may contain bits of a secret.
fn start_of_match(text: &str, position: usize) -> usize {
    position - usize::from(position > 0 && is_base64(text.as_bytes()[position - 1]))
}

/// A text of which the end is held back, because later text may make it part of a secret.
struct SecretStream {
    search: Option<Arc<Search>>,
    held: String,
}

impl RedactedStream for SecretStream {
    fn push_piece(&mut self, piece: &str) -> String {
        let Some(search) = &self.search else { return piece.to_owned() };
        self.held.push_str(piece);
        let rest = self.held.split_off(search.count_safe_bytes(&self.held));
        let safe = std::mem::replace(&mut self.held, rest);
        search.redact_text(&safe).into_owned()
    }

    fn finish_text(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.search.as_ref().map_or_else(|| rest.clone(), |search| search.redact_text(&rest).into_owned())
    }
}

#[cfg(test)]
mod tests;
