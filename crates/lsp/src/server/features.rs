//! The features that are answered from the index of a definition, in the form of the protocol.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_app::definitions::nameable::NameableThings;
use flowloom_formats::markdown;
use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionParams, CompletionResponse, CompletionTextEdit, DocumentHighlight,
    Documentation, GotoDefinitionResponse, Hover, HoverContents, InsertTextFormat, Location, MarkupContent, MarkupKind,
    Position, PrepareRenameResponse, Range, TextDocumentPositionParams, Url,
};

use super::called_files::{find_called_file, find_element_file};
use super::check::{Checked, is_markdown};
use super::convert::TextView;
use super::documents::Document;
use super::readers::{ProjectFiles, resolve_path};
use super::runs::show_value;
use super::state::Snapshot;
use super::workspace::read_definition;
use crate::analysis::completion::{Proposal, ProposalKind, list_proposals};
use crate::analysis::definition::{Definition, FilePlace, IndexedFile};
use crate::analysis::hover::find_meaning;
use crate::analysis::known::Known;
use crate::analysis::names::{Name, NameKind};
use crate::analysis::rename::find_renamable;

/// Maximum number of the files next to a definition that are searched for the names of agents and blocks.
const MAX_NEIGHBOURS: usize = 200;

/// An open document, and the definition that it belongs to.
pub(super) struct Opened<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) document: &'s Document,
    pub(super) definition: Definition,
    /// The result of checking the definition, if there is one.
    pub(super) checked: Option<Arc<Checked>>,
}

impl<'s> Opened<'s> {
    /// Opens the definition of a document: its own, or one that includes it. `None` if there is none.
    pub(super) fn find(snapshot: &'s Snapshot, uri: &Url) -> Option<Opened<'s>> {
        let document = snapshot.documents.find(uri)?;
        let name = document.path.display().to_string();
        let own = snapshot.find_last_result(uri);
        let including = || {
            let mut results = snapshot.results.iter();
            let found = results.find(|(other, result)| *other != uri && result.files.contains_key(&name));
            found.map(|(other, result)| (other, result.clone()))
        };
        let format = document.format.or_else(|| own.as_ref()?.format);
        let (entry, checked, format) = match (format, including()) {
            (Some(format), _) => (document, own, format),
            (None, Some((other, result))) => {
                let format = result.format?;
                (snapshot.documents.find(other)?, Some(result), format)
            }
            // An empty Markdown file is where a workflow begins.
            (None, None) if is_markdown(&document.path) => (document, own, markdown::FORMAT),
            (None, None) => return None,
        };
        let open = snapshot.documents.open_files();
        let read = checked.iter().flat_map(|checked| checked.files.iter());
        let files = read.map(|(path, text)| (path, open.get(Path::new(path)).unwrap_or(text)));
        let definition = Definition::new(&entry.path.display().to_string(), entry.text.clone(), format, files);
        Some(Opened { snapshot, document, definition, checked })
    }

    /// Adds the other definitions of the project that name the same agent or block: those of the folder, and those that read
    /// its files. An agent or a block of the definition's own file is named nowhere else.
    pub(super) fn add_neighbours(&mut self, name: &Name) {
        let is_shared = matches!(name.kind, NameKind::Agent | NameKind::Block);
        let main = PathBuf::from(&self.definition.main().path);
        if !is_shared || self.definition.find_origins(name).any(|place| Path::new(&place.file.path) == main) {
            return;
        }
        let project = self.project_files();
        let mut all = project.list_others(&main);
        all.retain(|path| !is_markdown(path));
        let (siblings, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|path| path.parent() == main.parent());
        let readers = project.find_readers(others, &self.list_shared_files(name), |text| text.contains(&name.text));
        let format = self.definition.main().index.format;
        for path in siblings.into_iter().take(MAX_NEIGHBOURS).chain(readers) {
            let found = read_definition(self.snapshot, &path);
            if let Some((text, found)) = found.filter(|(_, found)| Some(*found) == format) {
                self.definition.add_neighbour(&path.display().to_string(), text, found);
            }
        }
    }

    /// The files around the definition.
    pub(super) fn project_files(&self) -> ProjectFiles<'s> {
        let config = self.checked.as_ref().and_then(|checked| checked.config.clone());
        ProjectFiles { folders: &self.snapshot.folders, open_files: self.snapshot.documents.open_files(), config }
    }

