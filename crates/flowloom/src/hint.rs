//! Commands that messages propose. They work when they are typed in the current folder, whatever project is used.

use std::sync::OnceLock;

/// The options with which a command uses the same project and data as this one.
static OPTIONS: OnceLock<String> = OnceLock::new();

/// Sets these options. The first call counts.
pub(crate) fn set_options(options: String) {
    OPTIONS.get_or_init(|| options);
}

/// The command line of a command, such as `resume last`.
pub(crate) fn command_line(command: &str) -> String {
    format!("flowloom{} {command}", OPTIONS.get().map(String::as_str).unwrap_or_default())
}
