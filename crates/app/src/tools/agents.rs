//! Workflows as tools of agents. The available workflows are stored with the agent's run, so a resumed run calls the
//! same versions.

use std::path::Path;
use std::sync::Arc;

use crate::definitions::bundle::{AvailableTools, WorkflowTool, WorkflowTools};
use crate::definitions::catalog::{Catalog, CatalogEntry};
use crate::definitions::catalog_parts::CatalogParts;
use crate::definitions::source::{LoadedDefinition, Loader};
use crate::error::AppError;
use crate::folders::name_parent;
use crate::tools::catalog;

/// The prefix with which AnythingLLM users address the agent.
const AGENT_MENTION: &str = "@agent";

/// The message used if the prefix is not followed by any text.
const DEFAULT_MESSAGE: &str = "Hello!";

/// The message to an agent without its mention.
pub fn strip_mention(message: &str) -> &str {
    let rest = message.trim().strip_prefix(AGENT_MENTION).unwrap_or(message).trim();
    if rest.is_empty() { DEFAULT_MESSAGE } else { rest }
}

/// The workflows currently available to an agent of a user: every workflow in the tool catalog except agents. Fails if
/// the store cannot be read, or if an MCP server that one of them needs cannot be queried.
pub async fn load_available(catalog: &Arc<Catalog>, user: &str) -> Result<WorkflowTools, AppError> {
    let (shared, whose) = (catalog.clone(), user.to_owned());
    let listed = tokio::task::spawn_blocking(move || catalog::list_definitions(&shared, &whose)).await;
    let mut flows = WorkflowTools::new();
    for definition in listed?? {
        if definition.format != flowloom_formats::agent::FORMAT
            && let Some(flow) = Box::pin(build_tool(catalog, &definition, user)).await?
        {
            flows.insert(definition.id.clone(), flow);
        }
    }
    Ok(flows)
}

async fn build_tool(
    catalog: &Arc<Catalog>,
    definition: &CatalogEntry,
    user: &str,
) -> Result<Option<WorkflowTool>, AppError> {
    let (Some(descriptor), Some(prepared)) =
        (catalog::build_tool(definition), definition.prepare_for_run(catalog, user).await?)
    else {
        return Ok(None);
    };
    Ok(Some(WorkflowTool { declaration: descriptor.declare_for_agents(), bundle: prepared.parse_bundle()? }))
}

/// Recompiles an agent with the workflows in its folder and the user's stored ones as tools. Other definitions are
/// returned unchanged. Fails like [`load_available`].
pub async fn attach_workflows(
    parts: &CatalogParts,
    path: &Path,
    lenient: bool,
    source: LoadedDefinition,
    user: &str,
) -> Result<LoadedDefinition, AppError> {
    let folder = name_parent(path);
    attach_listed(&Arc::new(Catalog::new(folder.to_owned(), parts.clone())), lenient, source, user).await
}

/// Recompiles an agent with the workflows of a catalog as tools. Other definitions are returned unchanged. Fails like
/// [`load_available`].
pub async fn attach_listed(
    catalog: &Arc<Catalog>,
    lenient: bool,
    source: LoadedDefinition,
    user: &str,
) -> Result<LoadedDefinition, AppError> {
    if source.compiled.format != Some(flowloom_formats::agent::FORMAT) || source.is_refused() {
        return Ok(source);
    }
    let flows = Some(load_available(catalog, user).await?);
    let format = Some(flowloom_formats::agent::FORMAT);
    let loader = Loader { format, lenient, ..Loader::new(catalog.config()) };
    let available = AvailableTools { flows, ..source.available_tools().clone() };
    Ok(source.with_tools(available).compile(&loader))
}
