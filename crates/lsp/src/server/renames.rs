//! Renames, in the form of the protocol. An agent with a folder of its own is renamed with its folder.

use std::collections::BTreeMap;
use std::path::Path;

use async_lsp::{ErrorCode, ResponseError};
use lsp_types::{
    DocumentChangeOperation, DocumentChanges, OneOf, OptionalVersionedTextDocumentIdentifier, RenameFile, RenameParams,
    ResourceOp, TextDocumentEdit, TextEdit, Url, WorkspaceEdit,
};

use super::convert::TextView;
use super::features::Opened;
use super::state::Snapshot;
use crate::analysis::names::NameKind;
use crate::analysis::rename::{find_renamable, rename};

/// The edits that give the name at a position another text.
pub(super) fn rename_at(snapshot: &Snapshot, params: &RenameParams) -> Result<Option<WorkspaceEdit>, ResponseError> {
    let at = &params.text_document_position;
    let Some(mut opened) = Opened::find(snapshot, &at.text_document.uri) else { return Ok(None) };
    let offset = opened.view().find_offset(at.position);
    let found = opened.file().and_then(|file| find_renamable(&opened.definition, file, offset)).cloned();
    let Some(name) = found else { return Ok(None) };
    opened.add_neighbours(&name);
    let replacements = rename(&opened.definition, &name, &params.new_name)
        .map_err(|message| ResponseError::new(ErrorCode::INVALID_PARAMS, message))?;
    let mut edits: BTreeMap<String, Vec<TextEdit>> = BTreeMap::new();
    for replacement in replacements {
        let Some(file) = opened.definition.find_file(&replacement.file) else { continue };
        let view = TextView { text: &file.index.text, lines: &file.index.lines, unit: snapshot.unit };
        edits.entry(replacement.file).or_default().push(view.replace(replacement.span, &replacement.text));
    }
    let folder = if name.kind == NameKind::Agent { find_agent_folder(&opened, &name.text) } else { None };
    let moved = folder.and_then(|folder| {
        let new = folder.parent()?.join(&params.new_name);
        Some((Url::from_file_path(&folder).ok()?, Url::from_file_path(new).ok()?))
    });
    let uris = edits.into_iter().filter_map(|(file, edits)| Some((opened.find_uri(&file)?, edits)));
    Ok(Some(match moved {
        None => WorkspaceEdit::new(uris.collect()),
        Some((old_uri, new_uri)) => {
            let texts = uris.map(|(uri, edits)| {
                let text_document = OptionalVersionedTextDocumentIdentifier { uri, version: None };
                let edits = edits.into_iter().map(OneOf::Left).collect();
                DocumentChangeOperation::Edit(TextDocumentEdit { text_document, edits })
            });
            let file = RenameFile { old_uri, new_uri, options: None, annotation_id: None };
            let operations = texts.chain([DocumentChangeOperation::Op(ResourceOp::Rename(file))]).collect();
            WorkspaceEdit {
                document_changes: Some(DocumentChanges::Operations(operations)),
                ..WorkspaceEdit::default()
            }
        }
    }))
}

/// The folder of an agent next to its graph.
fn find_agent_folder(opened: &Opened<'_>, agent: &str) -> Option<std::path::PathBuf> {
    let folder = Path::new(&opened.definition.main().path).parent()?.join("agents").join(agent);
    folder.is_dir().then_some(folder)
}