    /// The files that give an agent or a block its meaning: where its name is, or those of the folder with its name.
    fn list_shared_files(&self, name: &Name) -> HashSet<PathBuf> {
        let named = self.definition.find_origins(name).map(|place| PathBuf::from(&place.file.path));
        let read = self.checked.iter().flat_map(|checked| checked.files.keys()).map(PathBuf::from);
        let of_folder = read.filter(|path| path.parent().is_some_and(|folder| folder.ends_with(&name.text)));
        named.chain(of_folder).map(|path| resolve_path(&path)).collect()
    }

    /// The document's part of the definition.
    pub(super) fn file(&self) -> Option<&IndexedFile> {
        self.definition.find_file(&self.document.path.display().to_string())
    }

    pub(super) fn view(&self) -> TextView<'_> {
        TextView { text: &self.document.text, lines: &self.document.lines, unit: self.snapshot.unit }
    }

    /// The names that the definition can use under its configuration.
    fn list_known(&self) -> Known {
        let config = self.checked.as_ref().and_then(|checked| checked.config.clone());
        let Some(config) = config else { return Known::default() };
        let mut known: Known = NameableThings::collect(&config, Path::new(&self.definition.main().path)).into();
        let last = self.checked.as_deref().and_then(|checked| self.snapshot.runs.find_last(checked));
        for (name, value) in last.iter().flat_map(|run| run.outputs.iter().chain(&run.variables)) {
            let fields = value.as_map().into_iter().flat_map(|map| map.keys());
            known.fields.insert(name.clone(), fields.map(|field| field.to_string()).collect());
        }
        known
    }

    /// The location of a place in a file of the definition.
    fn find_location(&self, place: FilePlace<'_>) -> Option<Location> {
        let index = &place.file.index;
        let view = TextView { text: &index.text, lines: &index.lines, unit: self.snapshot.unit };
        Some(Location::new(self.find_uri(&place.file.path)?, view.find_range(place.name.span)))
    }

    /// The address of a file.
    pub(super) fn find_uri(&self, path: &str) -> Option<Url> {
        let path = Path::new(path);
        let open = self.snapshot.documents.find_by_path(path).map(|document| document.uri.clone());
        open.or_else(|| Url::from_file_path(path).ok())
    }

    /// The name at a position. Of the two that a shorthand key refers to, the one around the block comes first.
    fn find_name(&self, position: Position) -> Option<&Name> {
        let offset = self.view().find_offset(position);
        self.file()?.index.find_names(offset).min_by_key(|name| std::cmp::Reverse(name.role))
    }
}

/// The completions at a position.
pub(super) fn complete(snapshot: &Snapshot, params: &CompletionParams) -> Option<CompletionResponse> {
    let at = &params.text_document_position;
    let opened = Opened::find(snapshot, &at.text_document.uri)?;
    let offset = opened.view().find_offset(at.position);
    let proposals = list_proposals(&opened.definition, opened.file()?, offset, &opened.list_known());
    let items = proposals.into_iter().enumerate().map(|(order, proposal)| write_item(order, proposal, opened.view()));
    Some(CompletionResponse::Array(items.collect()))
}

fn write_item(order: usize, proposal: Proposal, view: TextView<'_>) -> CompletionItem {
    let kind = match proposal.kind {
        ProposalKind::Key => CompletionItemKind::PROPERTY,
        ProposalKind::Value => CompletionItemKind::ENUM_MEMBER,
        ProposalKind::Skeleton => CompletionItemKind::SNIPPET,
        ProposalKind::Member => CompletionItemKind::FIELD,
        ProposalKind::Name(NameKind::Variable | NameKind::Field) => CompletionItemKind::VARIABLE,
        ProposalKind::Name(NameKind::Function | NameKind::Tool) => CompletionItemKind::FUNCTION,
        ProposalKind::Name(_) => CompletionItemKind::REFERENCE,
    };
    let meaning = MarkupContent { kind: MarkupKind::Markdown, value: proposal.meaning };
    // Editors compare the inserted text with the text that is replaced, quotation marks included.
    let replaced = &view.text[proposal.replaces.start..proposal.replaces.end()];
    let filter = if replaced.starts_with('"') { format!("\"{}\"", proposal.label) } else { proposal.label.clone() };
    let filter = if replaced.starts_with('<') { format!("<{}", proposal.label) } else { filter };
    CompletionItem {
        label: proposal.label,
        kind: Some(kind),
        detail: (!proposal.detail.is_empty()).then_some(proposal.detail),
        documentation: (!meaning.value.is_empty()).then_some(Documentation::MarkupContent(meaning)),
        sort_text: Some(format!("{order:04}")),
        filter_text: Some(filter),
        insert_text_format: Some(match proposal.is_snippet {
            true => InsertTextFormat::SNIPPET,
            false => InsertTextFormat::PLAIN_TEXT,
        }),
        text_edit: Some(CompletionTextEdit::Edit(view.replace(proposal.replaces, &proposal.insert))),
        ..CompletionItem::default()
    }
}

