//! The workflows in the folder of an agent, as `check` sees them: its tools.

use std::path::Path;
use std::sync::Arc;

use flowloom_core::plan::Plan;
use flowloom_formats::agent::AvailableFlow;
use flowloom_formats::{agent, compile, flow};

use super::folder;
use super::source::{LoadedDefinition, Loader};
use crate::folders::name_parent;
use crate::tools::descriptor::ToolDescriptor;

/// Maximum number of files of a folder that are read for the check of one agent.
const MAX_READ_FILES: usize = 500;

/// A workflow in the folder of an agent.
pub(super) struct FolderWorkflow {
    /// Its id.
    pub id: String,
    /// The workflow as a tool; `None` if it has errors.
    pub tool: Option<ToolDescriptor>,
    /// Whether an agent is offered it, as far as the file says.
    pub is_available: bool,
}

/// The other definitions in the folder of a file.
pub(super) fn read_workflows(loader: &Loader<'_>, file: &Path) -> Vec<FolderWorkflow> {
    let root = name_parent(file);
    let loader = Loader { format: None, ..*loader };
    let mut found = Vec::new();
    let others = folder::list_files(root).into_iter().filter(|path| path.file_name() != file.file_name());
    for path in &others.take(MAX_READ_FILES).collect::<Vec<_>>() {
        let source = loader.compile(path);
        let is_available = is_available(&source);
        let id = folder::find_definition_id(source.compiled.plan.as_ref(), root, path);
        // One with errors is a workflow all the same, and its problems are reported where it is.
        if source.compiled.plan.is_some() || source.compiled.format.is_some() {
            let tool = source.compiled.plan.map(|plan| ToolDescriptor::new(&id, Arc::new(plan)));
            found.push(FolderWorkflow { id, tool, is_available });
        }
    }
    found
}

/// Whether a file is offered to agents: those that are agents, have errors or are switched off are not.
fn is_available(source: &LoadedDefinition) -> bool {
    let format = source.compiled.format;
    let is_active = || format != Some(flow::FORMAT) || flow::is_text_active(&String::from_utf8_lossy(source.bytes()));
    !source.is_refused() && format != Some(agent::FORMAT) && is_active()
}

/// The plan of an agent with the workflows in its folder as tools; `None` if it has errors.
pub(super) fn compile_with_workflows(
    loader: &Loader<'_>,
    source: &LoadedDefinition,
    workflows: &[FolderWorkflow],
) -> Option<Plan> {
    let available = workflows.iter().filter(|workflow| workflow.is_available);
    let tools = available.filter_map(|workflow| {
        Some(AvailableFlow { id: workflow.id.clone(), declaration: workflow.tool.as_ref()?.declare_for_agents() })
    });
    let mut sources = loader.source_settings(source.available_tools());
    sources.flows = Some(tools.collect());
    compile(source.name(), &sources.with_files(source.files().clone()), Some(agent::FORMAT)).plan
}
