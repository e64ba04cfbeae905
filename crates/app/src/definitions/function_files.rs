//! The files of the workflows that run as functions. Each new bundle has them, so they stay in memory while they are
//! unchanged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::plan::list_called_functions;
use parking_lot::Mutex;

use super::folder::{ModificationTimes, is_unchanged, read_modification_times};
use super::source::{LoadedDefinition, Loader};
use crate::config::error::{ConfigError, TableProblem};
use crate::config::{Config, FunctionSettings};

/// The files that were read last, by the path of the workflow.
#[derive(Default)]
pub(crate) struct FunctionFiles {
    known: Mutex<BTreeMap<PathBuf, Arc<WorkflowFiles>>>,
}

/// The files of one workflow.
struct WorkflowFiles {
    changed: ModificationTimes,
    /// Texts by path, relative to the folder of the configuration.
    texts: BTreeMap<String, String>,
}

/// A function whose workflow cannot be read.
pub struct UnreadableFunction {
    /// The path of the workflow, as the configuration names it.
    pub workflow: String,
    /// The error.
    pub error: ConfigError,
}

/// The functions of a configuration whose workflows cannot be read.
pub fn list_unreadable_functions(config: &Config) -> Vec<UnreadableFunction> {
    FunctionFiles::default().list_unreadable(config, &config.functions)
}

/// The functions that are workflows: their ids, and the paths of the workflows.
fn list_workflows(functions: &BTreeMap<String, FunctionSettings>) -> impl Iterator<Item = (&str, &str)> {
    functions.iter().filter_map(|(id, function)| Some((id.as_str(), function.workflow.as_deref()?)))
}

impl FunctionFiles {
    /// The files of the workflows of all functions, by their paths relative to the configuration's folder. Those that cannot
    /// be read are left out: only a definition that calls such a function is refused.
    pub(crate) fn read_all(
        &self,
        config: &Config,
        functions: &BTreeMap<String, FunctionSettings>,
    ) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for (id, workflow) in list_workflows(functions) {
            if let Ok(read) = self.read_workflow(config, id, workflow) {
                all.extend(read.texts.clone());
            }
        }
        all
    }

    /// The workflows of functions that cannot be read, with the reasons.
    pub(crate) fn list_unreadable(
        &self,
        config: &Config,
        functions: &BTreeMap<String, FunctionSettings>,
    ) -> Vec<UnreadableFunction> {
        let unreadable = |(id, workflow): (&str, &str)| {
            let error = self.read_workflow(config, id, workflow).err()?;
            Some(UnreadableFunction { workflow: workflow.to_owned(), error })
        };
        list_workflows(functions).filter_map(unreadable).collect()
    }

    fn read_workflow(&self, config: &Config, id: &str, workflow: &str) -> Result<Arc<WorkflowFiles>, ConfigError> {
        let file = config.base_folder().join(workflow);
        let known = self.known.lock().get(&file).cloned();
        if let Some(known) = known.filter(|known| is_unchanged(&known.changed)) {
            return Ok(known);
        }
        let source = Loader::new(config).compile(&file);
        if source.files().is_empty() {
            let why = source.compiled.diagnostics.first().map(|problem| problem.message.clone()).unwrap_or_default();
            let table = format!("functions.{id:?}");
            return Err(ConfigError::in_table(table, TableProblem::UnreadableWorkflow(why)));
        }
        let paths: Vec<PathBuf> = source.files().keys().map(PathBuf::from).collect();
        let texts = source.files().iter().map(|(path, bytes)| (strip_folder(config, path), decode_text(bytes)));
        let read = WorkflowFiles { texts: texts.collect(), changed: read_modification_times(paths.iter()) };
        let read = Arc::new(read);
        // A file that is missing now may be there next time.
        if !source.is_refused() {
            self.known.lock().insert(file, read.clone());
        }
        Ok(read)
    }
}

impl LoadedDefinition {
    /// Adds an error for each function that the definition calls, and whose workflow cannot be read.
    pub(super) fn add_function_errors(&mut self, config: &Config) {
        let Some(plan) = &self.compiled.plan else { return };
        let (called, files) = (list_called_functions(&plan.root), FunctionFiles::default());
        let workflows =
            list_workflows(&config.functions).filter(|(id, _)| called.iter().any(|called| &**called == *id));
        let errors = workflows.filter_map(|(id, workflow)| files.read_workflow(config, id, workflow).err());
        let describe =
            |error: ConfigError| Diagnostic::new_error(error.code(), self.name(), Span::default(), error.to_string());
        let problems: Vec<Diagnostic> = errors.map(describe).collect();
        self.compiled.diagnostics.extend(problems);
    }
}

fn strip_folder(config: &Config, path: &str) -> String {
    Path::new(path).strip_prefix(config.base_folder()).map_or(path.to_owned(), |path| path.display().to_string())
}

fn decode_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
