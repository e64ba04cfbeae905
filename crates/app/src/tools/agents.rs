//! Workflows as tools of agents: which ones an agent is offered, kept with its run, so that a run that goes on later calls
//! what it was offered.

use std::path::Path;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::plan::Format;
use flowloom_formats::flow;

use crate::definitions::bundle::{Flow, Flows, Offered};
use crate::definitions::catalog::{Catalog, Definition};
use crate::definitions::source::{Loader, Source};
use crate::engines::App;
use crate::tools::catalog;

/// What an agent of `holder` is offered now: every workflow that others are offered, but for agents.
pub async fn offered(catalog: &Arc<Catalog>, holder: &str) -> Result<Flows, StepError> {
    let (shared, whose) = (catalog.clone(), holder.to_owned());
    let listed = tokio::task::spawn_blocking(move || catalog::definitions(&shared, &whose)).await;
    let mut flows = Flows::new();
    for definition in listed.map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))?? {
        if definition.format != Format::Agent
            && let Some(flow) = Box::pin(offer(catalog, &definition, holder)).await?
        {
            flows.insert(definition.id.clone(), flow);
        }
    }
    Ok(flows)
}

async fn offer(catalog: &Arc<Catalog>, definition: &Definition, holder: &str) -> Result<Option<Flow>, StepError> {
    let (Some(offer), Some(prepared)) = (catalog::offer(definition), definition.ready(catalog, holder).await?) else {
        return Ok(None);
    };
    // A flow is declared to agents as its own system declares it.
    let declaration = match definition.format {
        Format::Flow => flow::tool(&prepared.plan, &definition.id),
        _ => offer.declaration,
    };
    Ok(Some(Flow { declaration, bundle: prepared.bundle()? }))
}

/// An agent as it is to be run: with the workflows that lie in its folder, and those that are kept for `holder`. Anything
/// else stays as it is.
pub async fn complete(
    app: &Arc<App>,
    path: &Path,
    lenient: bool,
    source: Source,
    holder: &str,
) -> Result<Source, StepError> {
    if source.compiled.format != Some(Format::Agent) {
        return Ok(source);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let catalog = Arc::new(Catalog::new(folder.to_owned(), app.clone()));
    let flows = Some(offered(&catalog, holder).await?);
    let loader = Loader { config: &app.config, format: Some(Format::Agent), lenient };
    let offered = Offered { flows, ..source.offered().clone() };
    Ok(source.with_tools(offered).compile(&loader))
}
