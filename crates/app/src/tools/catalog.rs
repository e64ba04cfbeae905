//! The tool catalog: which workflows a user can call as tools, and under which names.

use std::sync::Arc;

use flowloom_formats::flow;

use super::descriptor::ToolDescriptor;
use crate::definitions::catalog::{Catalog, CatalogEntry};
use crate::error::AppError;

/// The tools available to a user, sorted by id: every definition without errors, except flows that are switched off.
/// Names are not made unique here. Reads the folder. Fails if the store cannot be read.
pub fn list_tools(catalog: &Catalog, user: &str) -> Result<Vec<ToolDescriptor>, AppError> {
    Ok(list_definitions(catalog, user)?.iter().filter_map(|definition| build_tool(definition)).collect())
}

/// The definitions behind the tools. Fails if the store cannot be read.
pub fn list_definitions(catalog: &Catalog, user: &str) -> Result<Vec<Arc<CatalogEntry>>, AppError> {
    let mut found = Vec::new();
    for definition in catalog.list_definitions(user)? {
        if !definition.is_refused && is_active(catalog, &definition)? {
            found.push(definition);
        }
    }
    Ok(found)
}

/// The tool of a definition; `None` if the definition has errors.
pub fn build_tool(definition: &CatalogEntry) -> Option<ToolDescriptor> {
    let prepared = definition.prepared.as_ref().filter(|_| !definition.is_refused)?;
    Some(ToolDescriptor::new(&definition.id, prepared.plan.clone()))
}

/// Whether a definition is available to agents: flows can be switched off.
fn is_active(catalog: &Catalog, definition: &CatalogEntry) -> Result<bool, AppError> {
    if definition.format != flow::FORMAT {
        return Ok(true);
    }
    let content = catalog.read_content(definition)?;
    Ok(flow::is_text_active(content.entry_text()))
}
