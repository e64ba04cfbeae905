//! The documents that are open in the editor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flowloom_app::definitions::reader::OpenFiles;
use flowloom_core::plan::Format;
use lsp_types::{TextDocumentContentChangeEvent, TextDocumentItem, Url};

use super::check::Checked;
use super::convert::to_place;
use crate::analysis::lines::{ColumnUnit, Lines};

/// An open document. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Document {
    /// Its address, as the editor writes it.
    pub(super) uri: Url,
    /// Its file.
    pub(super) path: PathBuf,
    /// The editor's number of this text.
    pub(super) version: i32,
    pub(super) text: Arc<str>,
    pub(super) lines: Arc<Lines>,
    /// The format of the last text that had one: while people write, a text often has none for a moment.
    pub(super) format: Option<Format>,
    /// The result for the text with which it was opened, for requests that arrive before the check has ended.
    pub(super) first_result: Arc<OnceLock<Arc<Checked>>>,
}

impl Document {
    /// Changes the text as the editor has done it, one change after another.
    fn apply_changes(&mut self, changes: Vec<TextDocumentContentChangeEvent>, unit: ColumnUnit) {
        let (mut text, mut lines) = (self.text.to_string(), Lines::clone(&self.lines));
        for change in changes {
            let Some(range) = change.range else {
                (lines, text) = (Lines::new(&change.text), change.text);
                continue;
            };
            let start = lines.find_offset(&text, to_place(range.start), unit);
            let end = lines.find_offset(&text, to_place(range.end), unit).max(start);
            text.replace_range(start..end, &change.text);
            lines.replace_range(start..end, &change.text);
        }
        self.lines = Arc::new(lines);
        self.text = text.into();
    }
}

/// The open documents. Cloning is cheap.
#[derive(Clone, Default)]
pub(super) struct Documents {
    by_uri: Arc<BTreeMap<Url, Document>>,
    open_files: Arc<OpenFiles>,
}

impl Documents {
    /// Adds a document; `false` if it is neither a file nor a text that has not been saved yet.
    pub(super) fn open(&mut self, item: TextDocumentItem) -> bool {
        let Some(path) = find_document_path(&item) else { return false };
        let lines = Arc::new(Lines::new(&item.text));
        let (uri, version, text) = (item.uri, item.version, item.text.into());
        self.put(Document { uri, path, version, text, lines, format: None, first_result: Arc::default() });
        true
    }

    /// Changes a document; `false` if it is not open.
    pub(super) fn change(
        &mut self,
        uri: &Url,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        unit: ColumnUnit,
    ) -> bool {
        let Some(mut document) = self.find(uri).cloned() else { return false };
        document.version = version;
        document.apply_changes(changes, unit);
        self.put(document);
        true
    }

    /// Removes a document; its file counts again.
    pub(super) fn close(&mut self, uri: &Url) {
        if let Some(document) = Arc::make_mut(&mut self.by_uri).remove(uri) {
            Arc::make_mut(&mut self.open_files).remove(&document.path);
        }
    }

    /// Notes the format of a document.
    pub(super) fn set_format(&mut self, uri: &Url, format: Option<Format>) {
        if let Some(document) = Arc::make_mut(&mut self.by_uri).get_mut(uri) {
            document.format = format;
        }
    }

    pub(super) fn find(&self, uri: &Url) -> Option<&Document> {
        self.by_uri.get(uri)
    }

    /// The document of a file.
    pub(super) fn find_by_path(&self, path: &Path) -> Option<&Document> {
        self.by_uri.values().find(|document| document.path == path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Document> {
        self.by_uri.values()
    }

    /// The texts by file.
    pub(super) fn open_files(&self) -> &Arc<OpenFiles> {
        &self.open_files
    }

    fn put(&mut self, document: Document) {
        Arc::make_mut(&mut self.open_files).insert(document.path.clone(), document.text.clone());
        Arc::make_mut(&mut self.by_uri).insert(document.uri.clone(), document);
    }
}

/// The file of a document. A text that has not been saved yet counts as a file of the current folder.
fn find_document_path(item: &TextDocumentItem) -> Option<PathBuf> {
    match item.uri.scheme() {
        "file" => return item.uri.to_file_path().ok(),
        "untitled" => {}
        // A version of a file in a repository, for example, is not that file.
        _ => return None,
    }
    let mut path = std::env::current_dir().ok()?.join(item.uri.path());
    if path.extension().is_none() {
        path.set_extension(match item.language_id.as_str() {
            "json" => "json",
            "jsonc" => "jsonc",
            _ => "mdx",
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsp_types::{Position, Range};

    #[test]
    fn a_text_that_was_never_saved_is_a_document() {
        let mut documents = Documents::default();
        let mut open = |uri: &str, language: &str| {
            let uri = Url::parse(uri).expect("an address");
            documents.open(TextDocumentItem::new(uri.clone(), language.into(), 1, "{}".into()));
            documents.find(&uri).map(|document| document.path.clone())
        };
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(open("untitled:Untitled-1", "json"), Some(here.join("Untitled-1.json")));
        assert_eq!(open("untitled:Untitled-2", "markdown"), Some(here.join("Untitled-2.mdx")));
        assert_eq!(open("untitled:/flows/new.json", "json"), Some(PathBuf::from("/flows/new.json")));
        assert_eq!(open("git:/flows/new.json", "json"), None);
    }

    #[test]
    fn changes_are_applied_in_their_order() {
        let uri = Url::parse("file:///f.json").expect("an address");
        let mut documents = Documents::default();
        documents.open(TextDocumentItem::new(uri.clone(), "json".into(), 1, "{\n  \"é😀\": 1\n}".into()));
        let change = |line, start, end, text: &str| TextDocumentContentChangeEvent {
            range: Some(Range::new(Position::new(line, start), Position::new(line, end))),
            range_length: None,
            text: text.into(),
        };
        let changes = vec![change(1, 4, 6, "x"), change(1, 3, 4, "ab"), change(2, 1, 1, "\n")];
        assert!(documents.change(&uri, 2, changes, ColumnUnit::Utf16));
        let document = documents.find(&uri).expect("open");
        assert_eq!(&*document.text, "{\n  \"abx\": 1\n}\n");
        assert_eq!(document.version, 2);
        assert_eq!(documents.open_files().values().next(), Some(&document.text));
    }
}
