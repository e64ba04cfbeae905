//! The difference between two texts as a unified diff.

use similar::TextDiff;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// The unified diff of a file; empty if nothing differs.
pub(crate) fn write_diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    TextDiff::from_lines(old, new).unified_diff().context_radius(CONTEXT_LINES).header(name, name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(write_diff("a", "1\n2\n", "1\n2\n"), "");
        let diff = write_diff("a", "1\n2\n3\n", "1\nx\n3");
        assert!(
            diff.starts_with("--- a\n+++ a\n@@ -1,3 +1,3 @@\n 1\n-2\n-3\n+x\n+3\n\\ No newline at end of file"),
            "{diff}"
        );
    }
}
