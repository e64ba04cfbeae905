//! The folders that the editor shows, and a search for the parts of all definitions in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_app::definitions::folder::list_files;
use flowloom_core::plan::Format;
use flowloom_formats::recognise_found;
use lsp_types::{InitializeParams, Location, SymbolInformation, Url, WorkspaceFolder, WorkspaceFoldersChangeEvent};

use super::convert::TextView;
use super::parts::symbol_kind;
use super::readers::{MAX_FILES, read_text};
use super::state::Snapshot;
use crate::analysis::index::Index;
use crate::analysis::json_tree::parse_tolerant;
use crate::analysis::outline::{ItemKind, OutlineItem, list_parts};

/// Maximum number of parts that a search finds: people write more of the name then.
const MAX_FOUND: usize = 500;

/// The folders that the editor shows.
pub(super) type Folders = Arc<[PathBuf]>;

/// The folders that the editor shows at its start.
#[expect(deprecated, reason = "some editors name their only folder in the older way")]
pub(super) fn list_folders(params: &InitializeParams) -> Folders {
    let several = params.workspace_folders.iter().flatten().filter_map(find_folder);
    let single = params.root_uri.as_ref().and_then(|uri| uri.to_file_path().ok());
    let mut folders: Vec<PathBuf> = several.collect();
    if folders.is_empty() {
        folders.extend(single);
    }
    folders.into()
}

/// The folders after the editor has opened and closed some.
pub(super) fn change_folders(folders: &Folders, change: &WorkspaceFoldersChangeEvent) -> Folders {
    let removed: Vec<PathBuf> = change.removed.iter().filter_map(find_folder).collect();
    let kept = folders.iter().filter(|folder| !removed.contains(folder)).cloned();
    kept.chain(change.added.iter().filter_map(find_folder)).collect()
}

fn find_folder(folder: &WorkspaceFolder) -> Option<PathBuf> {
    folder.uri.to_file_path().ok()
}

/// The steps, nodes, inputs and headings of all definitions whose names contain the characters of `query` in their order.
pub(super) fn search_symbols(snapshot: &Snapshot, query: &str) -> Vec<SymbolInformation> {
    let wanted: Vec<char> = query.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    let mut files: Vec<PathBuf> = snapshot.folders.iter().flat_map(|folder| list_files(folder)).collect();
    files.sort();
    files.dedup();
    let mut found = Vec::new();
    for path in files.iter().take(MAX_FILES) {
        if let Some(uri) = Url::from_file_path(path).ok().filter(|_| found.len() < MAX_FOUND) {
            add_symbols(snapshot, path, &uri, &wanted, &mut found);
        }
    }
    found.truncate(MAX_FOUND);
    found
}

/// The text of a file as the editor shows it, or else as it is stored, and its format; `None` if it is no definition, or too
/// large to be searched.
pub(super) fn read_definition(snapshot: &Snapshot, path: &Path) -> Option<(Arc<str>, Format)> {
    let text = read_text(snapshot.documents.open_files(), path)?;
    let format = recognise_found(&path.display().to_string(), &text, parse_tolerant(&text).as_ref())?;
    Some((text, format))
}

/// Adds the parts of one file, if it is a definition.
fn add_symbols(snapshot: &Snapshot, path: &Path, uri: &Url, wanted: &[char], found: &mut Vec<SymbolInformation>) {
    let Some((text, format)) = read_definition(snapshot, path) else { return };
    let index = Index::new(text, format);
    let view = TextView { text: &index.text, lines: &index.lines, unit: snapshot.unit };
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut left = list_parts(&index);
    left.reverse();
    while let Some(mut part) = left.pop() {
        if part.kind != ItemKind::Group && is_match(&part.name, wanted) {
            found.push(write_symbol(&part, Location::new(uri.clone(), view.find_range(part.selection)), &file_name));
        }
        part.children.reverse();
        left.append(&mut part.children);
    }
}

#[expect(deprecated, reason = "the protocol's type has a field that is not used any more")]
fn write_symbol(part: &OutlineItem, location: Location, file_name: &Option<String>) -> SymbolInformation {
    SymbolInformation {
        name: part.name.clone(),
        kind: symbol_kind(part.kind),
        tags: None,
        deprecated: None,
        location,
        container_name: file_name.clone(),
    }
}

/// Whether a name contains the characters in their order.
fn is_match(name: &str, wanted: &[char]) -> bool {
    let mut left = wanted.iter().peekable();
    for c in name.chars().flat_map(char::to_lowercase) {
        left.next_if(|wanted| **wanted == c);
    }
    left.peek().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_some_of_its_letters() {
        let is_found = |query: &str| is_match("Fetch_Order", &query.chars().collect::<Vec<_>>());
        assert!(["", "fetch", "ford", "order"].into_iter().all(is_found));
        assert!(["orders", "hf", "x"].into_iter().all(|query| !is_found(query)));
    }
}
