//! The warnings of `check`: those about tools of an agent that nothing declares, and the others.

use std::collections::HashSet;
use std::path::Path;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span, find_similar_name};
use flowloom_core::json::{Node, parse_node};
use flowloom_core::plan::{Composite, Plan, StepKind};
use flowloom_formats::{agent, graph};
use flowloom_store::{DATABASE_FILE, DefinitionKind, Store};

use super::agent_folder::{FolderWorkflow, read_workflows};
use super::bundle::AvailableTools;
use super::source::{LoadedDefinition, Loader};
use crate::config::Config;
use crate::wiring::build_default_models;

impl LoadedDefinition {
    /// Adds the warnings that `check` gives besides the problems of compiling, and errors of the configuration. Reads the folder
    /// of an agent.
    pub fn add_check_warnings(&mut self, loader: &Loader<'_>) {
        self.add_function_errors(loader.config);
        self.add_secret_warnings(loader.config, None);
        match self.compiled.format == Some(agent::FORMAT) {
            true => self.add_agent_warnings(loader),
            false => self.add_injection_warnings(loader.config),
        }
        let models = build_default_models(loader.config);
        if let Some(worst) = self.bound_worst_case(loader.config, &models) {
            self.warn_about_cost(loader.config, &worst);
        }
        self.warn_about_models(&models);
    }

    fn add_agent_warnings(&mut self, loader: &Loader<'_>) {
        let tree = parse_node(&String::from_utf8_lossy(self.bytes())).map(|(tree, _)| tree).ok();
        let named = tree.as_ref().map(|tree| find_named_tools(loader, self, tree)).unwrap_or_default();
        // An agent that lists no tools has all workflows.
        if named.is_empty() && tree.is_some_and(|tree| tree.get("tools").is_some()) {
            return self.add_injection_warnings(loader.config);
        }
        let workflows = read_workflows(loader, Path::new(self.name()));
        let warnings = check_tools(loader, self, &named, &workflows);
        self.compiled.diagnostics.extend(warnings);
        self.add_agent_injection_warnings(loader, &workflows);
    }
}

fn check_tools(
    loader: &Loader<'_>,
    source: &LoadedDefinition,
    named: &[(String, Span)],
    workflows: &[FolderWorkflow],
) -> Vec<Diagnostic> {
    let known = list_names(workflows);
    let is_known = |name: &str| {
        let plain = name.strip_prefix("@@").unwrap_or(name);
        [Some(plain), plain.strip_prefix("flow_")].into_iter().flatten().any(|name| known.iter().any(|one| one == name))
    };
    let unknown: Vec<&(String, Span)> = named.iter().filter(|(name, _)| !is_known(name)).collect();
    // A workflow that is stored in the database is found when the agent runs.
    let may_be_stored = !unknown.is_empty() && has_stored_workflows(loader.config);
    unknown.iter().map(|(name, span)| unknown_tool(source, name, *span, &known, may_be_stored)).collect()
}

fn unknown_tool(
    source: &LoadedDefinition,
    name: &str,
    span: Span,
    known: &[String],
    may_be_stored: bool,
) -> Diagnostic {
    let message = format!("there is no tool or workflow {name} in this folder");
    let similar = find_similar_name(name, known.iter().map(String::as_str));
    let mut diagnostic = match may_be_stored {
        true => {
            let help = "a workflow that is stored in the database is found when the agent runs".to_owned();
            Diagnostic::new_warning(Code::UnknownTool, source.name(), span, message).with_help(help)
        }
        false => {
            let help = format!("write the workflow {name}, or a tool record in {}{name}.json", graph::TOOLS_FOLDER);
            Diagnostic::new_error(Code::UnknownTool, source.name(), span, message).with_help(help)
        }
    };
    if let Some(meant) = similar {
        diagnostic.suggest_text(&format!("{meant:?}"));
    }
    diagnostic
}

/// Whether the data of the project has workflows. Creates no data folder.
fn has_stored_workflows(config: &Config) -> bool {
    if config.database.value.is_none() && !config.data_dir.value.join(DATABASE_FILE).is_file() {
        return false;
    }
    let stored =
        Store::open_with(&config.store_settings()).and_then(|store| store.list_owners(DefinitionKind::Workflow, None));
    // A database that cannot be read may have any.
    stored.map_or(true, |owners| !owners.is_empty())
}

/// The names in `tools` that can only be those of workflows.
fn find_named_tools(loader: &Loader<'_>, source: &LoadedDefinition, tree: &Node) -> Vec<(String, Span)> {
    let none = AvailableTools::default();
    let sources = loader.source_settings(&none).with_files(source.files().clone());
    let is_record = |name: &str| {
        let file = Path::new(source.name()).with_file_name(graph::TOOLS_FOLDER).join(format!("{name}.json"));
        source.files().contains_key(&file.display().to_string())
    };
    let items = tree.get("tools").and_then(Node::items).unwrap_or_default();
    let approvals = tree.get("needsApproval").and_then(Node::items).unwrap_or_default();
    let own = source.compiled.plan.as_ref().map(list_tool_names).unwrap_or_default();
    let approvals = approvals.iter().filter(|item| item.as_str().is_some_and(|name| !own.contains(name)));
    let names = items.iter().chain(approvals).filter_map(|item| Some((item.as_str()?.to_owned(), item.span)));
    let is_workflow = |name: &str| {
        !name.contains("::") && !sources.functions.iter().any(|function| function == name) && !is_record(name)
    };
    names.filter(|(name, _)| is_workflow(name)).collect()
}

/// The names of the tools that an agent has without the workflows in its folder.
fn list_tool_names(plan: &Plan) -> HashSet<String> {
    let mut names = HashSet::new();
    plan.root.visit(&mut |step| {
        if let StepKind::Composite(Composite::Agent(agent)) = &step.kind {
            names.extend(agent.tools.iter().map(|tool| tool.declaration.name.clone()));
        }
    });
    names
}

/// The ids and the tool names of workflows.
fn list_names(workflows: &[FolderWorkflow]) -> Vec<String> {
    let tools = workflows.iter().filter_map(|workflow| workflow.tool.as_ref());
    let names = tools.map(|tool| tool.declaration.name.clone());
    workflows.iter().map(|workflow| workflow.id.clone()).chain(names).collect()
}
