//! The file of a test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowloom_core::chat::{ToolDeclaration, Usage};
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{AfterFailure, MemoryWrite};
use flowloom_core::hash::Hash;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};

use super::expectation::Expectation;
use super::shared_messages;
use super::subject::TestSubject;
use super::validity::{InvalidExpectation, list_invalid_expectations};
use crate::definitions::folder::is_link_within;
use crate::definitions::reader::{MAX_TEST_BYTES, check_length, read_bounded_text};
use crate::definitions::replace_file::replace_file;
use crate::error::AppError;
use crate::project_files::create_folder;

/// The folder of tests in a project.
pub const TEST_FOLDER: &str = "tests";

/// A test of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestFile {
    /// The subject of the test, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Path of the definition, relative to the folder of the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// Id of the workflow, as servers call it, instead of a path: a stored workflow, or one of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Inputs of the run.
    #[serde(default = "no_inputs")]
    pub inputs: Value,
    /// Model of the steps that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Other names of models.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, String>,
    /// The tools of MCP servers, by server name, as they were when the test was recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Vec<ToolDeclaration>>,
    /// The responses of the steps, in the order in which they happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "shared_messages")]
    pub steps: Vec<TestStep>,
    /// Values of expressions that the sandbox evaluated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<TestExpression>,
    /// Answers of models to requests that `steps` has no response for, in the order of the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Value>,
    /// The conditions at the end.
    #[serde(default)]
    pub expect: Expectations,
}

fn no_inputs() -> Value {
    Map::new().into()
}

/// A step of a test: what it sends, and what it receives.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestStep {
    /// Path of the step.
    pub path: String,
    /// The attempt, from 1.
    #[serde(default = "first_attempt", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// Kind of the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The request. The test fails if the step sends another one. Absent: any request. In the file, messages that an earlier
    /// step has sent may be named instead of repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<serde_json::Value>,
    /// Hash of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<Hash>,
    /// The response of the step, unless it fails.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Tokens and cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Memory that the step writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryWrite>,
    /// The failure of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepFailure>,
    /// The consequence of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<AfterFailure>,
    /// Whether the step runs its workflow instead of receiving a response. The steps of that child run follow with their
    /// own requests and responses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_workflow: bool,
}

/// The path of a step, and the number of an attempt of it.
pub(super) type StepAttempt = (String, u32);

impl TestStep {
    /// The attempt that it describes.
    pub(super) fn to_attempt(&self) -> StepAttempt {
        (self.path.clone(), self.attempt)
    }
}

fn first_attempt() -> u32 {
    1
}

fn is_first(attempt: &u32) -> bool {
    *attempt == 1
}

/// An output of `null` is not an absent output.
fn deserialize_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The value of an expression.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestExpression {
    /// Its path.
    pub path: String,
    /// Hash of its source and the variables that it reads. It is evaluated again if they change.
    pub hash: Hash,
    /// The value; absent for `undefined`.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// The conditions at the end of a test.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// Status of the run; `succeeded` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The output of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<Expectation>,
    /// Outputs of steps, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<String, Vec<Expectation>>,
}

/// Why the file of a test cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TestFileError {
    /// It cannot be read or written.
    #[error("{file}: {source}", file = file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// It is not a test.
    #[error("{file}:{}", describe_syntax(source), file = file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The reason, with its place.
        source: serde_json::Error,
    },
    /// It expects what cannot be checked.
    #[error("{}", list_places(file, problems))]
    Expectations {
        /// The file.
        file: PathBuf,
        /// The problems, in the order of the file.
        problems: Vec<InvalidExpectation>,
    },
    /// It names no definition, or two.
    #[error("{file}: {}", describe_subjects(*is_ambiguous), file = file.display())]
    Subject {
        /// The file.
        file: PathBuf,
        /// Whether it names two.
        is_ambiguous: bool,
    },
    /// Its definition has errors.
    #[error("{file}: {subject} has errors:\n{}", messages.join("\n"), file = file.display())]
    Definition {
        /// The file of the test.
        file: PathBuf,
        /// The definition.
        subject: TestSubject,
        /// The errors, each with its place.
        messages: Vec<String>,
    },
    /// There is no workflow with its id.
    #[error(
        "{file}: there is no workflow {id}{}; name the file of a definition with `definition`, or store the workflow",
        suggest_id(meant.as_deref()), file = file.display()
    )]
    UnknownWorkflow {
        /// The file of the test.
        file: PathBuf,
        /// The id.
        id: String,
        /// The id that is most like it.
        meant: Option<String>,
    },
    /// The stored workflows cannot be read.
    #[error("{file}: {source}", file = file.display())]
    Store {
        /// The file of the test.
        file: PathBuf,
        /// The reason.
        source: Box<AppError>,
    },
}

