//! The definition that a test runs: the file that it names, or the workflow with an id.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path as FilePath, PathBuf};
use std::sync::Arc;

use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::plan::{Plan, list_called_functions};
use flowloom_formats::agent;

use super::execute::{TEST_USER, TestRunner};
use super::file::{TestFile, TestFileError};
use crate::definitions::bundle::{AvailableTools, Bundle};
use crate::definitions::catalog::{Catalog, CatalogEntry};
use crate::definitions::source::{LoadedDefinition, Loader};
use crate::definitions::stored::compile_with_tools;
use crate::error::AppError;
use crate::tools::agents::{attach_workflows, load_available};

/// Which definition a test runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestSubject {
    /// The file at a path relative to the folder of the test.
    File(String),
    /// The workflow with an id: the file of the project that has it, or else the stored workflow.
    Workflow(String),
}

impl fmt::Display for TestSubject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestSubject::File(path) => write!(out, "the definition {path}"),
            TestSubject::Workflow(id) => write!(out, "the workflow {id}"),
        }
    }
}

impl TestSubject {
    /// The subject of a test that runs a stored workflow: its id; `None` if it is a file, or if tests find another
    /// workflow with this id. Fails if the store cannot be read.
    pub fn of_stored(catalog: &Catalog, workflow: &CatalogEntry) -> Result<Option<TestSubject>, AppError> {
        let Some(row) = workflow.stored_row() else { return Ok(None) };
        let of_tests = catalog.find_definition(TEST_USER, &workflow.id)?;
        let is_same = of_tests.is_some_and(|found| found.stored_row().is_some_and(|found| found.key == row.key));
        Ok(is_same.then(|| TestSubject::Workflow(workflow.id.clone())))
    }
}

/// The path that leads from a folder to a file. Both are absolute, without `.` and `..`.
pub fn path_between(folder: &FilePath, file: &FilePath) -> PathBuf {
    let shared = folder.components().zip(file.components()).take_while(|(left, right)| left == right).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(file.components().skip(shared)).collect()
}

/// Where a definition is.
enum Location {
    File(PathBuf),
    Stored(Arc<CatalogEntry>),
}

impl TestRunner<'_> {
    /// The plan of the definition of a test, and its bundle if it calls workflows.
    pub(super) async fn compile_definition(
        &self,
        file: &FilePath,
        test: &TestFile,
    ) -> Result<(Arc<Plan>, Option<Bundle>), TestFileError> {
        let fail = |messages| {
            let (file, subject) = (file.to_owned(), test.to_subject());
            TestFileError::Definition { file, subject, messages }
        };
        let located = self.locate_definition(file, test)?;
        let loaded = match &located {
            Location::File(path) => self.load_file(path, test).await,
            Location::Stored(found) => self.load_stored(found, test).await,
        };
        let mut source = loaded.map_err(|error| fail(vec![error.to_string()]))?;
        let problems = source.problems();
        let errors = problems.iter().filter(|problem| problem["severity"] == "error");
        let messages: Vec<String> = errors.map(describe_problem).collect();
        let plan = Arc::new(source.compiled.plan.take().ok_or_else(|| fail(messages))?);
        let bundle = self.build_bundle(&plan, &source);
        Ok((plan, bundle))
    }

    fn locate_definition(&self, file: &FilePath, test: &TestFile) -> Result<Location, TestFileError> {
        let id = match test.to_subject() {
            TestSubject::File(path) => {
                return Ok(Location::File(file.parent().unwrap_or(FilePath::new("")).join(path)));
            }
            TestSubject::Workflow(id) => id,
        };
        let fail = |error: AppError| TestFileError::Store { file: file.to_owned(), source: Box::new(error) };
        let catalog = self.open_catalog().map_err(fail)?;
        match catalog.find_definition(TEST_USER, &id).map_err(fail)? {
            Some(found) => Ok(catalog.locate_file(&found).map_or(Location::Stored(found), Location::File)),
            None => {
                let all = catalog.list_definitions(TEST_USER).map_err(fail)?;
                let meant = find_similar_name(&id, all.iter().map(|definition| definition.id.as_str()));
                Err(TestFileError::UnknownWorkflow { file: file.to_owned(), meant: meant.map(str::to_owned), id })
            }
        }
    }

    async fn load_file(&self, path: &FilePath, test: &TestFile) -> Result<LoadedDefinition, AppError> {
        let loader = Loader::new(self.config);
        let mut source = loader.compile(path);
        if !test.tools.is_empty() {
            source = source.with_tools(recorded_tools(test)).compile(&loader);
        }
        match source.compiled.format == Some(agent::FORMAT) {
            true => attach_workflows(self.open_parts()?, path, false, source, TEST_USER).await,
            false => Ok(source),
        }
    }

    /// A stored workflow. Only files of its own are read, as for a run.
    async fn load_stored(&self, found: &CatalogEntry, test: &TestFile) -> Result<LoadedDefinition, AppError> {
        let (catalog, loader) = (self.open_catalog()?, Loader::new(self.config));
        let content = catalog.read_content(found)?;
        let compile = |tools| {
            let compiled = compile_with_tools(catalog.store(), &loader, TEST_USER, &content, tools);
            compiled.map(|compiled| compiled.source)
        };
        let source = compile(recorded_tools(test))?;
        if source.compiled.format != Some(agent::FORMAT) {
            return Ok(source);
        }
        let flows = Some(load_available(catalog, TEST_USER).await?);
        compile(AvailableTools { flows, ..recorded_tools(test) })
    }

    /// The bundle of a definition; `None` if it calls no workflow.
    fn build_bundle(&self, plan: &Plan, source: &LoadedDefinition) -> Option<Bundle> {
        let runs_workflow = |function: &Arc<str>| {
            let settings = self.config.functions.get(&**function);
            settings.is_some_and(|settings| settings.workflow.is_some())
        };
        let tools = source.available_tools();
        if tools.flows.is_none() && !list_called_functions(&plan.root).iter().any(runs_workflow) {
            return None;
        }
        let texts = source.files().iter();
        let texts = texts.map(|(path, bytes)| (path.clone(), String::from_utf8_lossy(bytes).into_owned()));
        let mut files: BTreeMap<String, String> = texts.collect();
        files.extend(self.function_files.read_all(self.config, &self.config.functions));
        let settings = Bundle::from_config(self.config);
        let bundle = Bundle { entry: source.name().to_owned(), format: plan.format, files, ..settings };
        Some(bundle.with_tools(tools))
    }
}

/// An error of a definition with its place.
fn describe_problem(problem: &serde_json::Value) -> String {
    let text = |key: &str| problem[key].as_str().unwrap_or_default();
    let (file, code, message) = (text("file"), text("code"), text("message"));
    format!("{file}:{}:{}: {code}: {message}", problem["line"], problem["column"])
}

/// The tools of MCP servers as they were when a test was recorded.
fn recorded_tools(test: &TestFile) -> AvailableTools {
    AvailableTools { servers: test.tools.clone(), flows: None }
}
