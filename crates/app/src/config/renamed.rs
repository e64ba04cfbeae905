//! Settings that have a new name. The old name works for one version, with a warning.

use std::path::Path;

/// Settings that were renamed: table (empty for the top level), old name, new name. The old names work for one version.
pub(super) const RENAMED_SETTINGS: [(&str, &str, &str); 2] =
    [("", "take_up_ms", "recovery_interval_ms"), ("embeddings", "likeness", "similarity_threshold")];

/// A warning for each setting of the file that still has its old name.
pub(super) fn find_renamed_settings(path: &Path, text: &str) -> Vec<String> {
    let Ok(top) = text.parse::<toml::Table>() else { return Vec::new() };
    let uses = |(table, old, _): &&(&str, &str, &str)| match *table {
        "" => top.contains_key(*old),
        table => top.get(table).and_then(toml::Value::as_table).is_some_and(|table| table.contains_key(*old)),
    };
    let warning = |(table, old, new): &(&str, &str, &str)| {
        let place = if table.is_empty() { String::new() } else { format!("[{table}] ") };
        format!(
            "{}: {place}{old} is now called {new}; the old name will stop working in the next version",
            path.display()
        )
    };
    RENAMED_SETTINGS.iter().filter(uses).map(warning).collect()
}
