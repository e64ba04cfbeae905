//! The workflows that the functions of a definition run, which belong to what the definition means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use flowloom_core::plan::{Plan, list_called_functions};
use serde::Serialize;

use super::definitions::{DefinitionDiff, compare_plans, find_active};
use crate::config::Config;
use crate::definitions::bundle::{Bundle, compile_bundle};
use crate::definitions::function_files::FunctionFiles;
use crate::definitions::source::LoadedDefinition;
use crate::runs::stored::LoadedRun;
use crate::tools::workflows::CalledWorkflow;

/// A definition to compare, with the workflows that its functions run.
pub struct ComparedDefinition {
    /// Its plan.
    pub plan: Plan,
    /// Its file.
    pub file: String,
    /// Whether agents may call it, if its format has a switch for that.
    pub(super) is_active: Option<bool>,
    /// The workflows by the function that runs them; `None` for a function that runs none.
    called: BTreeMap<Arc<str>, Option<CalledPlan>>,
}

/// The workflow of a function.
struct CalledPlan {
    file: String,
    plan: Arc<Plan>,
}

/// A workflow of a function that both definitions call, and that differs.
#[derive(Debug, Serialize)]
pub struct WorkflowChange {
    /// The function.
    pub function: String,
    /// The file of its workflow in the first definition; `None` if it runs no workflow there.
    pub a: Option<String>,
    /// The file of its workflow in the second definition; `None` if it runs no workflow there.
    pub b: Option<String>,
    /// The differences in it, if both definitions have it.
    pub diff: Option<DefinitionDiff>,
}

impl ComparedDefinition {
    /// A definition that was loaded; `None` if it has errors. Its functions are those of the configuration.
    pub fn of_source(config: &Config, source: &LoadedDefinition) -> Option<ComparedDefinition> {
        let plan = source.compiled.plan.clone()?;
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut files: BTreeMap<String, String> =
            source.files().iter().map(|(path, bytes)| (path.clone(), text(bytes))).collect();
        files.extend(FunctionFiles::default().read_all(config, &config.functions));
        let settings = Bundle::from_config(config).with_tools(source.available_tools());
        let bundle = Bundle { entry: source.name().to_owned(), format: plan.format, files, ..settings };
        Some(ComparedDefinition::new(plan, &bundle))
    }

    /// Removes the names of two definitions that are those of their files, if they differ: a definition may have none, and a
    /// copy in another file means the same.
    pub fn forget_file_names(a: &mut ComparedDefinition, b: &mut ComparedDefinition) {
        if a.plan.name != b.plan.name {
            a.forget_file_name();
            b.forget_file_name();
        }
    }

    fn forget_file_name(&mut self) {
        let file = Path::new(&self.file);
        if [file.file_name(), file.file_stem()].into_iter().flatten().any(|name| *name == *self.plan.name) {
            self.plan.name = String::default();
        }
    }

    /// The definition of a run.
    pub fn of_run(opened: &LoadedRun) -> ComparedDefinition {
        ComparedDefinition::new((*opened.plan).clone(), opened.bundle())
    }

    fn new(plan: Plan, bundle: &Bundle) -> ComparedDefinition {
        let mut called = BTreeMap::new();
        add_called(&plan, bundle, &mut called);
        let text = bundle.files.get(&bundle.entry);
        let is_active = text.and_then(|text| find_active(plan.format, text.as_bytes()));
        ComparedDefinition { plan, file: bundle.entry.clone(), is_active, called }
    }
}

/// Adds the functions that a plan calls, and those that their workflows call.
fn add_called(plan: &Plan, caller: &Bundle, found: &mut BTreeMap<Arc<str>, Option<CalledPlan>>) {
    let functions: BTreeSet<Arc<str>> = list_called_functions(&plan.root).into_iter().collect();
    for function in functions {
        if found.contains_key(&function) {
            continue;
        }
        let bundle = CalledWorkflow::find_called(caller, &function).and_then(|called| called.build_bundle(caller).ok());
        // A workflow that does not compile cannot run.
        let compiled = bundle.and_then(|bundle| Some((compile_bundle(&bundle).ok()?, bundle)));
        let called =
            compiled.as_ref().map(|(plan, bundle)| CalledPlan { file: bundle.entry.clone(), plan: plan.clone() });
        found.insert(function, called);
        if let Some((plan, bundle)) = compiled {
            add_called(&plan, &bundle, found);
        }
    }
}

/// Compares the workflows of the functions that both definitions call. A function that only one of them calls is a difference
/// of the steps that call it.
pub(super) fn compare_called(a: &ComparedDefinition, b: &ComparedDefinition) -> Vec<WorkflowChange> {
    let compare = |(function, in_a): (&Arc<str>, &Option<CalledPlan>)| {
        let in_b = b.called.get(function)?;
        let diff = match (in_a, in_b) {
            (None, None) => return None,
            (Some(in_a), Some(in_b)) => Some(compare_plans(&in_a.plan, &in_b.plan)),
            _ => None,
        };
        let file = |called: &Option<CalledPlan>| called.as_ref().map(|called| called.file.clone());
        let is_same = diff.as_ref().is_some_and(|diff| diff.same);
        (!is_same).then(|| WorkflowChange { function: function.to_string(), a: file(in_a), b: file(in_b), diff })
    };
    a.called.iter().filter_map(compare).collect()
}
