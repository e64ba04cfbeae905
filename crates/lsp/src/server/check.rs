//! Checks a document as `flowloom check` does, with the open documents in the place of their files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::config::error::ConfigError;
use flowloom_app::definitions::found::has_action;
use flowloom_app::definitions::reader::OpenFiles;
use flowloom_app::definitions::source::{LoadedDefinition, Loader};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::json::parse_node;
use flowloom_core::plan::{Format, Plan};
use flowloom_formats::{Sources, StopFlag, blank_comments, compile, guess_broken_format, markdown, recognise_found};

use super::LoadConfig;
use super::documents::Document;
use crate::analysis::json_tree::parse_tolerant;

/// The inputs of a check. Later changes do not affect them.
pub(super) struct CheckJob {
    pub(super) document: Document,
    pub(super) open_files: Arc<OpenFiles>,
    pub(super) load_config: LoadConfig,
    pub(super) stop: StopFlag,
}

/// The result of checking one text of a document.
#[derive(Clone, Default)]
pub(super) struct Checked {
    /// The document's version.
    pub(super) version: i32,
    /// Its format; `None` if it is no definition.
    pub(super) format: Option<Format>,
    /// The problems of the definition and of the files that it includes.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The name of the definition in `diagnostics`.
    pub(super) name: String,
    /// All files that were read, by path.
    pub(super) files: BTreeMap<String, Arc<str>>,
    /// The plan, if there are no errors.
    pub(super) plan: Option<Arc<Plan>>,
    /// The configuration that counts.
    pub(super) config: Option<Arc<Config>>,
}

impl CheckJob {
    /// Checks the document.
    pub(super) fn check(&self) -> Checked {
        let document = &self.document;
        let name = document.path.display().to_string();
        let checked = Checked { version: document.version, name: name.clone(), ..Checked::default() };
        let loaded = (self.load_config)(&document.path);
        let Some(format) = find_format(document, loaded.as_ref().ok()) else {
            return Checked { diagnostics: find_misspelt_key(&name, &document.text), ..checked };
        };
        let format = Some(format);
        let config = match loaded {
            Ok(config) => config,
            Err(error) => {
                let message = error.to_string();
                let own = Diagnostic::new_error(Code::ConfigInvalid, &name, Span::default(), &message);
                let there = self.find_config_problem(&error);
                let files = there.iter().map(|(problem, text)| (problem.file.clone(), text.clone())).collect();
                let diagnostics = std::iter::once(own).chain(there.map(|(problem, _)| problem)).collect();
                return Checked { format, diagnostics, files, ..checked };
            }
        };
        let mut source = self.compile(&config, format);
        let loader = self.loader(&config, format);
        source.add_check_warnings(&loader);
        let rest = source.rest_problem();
        let to_text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into();
        let files = source.files().iter().map(|(path, bytes)| (path.clone(), to_text(bytes))).collect();
        let compiled = source.compiled;
        let diagnostics = compiled.diagnostics.into_iter().chain(rest).collect();
        let (plan, config) = (compiled.plan.map(Arc::new), Some(Arc::new(config)));
        Checked { format, diagnostics, files, plan, config, ..checked }
    }

    /// The problem of a configuration in its own file, with the text of that.
    fn find_config_problem(&self, error: &ConfigError) -> Option<(Diagnostic, Arc<str>)> {
        let (path, position) = error.find_place()?;
        let path = std::path::absolute(path).ok()?;
        let text: Arc<str> = std::fs::read_to_string(&path).unwrap_or_default().into();
        let before = text.split_inclusive('\n').take(position.line.saturating_sub(1)).map(str::len).sum::<usize>();
        let line = text[before..].lines().next().unwrap_or_default();
        let column = line.char_indices().nth(position.column.saturating_sub(1)).map_or(0, |(at, _)| at);
        let span = Span { start: before + column, length: line.len() - column };
        let file = path.display().to_string();
        Some((Diagnostic::new_error(Code::ConfigInvalid, &file, span, error.to_string()), text))
    }

    /// Replaces the text of the document.
    pub(super) fn replace_text(&mut self, text: &str) {
        let text: Arc<str> = text.into();
        Arc::make_mut(&mut self.open_files).insert(self.document.path.clone(), text.clone());
        self.document.text = text;
    }

    fn loader<'a>(&'a self, config: &'a Config, format: Option<Format>) -> Loader<'a> {
        let (stop, open_files) = (Some(&self.stop), Some(&*self.open_files));
        Loader { format, stop, open_files, ..Loader::new(config) }
    }

    fn compile(&self, config: &Config, format: Option<Format>) -> LoadedDefinition {
        self.loader(config, format).compile(&self.document.path)
    }
}

/// The format of a document: the one that its text looks like, or the one that it had. Markdown is a workflow, and not only a
/// page or an included file, if it has an action.
fn find_format(document: &Document, config: Option<&Config>) -> Option<Format> {
    let (path, text) = (&document.path, &*document.text);
    let found = if is_markdown(path) {
        let has_action = match config {
            Some(config) => has_action(text.as_bytes(), config),
            None => markdown::has_action(text, &[], &[]),
        };
        has_action.then_some(markdown::FORMAT)
    } else {
        recognise_found(&path.display().to_string(), text, parse_tolerant(text).as_ref())
    };
    found.or(document.format).or_else(|| guess_format(document))
}

/// The misspelt key for which a text is in no format. Other JSON is not a workflow.
fn find_misspelt_key(name: &str, text: &str) -> Vec<Diagnostic> {
    let files = [(name.to_owned(), text.as_bytes().to_vec())].into();
    let mut compiled = compile(name, &Sources { files, source_bytes: text.len() as u64, ..Sources::default() }, None);
    compiled.diagnostics.retain(|problem| problem.code == Code::MissingKey && problem.fix.is_some());
    compiled.diagnostics
}

/// The format that broken JSON probably has. Other broken JSON is not a definition.
fn guess_format(document: &Document) -> Option<Format> {
    let text = &*document.text;
    let is_broken = || !is_markdown(&document.path) && parse_node(&blank_comments(text)).is_err();
    guess_broken_format(text).filter(|_| is_broken())
}

/// Whether a file is Markdown by its name.
pub(super) fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("md") || end.eq_ignore_ascii_case("mdx"))
}
