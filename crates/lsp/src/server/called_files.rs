//! The files of the workflows that a definition calls: as functions of the configuration, or as tools of an agent.

use std::path::{Path, PathBuf};

use flowloom_app::config::Config;
use flowloom_app::definitions::nameable::find_tool_file;

use crate::analysis::index::{Body, Index};
use crate::analysis::names::{Name, NameKind};

/// The file of the workflow that a name calls in the definition at `main`; `None` if it calls none.
pub(super) fn find_called_file(config: &Config, main: &Path, name: &Name) -> Option<PathBuf> {
    match name.kind {
        NameKind::Function => find_function_file(config, &name.text),
        NameKind::Tool => find_function_file(config, &name.text).or_else(|| find_tool_file(config, main, &name.text)),
        _ => None,
    }
}

/// The file of the workflow of a configured function.
fn find_function_file(config: &Config, function: &str) -> Option<PathBuf> {
    let workflow = config.functions.get(function)?.workflow.as_ref()?;
    let file = config.base_folder().join(workflow);
    file.is_file().then(|| std::path::absolute(&file).unwrap_or(file))
}

/// The file of the workflow that the element of a Markdown workflow at byte `offset` calls.
pub(super) fn find_element_file(config: &Config, index: &Index, offset: usize) -> Option<PathBuf> {
    let Body::Markdown(document) = &index.body else { return None };
    let is_here = |name: &flowloom_core::diagnostic::Span| name.start <= offset && offset <= name.end();
    let element = document
        .elements
        .iter()
        .find(|element| is_here(&element.name_span) || element.closing_name.as_ref().is_some_and(is_here))?;
    // The signs between the words of a function are others in its element.
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let function = config.functions.keys().find(|function| plain(function) == plain(&element.name))?;
    find_function_file(config, function)
}
