//! Redacts all secrets of a server, in the encodings in which servers return them.
//!
//! One automaton searches for all encodings of all secrets at once, so the cost of a text does not grow with the number
//! of secrets.

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use flowloom_runtime::redact::{RedactedStream, Redactor};

use super::used::MIN_REDACTED_BYTES;
use patterns::{Pattern, encode_secret, is_base64};

mod patterns;

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
    /// The texts of the patterns in order, to find how a text ends.
    sorted: Vec<String>,
    /// The length in bytes of the longest pattern.
    longest: usize,
}

impl SecretRedactor {
    /// A redactor of secrets, given by name and value. Values shorter than six bytes occur by chance and are not
    /// redacted.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> SecretRedactor {
        let long = secrets.into_iter().filter(|(_, value)| value.trim().len() >= MIN_REDACTED_BYTES);
        let mut patterns: Vec<Pattern> = long.flat_map(|(name, value)| encode_secret(&name, value.trim())).collect();
        patterns.sort_by(|a, b| a.text.cmp(&b.text));
        patterns.dedup_by(|b, a| a.text == b.text);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns.iter().map(|pattern| &pattern.text));
        // Building fails only for more patterns than a process can hold.
        let Some(automaton) = automaton.ok().filter(|_| !patterns.is_empty()) else { return SecretRedactor::default() };
        let sorted: Vec<String> = patterns.iter().map(|pattern| pattern.text.clone()).collect();
        let longest = sorted.iter().map(String::len).max().unwrap_or_default();
        SecretRedactor { search: Some(Arc::new(Search { automaton, patterns, sorted, longest })) }
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
            out.push_str(&pattern.replacement);
            copied = end;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }

    /// The number of bytes at the start of a text that later text cannot make part of a secret.
    fn count_safe_bytes(&self, text: &str) -> usize {
        let safe = start_of_match(text, text.len() - self.count_open_bytes(text));
        // A match at the border is held back as a whole.
        let at_border = self.automaton.find_iter(text).find(|found| found.end() >= safe);
        at_border.map_or(safe, |found| safe.min(start_of_match(text, found.start())))
    }

    /// The length in bytes of the longest end of a text with which a pattern starts.
    fn count_open_bytes(&self, text: &str) -> usize {
        let starts_pattern = |end: &str| {
            let first = self.sorted.partition_point(|pattern| pattern.as_str() < end);
            self.sorted.get(first).is_some_and(|pattern| pattern.starts_with(end))
        };
        let longest = self.longest.min(text.len());
        (1..=longest).rev().find(|count| text.get(text.len() - count..).is_some_and(starts_pattern)).unwrap_or_default()
    }
}

/// Where a match begins whose pattern is found at `position`: the character before it may contain bits of a secret.
fn start_of_match(text: &str, position: usize) -> usize {
    position - usize::from(position > 0 && is_base64(text.as_bytes()[position - 1]))
}

/// A text of which the end is held back while it may be the start of a secret.
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
