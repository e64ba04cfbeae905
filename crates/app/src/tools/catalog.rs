//! The tool catalog: which workflows a user can call as tools, and under which names.

use std::sync::Arc;

use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::plan::Format;
use flowloom_formats::flow;

use super::offer::Offer;
use crate::definitions::catalog::{Catalog, Definition};

/// What `holder` can call, in the order of the ids: every definition without errors, but for flows that are switched off.
/// Two may have the same name; see [`distinct`]. Reads the folder.
pub fn offers(catalog: &Catalog, holder: &str) -> Result<Vec<Offer>, StepError> {
    Ok(definitions(catalog, holder)?.iter().filter_map(|definition| offer(definition)).collect())
}

/// The definitions that are offered.
pub fn definitions(catalog: &Catalog, holder: &str) -> Result<Vec<Arc<Definition>>, StepError> {
    let mut found = Vec::new();
    for definition in catalog.list(holder)? {
        if !definition.is_refused && is_active(catalog, &definition)? {
            found.push(definition);
        }
    }
    Ok(found)
}

/// A definition as a tool; `None` if it has errors.
pub fn offer(definition: &Definition) -> Option<Offer> {
    let prepared = definition.prepared.as_ref().filter(|_| !definition.is_refused)?;
    Some(Offer::of(&definition.id, prepared.plan.clone()))
}

/// Whether agents are to be offered a definition: flows can be switched off.
fn is_active(catalog: &Catalog, definition: &Definition) -> Result<bool, StepError> {
    if definition.format != Format::Flow {
        return Ok(true);
    }
    let content = catalog.content(definition)?;
    Ok(parse_value(content.main()).is_ok_and(|stored| flow::is_active(&stored)))
}
