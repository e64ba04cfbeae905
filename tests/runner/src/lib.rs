//! Judges recorded cases: runs each definition through the same API as the program, in a scripted world on virtual
//! time, and compares the result with the expectation. `tests/conformance/README.md` describes the format of a case.

mod author;
mod bound_check;
mod compare;
mod definitions;
mod engines;
mod expectation;
mod flow;
mod graph;
mod markdown;
mod observe;
mod page;
mod pipeline;
mod registered;
mod steps;
mod world;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::json::parse_value;
use flowloom_core::plan::Format;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::find_format;
use flowloom_runtime::effects::{self, Effects};
use flowloom_sandbox::{Sandbox, SandboxConfig};

pub use compare::changed_leaves;
pub use definitions::{CaseDefinition, describe_plan};
pub use engines::{CaseEngine, set_engine};
use expectation::CaseJudge;
pub use observe::{Observation, RequestList, StepRequest, observe_requests, observe_run};

/// A case: a JSON file, or a part of a Markdown page.
pub struct TestCase {
    /// Id of the case, or its file name.
    pub id: String,
    /// The case in the form of a JSON file.
    pub content: Value,
}

/// All cases below some folders, ordered by path. An unreadable file is an error that names the file.
pub fn load_cases(folders: &[PathBuf]) -> Result<Vec<TestCase>, String> {
    let mut files = Vec::new();
    for folder in folders {
        collect_files(folder, &mut files)?;
    }
    files.sort();
    let mut cases = Vec::new();
    for file in &files {
        cases.extend(read_cases(file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(cases)
}

fn collect_files(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() || is_case_file(&path) {
            collect_files(&path, files)?;
        }
    }
    Ok(())
}

fn is_case_file(path: &Path) -> bool {
    let is_readme = path.file_name().is_some_and(|name| name == "README.md");
    path.extension().is_some_and(|extension| extension == "json" || extension == "md") && !is_readme
}

fn read_cases(file: &Path) -> Result<Vec<TestCase>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    match file.extension().is_some_and(|extension| extension == "md") {
        true => page::read_page(&text),
        false => Ok(vec![read_case(file, &text)?]),
    }
}

/// Reads a JSON file with one case.
fn read_case(file: &Path, text: &str) -> Result<TestCase, String> {
    let content = parse_value(text).map_err(|error| error.to_string())?;
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let id = content.get("id").and_then(Value::as_str).unwrap_or(name).to_owned();
    Ok(TestCase { id, content })
}

impl TestCase {
    /// Runs the case and returns the reasons why it fails; empty if it passes.
    pub fn judge_case(&self) -> Vec<String> {
        let expectation = self.merged_expectation();
        self.judge_against(&expectation)
    }

    /// The expectation, with the values of `ours` taking precedence.
    pub fn merged_expectation(&self) -> Map {
        let expected = ["expect", "expected"].iter().find_map(|key| self.content.get(key)?.as_map());
        let mut overlaid = expected.cloned().unwrap_or_default();
        for (key, value) in self.content.get("ours").and_then(Value::as_map).into_iter().flatten() {
            overlaid.insert(key.clone(), value.clone());
            if matches!(value, Value::Null) {
                overlaid.shift_remove(key);
            }
        }
        overlaid
    }

    fn judge_against(&self, expectation: &Map) -> Vec<String> {
        let mut judge = CaseJudge::new(&self.content);
        match self.case_kind() {
            CaseKind::Flow => flow::judge_flow(&self.content, expectation, &mut judge),
            CaseKind::StepsRun => steps::judge_run(&self.content, expectation, &mut judge),
            CaseKind::Pipeline => pipeline::judge_pipeline(&self.content, expectation, &mut judge),
            CaseKind::PipelineMulti => pipeline::judge_multi(&self.content, expectation, &mut judge),
            CaseKind::Resolver => pipeline::judge_resolver(&self.content, expectation, &mut judge),
            CaseKind::Sources => pipeline::judge_sources(&self.content, expectation, &mut judge),
            CaseKind::Clarify => author::judge_clarify(&self.content, expectation, &mut judge),
            CaseKind::Thinker => author::judge_authoring(&self.content, expectation, &mut judge),
            CaseKind::Graph => graph::judge_graph(&self.content, expectation, &mut judge),
            CaseKind::MarkdownRun => markdown::judge_run(&self.content, expectation, &mut judge),
            CaseKind::MarkdownCheck => markdown::judge_check(&self.content, expectation, &mut judge),
            CaseKind::StepsPage => steps::judge_page(&self.content, expectation, &mut judge),
            CaseKind::Registered(_) => match self.definitions().pop() {
                Some(definition) => registered::judge_run(&self.content, definition, expectation, &mut judge),
                None => judge.add_failure("there is no definition"),
            },
            CaseKind::Unknown(kind) => judge.add_failure(format!("the kind {kind:?} is not known")),
        }
        judge.finish_case()
    }

    /// Determines the kind: a flow case has a `flow`; the others state their format, or their system and kind.
    fn case_kind(&self) -> CaseKind {
        let text = |key: &str| self.content.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Some(format) = find_format(text("format")) {
            return CaseKind::Registered(format);
        }
        match (text("system"), text("kind")) {
            ("", "") if self.content.get("flow").is_some() => CaseKind::Flow,
            ("agent-graph", "graph-run") => CaseKind::Graph,
            ("agentflow", "clarify-table") => CaseKind::Clarify,
            ("agentflow", "thinker") => CaseKind::Thinker,
            ("agentflow", "doer") => CaseKind::Pipeline,
            ("agentflow", "doer-multi") => CaseKind::PipelineMulti,
            ("agentflow", "resolver") => CaseKind::Resolver,
            ("agentflow", "sandbox-table") => CaseKind::Sources,
            ("agentos-workflow", "workflow-run") => CaseKind::StepsRun,
            ("agentos-workflow", "workflow-runs") => CaseKind::StepsPage,
            ("markdown", "markdown-run") => CaseKind::MarkdownRun,
            ("markdown", "markdown-check") => CaseKind::MarkdownCheck,
            (system, kind) => CaseKind::Unknown(format!("{system} {kind}").trim().to_owned()),
        }
    }

    /// Changes every compared leaf, one at a time. Returns the number of leaves, and the paths of those whose change
    /// was not noticed.
    pub fn check_judge(&self) -> (usize, Vec<String>) {
        let expectation = Value::from(self.merged_expectation());
        let mut unnoticed = Vec::new();
        let mut count = 0;
        for (path, changed) in changed_leaves(&expectation) {
            if !self.is_compared(&path) {
                continue;
            }
            count += 1;
            let changed = changed.as_map().cloned().unwrap_or_default();
            if self.judge_against(&changed).is_empty() {
                unnoticed.push(path.join("."));
            }
        }
        (count, unnoticed)
    }

    fn is_compared(&self, path: &[String]) -> bool {
        if matches!(self.case_kind(), CaseKind::MarkdownRun | CaseKind::MarkdownCheck) {
            return true;
        }
        let refused = self.merged_expectation().get("refused") == Some(&Value::Bool(true));
        match path.first().map(String::as_str) {
            Some("introspections" | "why" | "title" | "notes" | "run_unserialisable") => false,
            // A rejected definition has no other effects to compare.
            Some(key) => !refused || matches!(key, "refused" | "names"),
            None => false,
        }
    }
}

/// The effects of a case's world, except time and the sandbox.
pub fn case_effects(case: &Value) -> Effects {
    world::CaseWorld::new(case).to_effects()
}

/// The sandbox shared by all cases; its workers are this program.
pub fn shared_sandbox() -> Arc<dyn effects::CodeRunner> {
    static SHARED_INSTANCE: OnceLock<Arc<Sandbox>> = OnceLock::new();
    let sandbox = SHARED_INSTANCE.get_or_init(|| {
        let interpreters = ["python3"].map(PathBuf::from).to_vec();
        Arc::new(Sandbox::new(SandboxConfig::new(runner_program(), interpreters)))
    });
    sandbox.clone()
}

/// Runs on a real clock. There is one runtime, because a sandbox worker belongs to the runtime it was started on.
pub fn block_on<F: Future>(work: F) -> F::Output {
    static SHARED_INSTANCE: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let shared = SHARED_INSTANCE.get_or_init(|| {
        let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        built.unwrap_or_else(|error| panic!("no runtime: {error}"))
    });
    shared.block_on(work)
}

/// Whether a value matches a schema; an error if the schema is invalid.
fn matches_schema(schema: &Value, value: &Value) -> Result<bool, StepFailure> {
    let read = |value: &Value| serde_json::from_str::<serde_json::Value>(&render::to_json(value)).unwrap_or_default();
    let validator = jsonschema::validator_for(&read(schema))
        .map_err(|error| StepFailure::new(Code::SchemaInvalid, error.to_string()))?;
    Ok(validator.is_valid(&read(value)))
}

/// The runner's own program; a test of this crate finds it in a folder above its own.
fn runner_program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let shared = own.ancestors().skip(1).map(|folder| folder.join("conformance")).find(|file| file.is_file());
    shared.unwrap_or(own)
}

enum CaseKind {
    Flow,
    Graph,
    Pipeline,
    PipelineMulti,
    Resolver,
    Sources,
    Clarify,
    Thinker,
    StepsRun,
    StepsPage,
    MarkdownRun,
    MarkdownCheck,
    Registered(Format),
    Unknown(String),
}