/// The meaning of the text at a position.
pub(super) fn hover(snapshot: &Snapshot, at: &TextDocumentPositionParams) -> Option<Hover> {
    let opened = Opened::find(snapshot, &at.text_document.uri)?;
    let offset = opened.view().find_offset(at.position);
    let meaning = find_meaning(&opened.definition, opened.file()?, offset, &opened.list_known())?;
    let mut value = meaning.text;
    let last = meaning.variable.as_ref().and_then(|name| {
        let run = snapshot.runs.find_last(opened.checked.as_deref()?)?;
        Some(show_value(run.find_value(&name.text)?))
    });
    if let Some(last) = last {
        value.push_str(&format!("\n\nlast value: `{last}`"));
    }
    let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
    Some(Hover { contents, range: Some(opened.view().find_range(meaning.span)) })
}

/// The places where the name at a position gets its meaning.
pub(super) fn find_definition(snapshot: &Snapshot, at: &TextDocumentPositionParams) -> Option<GotoDefinitionResponse> {
    let opened = Opened::find(snapshot, &at.text_document.uri)?;
    if let Some(file) = find_workflow_file(&opened, at.position) {
        return Some(GotoDefinitionResponse::Array(vec![file]));
    }
    let name = opened.find_name(at.position)?;
    let origins = opened.definition.find_origins(name).filter_map(|place| opened.find_location(place));
    let mut locations: Vec<Location> = origins.collect();
    if locations.is_empty() && name.kind == NameKind::Agent {
        locations.extend(find_agent_file(&opened, &name.text));
    }
    Some(GotoDefinitionResponse::Array(locations))
}

/// The file of the workflow that the name or the element at a position calls.
fn find_workflow_file(opened: &Opened<'_>, position: Position) -> Option<Location> {
    let config = opened.checked.as_ref()?.config.clone()?;
    let file = match opened.find_name(position) {
        Some(name) => find_called_file(&config, Path::new(&opened.definition.main().path), name),
        None => find_element_file(&config, &opened.file()?.index, opened.view().find_offset(position)),
    };
    Some(Location::new(opened.find_uri(&file?.display().to_string())?, Range::default()))
}

/// The file of an agent that has a folder of its own.
fn find_agent_file(opened: &Opened<'_>, agent: &str) -> Option<Location> {
    let files = &opened.checked.as_ref()?.files;
    let is_of_agent = |path: &str| Path::new(path).parent().is_some_and(|folder| folder.ends_with(agent));
    let found = files.keys().find(|path| is_of_agent(path))?;
    Some(Location::new(opened.find_uri(found)?, Range::default()))
}

/// All places of the name at a position.
pub(super) fn find_references(
    snapshot: &Snapshot,
    at: &TextDocumentPositionParams,
    with_declarations: bool,
) -> Option<Vec<Location>> {
    let mut opened = Opened::find(snapshot, &at.text_document.uri)?;
    let name = opened.find_name(at.position)?.clone();
    opened.add_neighbours(&name);
    let places = opened.definition.find_places(&name);
    let wanted = places.filter(|place| with_declarations || !place.name.is_origin());
    Some(wanted.filter_map(|place| opened.find_location(place)).collect())
}

/// The places of the name at a position in its own document.
pub(super) fn highlight(snapshot: &Snapshot, at: &TextDocumentPositionParams) -> Option<Vec<DocumentHighlight>> {
    let opened = Opened::find(snapshot, &at.text_document.uri)?;
    let name = opened.find_name(at.position)?;
    let file = opened.file()?;
    let places = opened.definition.find_places(name).filter(|place| place.file == file);
    let view = opened.view();
    Some(places.map(|place| DocumentHighlight { range: view.find_range(place.name.span), kind: None }).collect())
}

/// The name at a position, if it can be renamed.
pub(super) fn prepare_rename(snapshot: &Snapshot, at: &TextDocumentPositionParams) -> Option<PrepareRenameResponse> {
    let opened = Opened::find(snapshot, &at.text_document.uri)?;
    let offset = opened.view().find_offset(at.position);
    let name = find_renamable(&opened.definition, opened.file()?, offset)?;
    let (range, placeholder) = (opened.view().find_range(name.span), name.text.clone());
    Some(PrepareRenameResponse::RangeWithPlaceholder { range, placeholder })
}
