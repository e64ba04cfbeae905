//! Renames, in the form of the protocol. An agent with a folder of its own is renamed with its folder.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use async_lsp::{ErrorCode, ResponseError};
use flowloom_app::definitions::nameable::AGENTS_FOLDERS;
use lsp_types::{
    DocumentChangeOperation, DocumentChanges, OneOf, OptionalVersionedTextDocumentIdentifier, RenameFile, RenameParams,
    ResourceOp, TextDocumentEdit, TextEdit, Url, WorkspaceEdit,
};

use super::check::is_markdown;
use super::convert::TextView;
use super::features::Opened;
use super::readers::resolve_path;
use super::rename_check::check_meaning;
use super::state::Snapshot;
use crate::analysis::names::NameKind;
use crate::analysis::rename::{Replacement, find_renamable, rename};

/// The edits that give the name at a position another text.
pub(super) fn rename_at(snapshot: &Snapshot, params: &RenameParams) -> Result<Option<WorkspaceEdit>, ResponseError> {
    let at = &params.text_document_position;
    let Some(mut opened) = Opened::find(snapshot, &at.text_document.uri) else { return Ok(None) };
    let offset = opened.view().find_offset(at.position);
    let found = opened.file().and_then(|file| find_renamable(&opened.definition, file, offset)).cloned();
    let Some(name) = found else { return Ok(None) };
    opened.add_neighbours(&name);
    let refuse = |message| ResponseError::new(ErrorCode::INVALID_PARAMS, message);
    let replacements = rename(&opened.definition, &name, &params.new_name).map_err(refuse)?;
    let folder = if name.kind == NameKind::Agent { find_agent_folder(&opened, &name.text) } else { None };
    // An agent that only its folder names is not found until the folder is renamed.
    let is_named_by_folder = folder.is_some() && opened.definition.find_origins(&name).next().is_none();
    if !is_named_by_folder {
        check_meaning(&opened, &name, &params.new_name, &replacements).map_err(refuse)?;
        check_includers(&opened, &replacements).map_err(refuse)?;
    }
    let mut edits: BTreeMap<String, Vec<TextEdit>> = BTreeMap::new();
    for replacement in replacements {
        let Some(file) = opened.definition.find_file(&replacement.file) else { continue };
        let view = TextView { text: &file.index.text, lines: &file.index.lines, unit: snapshot.unit };
        edits.entry(replacement.file).or_default().push(view.replace(replacement.span, &replacement.text));
    }
    let moved = folder.and_then(|folder| {
        let new = folder.parent()?.join(&params.new_name);
        Some((Url::from_file_path(&folder).ok()?, Url::from_file_path(new).ok()?))
    });
    let uris = edits.into_iter().filter_map(|(file, edits)| Some((opened.find_uri(&file)?, edits)));
    if moved.is_none() && !snapshot.abilities.has_document_changes {
        return Ok(Some(WorkspaceEdit::new(uris.collect())));
    }
    let texts = uris.map(|(uri, edits)| {
        // The editor refuses the edit of a text that it has changed meanwhile.
        let version = snapshot.documents.find(&uri).map(|document| document.version);
        let text_document = OptionalVersionedTextDocumentIdentifier { uri, version };
        TextDocumentEdit { text_document, edits: edits.into_iter().map(OneOf::Left).collect() }
    });
    let changes = match moved {
        None => DocumentChanges::Edits(texts.collect()),
        Some((old_uri, new_uri)) => {
            let file = RenameFile { old_uri, new_uri, options: None, annotation_id: None };
            let moves = [DocumentChangeOperation::Op(ResourceOp::Rename(file))];
            DocumentChanges::Operations(texts.map(DocumentChangeOperation::Edit).chain(moves).collect())
        }
    };
    Ok(Some(WorkspaceEdit { document_changes: Some(changes), ..WorkspaceEdit::default() }))
}

/// Fails if another workflow includes a text that changes: it would read a variable that only this definition has.
fn check_includers(opened: &Opened<'_>, replacements: &[Replacement]) -> Result<(), String> {
    let main = Path::new(&opened.definition.main().path);
    if !is_markdown(main) {
        return Ok(());
    }
    let changed: HashSet<PathBuf> =
        replacements.iter().map(|replacement| resolve_path(Path::new(&replacement.file))).collect();
    let own: HashSet<&Path> = opened.definition.files.iter().map(|file| Path::new(&file.path)).collect();
    let project = opened.project_files();
    let mut files = project.list_others(main);
    files.retain(|file| is_markdown(file) && !own.contains(file.as_path()));
    let readers = project.find_readers(files, &changed, |text| text.contains("include"));
    let Some(reader) = readers.first() else { return Ok(()) };
    let folder = main.parent().unwrap_or(main);
    let shown = reader.strip_prefix(folder).unwrap_or(reader).display();
    Err(format!("{shown} includes a text that would change, too, and has its own names: rename it there by hand first"))
}

/// The folder of an agent that is named by it: next to its graph, or above.
fn find_agent_folder(opened: &Opened<'_>, agent: &str) -> Option<PathBuf> {
    let is_of_agents = |folder: &Path| AGENTS_FOLDERS.iter().any(|name| folder.ends_with(name));
    let folders =
        opened.checked.iter().flat_map(|checked| checked.files.keys()).filter_map(|path| Path::new(path).parent());
    let mut named = folders.filter(|folder| folder.ends_with(agent) && folder.parent().is_some_and(is_of_agents));
    let beside = || Some(Path::new(&opened.definition.main().path).parent()?.join("agents").join(agent));
    let folder = named.next().map(Path::to_owned).or_else(beside)?;
    folder.is_dir().then_some(folder)
}
