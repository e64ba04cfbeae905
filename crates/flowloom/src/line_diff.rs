//! The difference between two texts as a unified diff.

use std::time::Duration;

use similar::TextDiff;

/// Maximum time of the search for equal lines, which is quadratic in the number of lines that differ.
const SEARCH_TIME: Duration = Duration::from_millis(300);

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// The lines that differ between two texts. In texts that have nothing in common, the search for equal lines ends early.
pub(crate) fn compare_lines<'t>(old: &'t str, new: &'t str) -> TextDiff<'t, 't, 't, str> {
    TextDiff::configure().timeout(SEARCH_TIME).diff_lines(old, new)
}

/// The unified diff of a file; empty if nothing differs.
pub(crate) fn write_diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    compare_lines(old, new).unified_diff().context_radius(CONTEXT_LINES).header(name, name).to_string()
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
