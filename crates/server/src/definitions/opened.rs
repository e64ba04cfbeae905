//! A definition that a caller is writing: its files, compiled and indexed, without being stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::nameable::NameableThings;
use flowloom_app::definitions::source::{Loader, parse_format};
use flowloom_app::definitions::stored::{self, CompiledDefinition, DefinitionContent};
use flowloom_app::error::AppError;
use flowloom_core::code::Code;
use flowloom_core::plan::Format;
use flowloom_formats::{StopFlag, markdown, recognise};
use flowloom_lsp::analysis::definition::{Definition, IndexedFile};
use flowloom_lsp::analysis::json_tree::parse_tolerant;
use flowloom_lsp::analysis::known::Known;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::problem::{ApiResult, Problem};

/// The files of a definition that is being written.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenSource {
    /// The path of the definition among the files.
    entry: String,
    /// The files, by path.
    files: BTreeMap<String, String>,
    /// The format, for a text that does not look like one yet; detected otherwise.
    #[serde(default)]
    format: Option<String>,
}

/// A definition that is being written.
pub(crate) struct OpenDefinition {
    /// The files.
    pub(crate) content: DefinitionContent,
    /// The format that the text looks like, or else the one that the caller named.
    pub(crate) format: Option<Format>,
}

impl OpenSource {
    /// The definition. Fails with `RequestInvalid`.
    pub(crate) fn open(self) -> ApiResult<OpenDefinition> {
        let named = parse_format(self.format.as_deref())
            .map_err(|error| Problem::new(Code::RequestInvalid, error.to_string()))?;
        let content = DefinitionContent { entry: self.entry, files: self.files, format: None };
        content.validate()?;
        let text = content.entry_text();
        let is_markdown = named == Some(markdown::FORMAT);
        let tree = if is_markdown { None } else { parse_tolerant(text) };
        let format = recognise(&content.entry, text, tree.as_ref()).or(named);
        Ok(OpenDefinition { content, format })
    }
}

impl OpenDefinition {
    /// The text of the entry file.
    pub(crate) fn text(&self) -> &str {
        self.content.entry_text()
    }

    /// The index of all files; `None` if the format is not known. Fails with `RequestInvalid` if a file is larger than a
    /// definition may be, and with `CompileStopped`.
    pub(crate) fn build_index(&self, max_bytes: u64, stop: &StopFlag) -> ApiResult<Option<Definition>> {
        if let Some((path, _)) = self.content.files.iter().find(|(_, text)| text.len() as u64 > max_bytes) {
            let message = format!("{path} has more than {max_bytes} bytes (limits.source_bytes)");
            return Err(Problem::new(Code::RequestInvalid, message));
        }
        let Some(format) = self.format else { return Ok(None) };
        let files: BTreeMap<String, Arc<str>> =
            self.content.files.iter().map(|(path, text)| (path.clone(), text.as_str().into())).collect();
        let definition = Definition::new(&self.content.entry, self.text().into(), format, files.iter());
        check_time(stop)?;
        Ok(Some(definition))
    }

    /// Compiles it for a user. Fails if the store cannot be read.
    pub(crate) fn compile(
        &self,
        catalog: &Catalog,
        user: &str,
        stop: &StopFlag,
    ) -> Result<CompiledDefinition, AppError> {
        let loader = Loader { stop: Some(stop), format: self.format, ..catalog.new_loader() };
        stored::compile_for_user(catalog.store(), &loader, user, &self.content)
    }
}

/// Fails with `CompileStopped` if the time for a definition is over, or no client waits any more.
pub(crate) fn check_time(stop: &StopFlag) -> ApiResult<()> {
    match stop.is_stopped() {
        true => Err(Problem::new(Code::CompileStopped, "reading and changing this definition took too long")),
        false => Ok(()),
    }
}

/// A file of a definition, by its path, or the entry.
pub(crate) fn find_file<'d>(definition: &'d Definition, path: Option<&str>) -> ApiResult<&'d IndexedFile> {
    match path {
        None => Ok(definition.main()),
        Some(path) => definition
            .find_file(path)
            .ok_or_else(|| Problem::new(Code::RequestInvalid, format!("{path} is not a file of the definition"))),
    }
}

/// The names that a definition of a user can use. Fails if the store cannot be read.
pub(crate) fn list_known(catalog: &Catalog, user: &str) -> Result<Known, AppError> {
    let workflows = catalog.list_definitions(user)?.iter().map(|entry| entry.id.clone()).collect();
    Ok(NameableThings::of_user(catalog.store(), catalog.config(), user, workflows)?.into())
}
