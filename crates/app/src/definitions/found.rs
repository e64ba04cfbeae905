//! Tells definitions from other files of a folder.

use std::ffi::OsStr;
use std::path::Path;

use flowloom_core::code::Code;
use flowloom_formats::{Compiled, is_found_definition, markdown};

use super::source::LoadedDefinition;
use crate::config::Config;

/// Whether a compiled file of a folder is a definition, also a broken one, and neither documentation nor the file of another
/// program.
pub(super) fn is_definition(path: &Path, source: &LoadedDefinition, config: &Config) -> bool {
    !is_foreign(&source.compiled) && has_definition(path, source.bytes(), config)
}

/// Whether a file is in no known format.
pub(super) fn is_foreign(compiled: &Compiled) -> bool {
    compiled.diagnostics.iter().any(|problem| problem.code == Code::UnknownFormat)
}

/// Whether the content of a file is a definition: most `.md` files contain no action.
fn has_definition(path: &Path, bytes: &[u8], config: &Config) -> bool {
    let extension = path.extension().map(OsStr::to_ascii_lowercase);
    match extension.as_deref().and_then(OsStr::to_str) {
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
