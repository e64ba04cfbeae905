//! Commands that messages propose. They work when they are typed in the current folder, whatever project is used.

use std::path::Path;
use std::sync::OnceLock;

use flowloom_app::config::project::Project;

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

/// The options with which a command in the current folder uses a project. They are empty if it does so anyway.
pub(crate) fn project_options(project: &Project) -> String {
    match &project.file {
        _ if project.is_current() => String::new(),
        Some(file) => format!(" --config {}", quote_argument(file)),
        None => format!(" --data-dir {}", quote_argument(&project.data_folder())),
    }
}

/// A path as a shell reads it. One that begins with a hyphen is no option.
pub(crate) fn quote_argument(path: &Path) -> String {
    let text = path.display().to_string();
    quote_text(&if text.starts_with('-') { format!("./{text}") } else { text })
}

/// A text as a shell reads it.
pub(crate) fn quote_text(text: &str) -> String {
    // A shell replaces `~` at the start of a word.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:".contains(c) || c == '~' && text.starts_with('/');
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
