//! Tells definitions from other files of a folder.

use std::ffi::OsStr;
use std::path::Path;

use flowloom_formats::{is_found_definition, markdown};

use crate::config::Config;

/// Whether a file that was found is a definition, and neither documentation nor the file of another program: most `.md` files
/// contain no action.
pub(crate) fn is_definition(path: &Path, bytes: &[u8], config: &Config) -> bool {
    match path.extension().and_then(OsStr::to_str) {
        Some("md") => has_action(bytes, config),
        Some("json" | "jsonc") => is_found_definition(&path.display().to_string(), &String::from_utf8_lossy(bytes)),
        _ => true,
    }
}

/// Whether Markdown has an action: a built-in one, or one of the configuration.
pub fn has_action(bytes: &[u8], config: &Config) -> bool {
    let functions: Vec<&str> = config.functions.keys().map(String::as_str).collect();
    let servers: Vec<&str> = config.mcp.keys().map(String::as_str).collect();
    markdown::has_action(&String::from_utf8_lossy(bytes), &functions, &servers)
}
