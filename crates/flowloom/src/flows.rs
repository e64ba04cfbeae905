//! Workflows as tools of agents: which ones an agent is offered, kept with its run, so that a run that goes on later calls
//! what it was offered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_formats::agent::OfferedFlow;
use flowloom_formats::flow;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::bundle::Bundle;
use crate::mcp::Offered;
use crate::offers;
use crate::server::catalog::{Catalog, Definition};
use crate::source::{self, Reading, Source};

/// The workflows that an agent is offered, by id.
pub(crate) type Flows = BTreeMap<String, Flow>;

/// A workflow that an agent is offered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// As the model sees it.
    declaration: ToolDeclaration,
    /// What its runs are made of.
    pub(crate) bundle: Bundle,
}

/// Workflows as definitions are compiled with them.
pub(crate) fn described(flows: &Flows) -> Vec<OfferedFlow> {
    let flow = |(id, flow): (&String, &Flow)| OfferedFlow { id: id.clone(), declaration: flow.declaration.clone() };
    flows.iter().map(flow).collect()
}

/// What an agent of `holder` is offered now: every workflow that others are offered, but for agents.
pub(crate) async fn offered(catalog: &Arc<Catalog>, holder: &str) -> Result<Flows, StepError> {
    let (shared, whose) = (catalog.clone(), holder.to_owned());
    let listed = tokio::task::spawn_blocking(move || offers::definitions(&shared, &whose)).await;
    let mut flows = Flows::new();
    for definition in listed.map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))?? {
        if definition.format != flowloom_formats::agent::FORMAT
            && let Some(flow) = Box::pin(offer(catalog, &definition, holder)).await?
        {
            flows.insert(definition.id.clone(), flow);
        }
    }
    Ok(flows)
}

async fn offer(catalog: &Arc<Catalog>, definition: &Definition, holder: &str) -> Result<Option<Flow>, StepError> {
    let (Some(offer), Some(prepared)) = (offers::offer(definition), definition.ready(catalog, holder).await?) else {
        return Ok(None);
    };
    // A flow is declared to agents as its own system declares it.
    let declaration = match definition.format {
        flow::FORMAT => flow::tool(&prepared.plan, &definition.id),
        _ => offer.declaration,
    };
    Ok(Some(Flow { declaration, bundle: prepared.bundle()? }))
}

/// An agent as it is to be run: with the workflows that lie in its folder, and those that are kept for `holder`. Anything
/// else stays as it is.
pub(crate) async fn complete(
    app: &Arc<App>,
    (path, lenient): (&Path, bool),
    source: Source,
    holder: &str,
) -> Result<Source, StepError> {
    if source.compiled.format != Some(flowloom_formats::agent::FORMAT) {
        return Ok(source);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let catalog = Arc::new(Catalog::new(folder.to_owned(), app.clone()));
    let flows = Some(offered(&catalog, holder).await?);
    let reading = Reading { config: &app.config, format: Some(flowloom_formats::agent::FORMAT), lenient };
    Ok(source::load_with(path, &reading, Offered { flows, ..source.offered }))
}