/// The place of an error in the file, and the error without its place.
fn describe_syntax(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    format!("{line}:{column}: {message}")
}

fn describe_subjects(is_ambiguous: bool) -> &'static str {
    match is_ambiguous {
        true => "a test has `definition` or `workflow`, not both; remove one of them",
        false => "the test names no workflow; add `definition`, the path of its file, or `workflow`, its id",
    }
}

fn suggest_id(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default()
}

/// The problems of a file with their places, one on each line.
fn list_places(file: &Path, problems: &[InvalidExpectation]) -> String {
    problems.iter().map(|problem| format!("{}:{problem}", file.display())).collect::<Vec<_>>().join("\n")
}

impl TestFileError {
    /// The error code.
    pub fn code(&self) -> Code {
        Code::TestInvalid
    }
}

impl TestFile {
    /// Reads the file of a test. Fails if the file cannot be read or is not a test, if it names a definition and a
    /// workflow or neither, or if an expectation is invalid.
    pub fn read(file: &Path) -> Result<TestFile, TestFileError> {
        let text = read_text(file).map_err(|source| TestFileError::Io { file: file.to_owned(), source })?;
        let test: TestFile =
            serde_json::from_str(&text).map_err(|source| TestFileError::Syntax { file: file.to_owned(), source })?;
        if test.definition.is_some() == test.workflow.is_some() {
            return Err(TestFileError::Subject { file: file.to_owned(), is_ambiguous: test.workflow.is_some() });
        }
        match list_invalid_expectations(&text, &test) {
            problems if problems.is_empty() => Ok(test),
            problems => Err(TestFileError::Expectations { file: file.to_owned(), problems }),
        }
    }

    /// Writes the file of a test. The folder is created if it does not exist. Fails if the text is too long, or if the
    /// file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), TestFileError> {
        let failed = |source| TestFileError::Io { file: file.to_owned(), source };
        if let Some(folder) = file.parent() {
            create_folder(folder).map_err(failed)?;
        }
        // Serialisation to memory with text keys cannot fail.
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        check_length(&text, MAX_TEST_BYTES).map_err(failed)?;
        replace_file(file, &text).map_err(failed)
    }

    /// Whether another test is different.
    pub(super) fn differs_from(&self, other: &TestFile) -> bool {
        let to_text = |test: &TestFile| serde_json::to_string(test).unwrap_or_default();
        to_text(self) != to_text(other)
    }

    /// Which definition it runs.
    pub fn to_subject(&self) -> TestSubject {
        match (&self.definition, &self.workflow) {
            (None, Some(id)) => TestSubject::Workflow(id.clone()),
            (path, _) => TestSubject::File(path.clone().unwrap_or_default()),
        }
    }
}

/// The JSON files in a folder and below it.
#[derive(Default)]
pub struct FoundTests {
    /// Tests, and files that may be meant as tests, in order.
    pub tests: Vec<PathBuf>,
    /// Other JSON files, and links that leave the folder, in order.
    pub others: Vec<PathBuf>,
}

/// The tests in a folder and below it; a file is taken as it is. Links are followed to files of the folder only. A file is
/// a test if it is an object with the path of a `definition` and with `expect`, `steps` or `answers`, or with the id of a
/// `workflow` and with `expect`. One that is no JSON, or has misspelt keys, is taken as a test, too: a test that is broken
/// must not be passed over. Fails if a folder cannot be read.
pub fn find_tests(folder: &Path) -> Result<FoundTests, TestFileError> {
    let mut found = FoundTests::default();
    if folder.exists() && !folder.is_dir() {
        found.tests.push(folder.to_owned());
        return Ok(found);
    }
    let root = folder.canonicalize().ok();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |source| TestFileError::Io { file: folder.clone(), source };
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            let is_within = kind.is_file() || (kind.is_symlink() && is_link_within(&path, root.as_deref()));
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            match kind.is_dir() {
                _ if is_hidden => {}
                true => folders.push(path),
                false if path.extension().is_none_or(|extension| extension != "json") => {}
                false if is_within && may_be_test(&path) => found.tests.push(path),
                false => found.others.push(path),
            }
        }
    }
    found.tests.sort();
    found.others.sort();
    Ok(found)
}

fn may_be_test(file: &Path) -> bool {
    read_text(file).map_or(true, |text| flowloom_formats::may_be_test(&text))
}

/// The text of a file, without the mark that some editors write at its beginning.
fn read_text(file: &Path) -> std::io::Result<String> {
    flowloom_runtime::failpoint::wait_for_pipe("test_read");
    let text = read_bounded_text(file, MAX_TEST_BYTES)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
