//! A definition of the catalog.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use flowloom_core::plan::Format;
use flowloom_store::DefinitionRow;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::catalog::Catalog;
use super::folder::ModificationTimes;
use crate::definitions::stored::{self, Dependency};
use crate::error::AppError;
use crate::runs::start::PreparedDefinition;

/// A definition of the catalog.
pub struct CatalogEntry {
    /// Its id.
    pub id: String,
    /// The definition's format.
    pub format: Format,
    pub(crate) location: DefinitionLocation,
    /// Diagnostics of `check`, as JSON.
    pub problems: Vec<serde_json::Value>,
    /// Whether it has an error and therefore cannot be run.
    pub is_refused: bool,
    /// Whether it may be there only to be included.
    pub(super) is_text: bool,
    /// The compiled definition; `None` if it has errors.
    pub prepared: Option<Arc<PreparedDefinition>>,
    /// MCP servers whose tools it offers to models.
    pub(super) required_servers: Vec<String>,
    /// Like `prepared`, but with the tools that those servers reported.
    pub(super) prepared_with_tools: OnceCell<Arc<PreparedDefinition>>,
    /// When its file was last found unchanged.
    pub(super) last_checked: Mutex<Option<Instant>>,
}

/// Location of a definition.
pub(crate) enum DefinitionLocation {
    /// A file of the served folder.
    File {
        /// Path relative to the folder.
        file: String,
        changed: ModificationTimes,
    },
    /// A stored definition, with its dependencies and the modification times of files that the configuration names.
    Stored { row: DefinitionRow, parts: Vec<Dependency>, changed: ModificationTimes },
}

impl DefinitionLocation {
    /// Adds files after whose change the definition is to be compiled again.
    pub(super) fn depend_on(&mut self, files: ModificationTimes) {
        match self {
            DefinitionLocation::File { changed, .. } | DefinitionLocation::Stored { changed, .. } => {
                changed.extend(files);
            }
        }
    }

    /// The modification times of the files that it was read from.
    pub(super) fn modification_times(&self) -> &ModificationTimes {
        match self {
            DefinitionLocation::File { changed, .. } | DefinitionLocation::Stored { changed, .. } => changed,
        }
    }

    /// The tenant who stored or sent it; `None` if it is the operator's own.
    pub(super) fn find_tenant(&self) -> Option<String> {
        match self {
            DefinitionLocation::File { .. } => None,
            DefinitionLocation::Stored { row, .. } => stored::find_tenant(row),
        }
    }
}

impl CatalogEntry {
    /// The definition prepared for a run of a user; `None` if it has errors. Queries MCP servers for their tools on
    /// first use. Agents get the workflows that are currently available. Fails if an MCP server cannot be queried, or
    /// if an engine cannot be built from the settings.
    pub async fn prepare_for_run(
        &self,
        catalog: &Arc<Catalog>,
        user: &str,
    ) -> Result<Option<Arc<PreparedDefinition>>, AppError> {
        let Some(prepared) = &self.prepared else { return Ok(None) };
        if self.format == flowloom_formats::agent::FORMAT {
            return catalog.prepare_agent(self, prepared, user).await.map(Some);
        }
        if self.required_servers.is_empty() {
            return Ok(Some(prepared.clone()));
        }
        let with_tools = self.prepared_with_tools.get_or_try_init(async || {
            let available = catalog.query_tools(&self.required_servers).await?;
            catalog.prepare_with_tools(self, prepared, available).map(Arc::new)
        });
        with_tools.await.cloned().map(Some)
    }

    /// Path of its file relative to the served folder; `None` if it is stored.
    pub fn file_path(&self) -> Option<&str> {
        match &self.location {
            DefinitionLocation::File { file, .. } => Some(file),
            DefinitionLocation::Stored { .. } => None,
        }
    }

    /// When its file was last changed, in milliseconds since the Unix epoch; `None` if it is stored.
    pub fn changed_at(&self) -> Option<u64> {
        let DefinitionLocation::File { file, changed } = &self.location else { return None };
        let (_, at) = changed.iter().find(|(path, _)| path.ends_with(file))?;
        let since = at.as_ref()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }

    /// Its row in the store; `None` if it is a file.
    pub fn stored_row(&self) -> Option<&DefinitionRow> {
        match &self.location {
            DefinitionLocation::File { .. } => None,
            DefinitionLocation::Stored { row, .. } => Some(row),
        }
    }
}
