//! The regular expressions of a schema, and how much work they may take.
//!
//! Most are matched in a time that is linear in the text. Those with look-around or back-references are matched by
//! backtracking, which can take exponential time, so each search is limited. A schema can have many, so they share one budget.

use serde_json::{Map, Value};

use super::SchemaTooComplex;

/// Maximum number of regular expressions of a schema.
pub(super) const MAX_PATTERNS: usize = 1_000;

/// Maximum number of searches that may backtrack, for one value.
pub(super) const MAX_BACKTRACKING_SEARCHES: u64 = 1_000;

/// Maximum number of backtracking steps of all searches for one value together.
const MAX_BACKTRACKS: usize = 250_000;

/// Memory in bytes for all compiled expressions of a schema, and bounds for a single one.
const MAX_TOTAL_COMPILED_BYTES: usize = 32 << 20;
const MIN_COMPILED_BYTES: usize = 64 << 10;
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// A text under `format: regex` is compiled, which takes as long as this number of searches.
const SEARCHES_PER_FORMAT: u64 = 40;

/// Limits for the expressions of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternLimits {
    /// Maximum size in bytes of one compiled expression.
    pub compiled_bytes: usize,
    /// Maximum number of steps back in one search.
    pub backtracks: usize,
}

impl PatternLimits {
    /// The tightest limits.
    pub const MIN: PatternLimits = PatternLimits {
        compiled_bytes: MIN_COMPILED_BYTES,
        backtracks: MAX_BACKTRACKS / MAX_BACKTRACKING_SEARCHES as usize,
    };

    /// The limits for a schema with so many expressions, of which so many searches may backtrack.
    pub(super) fn share_budget(patterns: usize, searches: u64) -> PatternLimits {
        let share = MAX_TOTAL_COMPILED_BYTES / patterns.max(1);
        PatternLimits {
            compiled_bytes: share.clamp(MIN_COMPILED_BYTES, MAX_COMPILED_BYTES),
            backtracks: MAX_BACKTRACKS / usize::try_from(searches.max(1)).unwrap_or(usize::MAX).min(MAX_BACKTRACKS),
        }
    }
}

/// The expressions of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SchemaPatterns {
    pub(super) count: usize,
    /// Whether searches for one of them may backtrack.
    pub(super) has_backtracking: bool,
}

impl SchemaPatterns {
    /// Looks for expressions in the whole schema. Data in it counts, too: that only makes the limits tighter. Fails if there are too
    /// many.
    pub(super) fn find_patterns(root: &Value) -> Result<SchemaPatterns, SchemaTooComplex> {
        let mut found = SchemaPatterns::default();
        let mut left = vec![root];
        while let Some(node) = left.pop() {
            match node {
                Value::Array(items) => left.extend(items),
                Value::Object(schema) => {
                    list_patterns(schema).for_each(|pattern| found.add_pattern(pattern));
                    found.has_backtracking |= has_regex_format(schema);
                    left.extend(schema.values());
                }
                _ => {}
            }
        }
        if found.count > MAX_PATTERNS { Err(SchemaTooComplex::Patterns) } else { Ok(found) }
    }

    fn add_pattern(&mut self, pattern: &str) {
        self.count += 1;
        self.has_backtracking |= may_backtrack(pattern);
    }
}

fn list_patterns(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let of_names = schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let of_text = schema.get("pattern").and_then(Value::as_str);
    of_names.map(String::as_str).chain(of_text)
}

fn has_regex_format(schema: &Map<String, Value>) -> bool {
    schema.get("format").and_then(Value::as_str) == Some("regex")
}

/// Number of searches that may backtrack when a value is held to this subschema alone.
pub(super) fn count_searches(schema: &Map<String, Value>, value: &Value) -> u64 {
    match value {
        Value::String(_) => {
            let pattern = schema.get("pattern").and_then(Value::as_str);
            let formats = if has_regex_format(schema) { SEARCHES_PER_FORMAT } else { 0 };
            formats + u64::from(pattern.is_some_and(may_backtrack))
        }
        Value::Object(fields) => {
            let names = schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
            let backtracking = names.filter(|name| may_backtrack(name)).count() as u64;
            // `additionalProperties` asks again which names match.
            backtracking.saturating_mul(2 * fields.len() as u64)
        }
        _ => 0,
    }
}

/// Whether a pattern has something that takes backtracking: look-around, a back-reference, or what only some engines know.
fn may_backtrack(pattern: &str) -> bool {
    let bytes = pattern.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or_default();
    let (mut index, mut is_in_class) = (0, false);
    while index < bytes.len() {
        let is_special = match bytes[index] {
            b'\\' => {
                index += 1;
                at(index).is_ascii_alphanumeric() && !b"0bBcdDfnpPrstuvwWxAzS".contains(&at(index))
            }
            _ if is_in_class => {
                is_in_class = bytes[index] != b']';
                false
            }
            b'[' => {
                is_in_class = true;
                false
            }
            b'(' if at(index + 1) == b'?' => !is_plain_group(at(index + 2), at(index + 3)),
            b'*' | b'+' | b'?' | b'}' => at(index + 1) == b'+',
            _ => false,
        };
        if is_special {
            return true;
        }
        index += 1;
    }
    false
}

/// Whether a group that starts with `(?` and these two characters is one without a name, one with a name, or one with flags.
fn is_plain_group(first: u8, second: u8) -> bool {
    match first {
        b':' | b'P' => true,
        b'<' => second.is_ascii_alphabetic() || second == b'_',
        flag => b"imsxuU-".contains(&flag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_backtracking_is_recognised() {
        for linear in [
            "^[a-z]+$",
            r"\d{3}-\d{4}",
            "(?:a|b)*",
            "(?P<name>x)",
            "(?<name>x)",
            "(?i)x",
            r"\p{L}\u0041",
            "[(?=]+",
            r"[\]*+]",
            r"\(?=",
            "a+?",
            "a*?b",
        ] {
            assert!(!may_backtrack(linear), "{linear}");
        }
        for backtracking in [
            "(?=a)",
            "x(?!a)",
            "(?<=a)b",
            "(?<!a)b",
            r"(a)\1",
            r"\k<n>",
            "(?>a)",
            "(?(1)a|b)",
            "a++",
            "a*+",
            "a{2}+",
            r"\Ka",
        ] {
            assert!(may_backtrack(backtracking), "{backtracking}");
        }
    }

    #[test]
    fn expressions_share_a_budget() {
        let few = PatternLimits::share_budget(3, 1);
        assert_eq!((few.compiled_bytes, few.backtracks), (MAX_COMPILED_BYTES, MAX_BACKTRACKS));
        assert_eq!(PatternLimits::share_budget(MAX_PATTERNS, MAX_BACKTRACKING_SEARCHES), PatternLimits::MIN);
    }
}
