//! The outcome of a test.

use std::path::{Path as FilePath, PathBuf};

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;

use super::file::{TestFile, TestFileError};

/// The result of a test.
pub struct TestOutcome {
    /// The file of the test.
    pub file: PathBuf,
    /// The subject of the test.
    pub name: String,
    /// Why the test failed; empty if it passed.
    pub problems: Vec<TestProblem>,
    /// Questions that no model was asked.
    pub skipped: Vec<SkippedQuestion>,
    /// Whether anything was checked, skipped checks aside.
    pub has_checks: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The usage of the models that were asked.
    pub usage: Usage,
    /// The test that expects what has happened now; `None` if the run did not reach its end.
    pub updated: Option<TestFile>,
    /// Whether the file was replaced by `updated`.
    pub is_updated: bool,
    /// Whether the test still fails after the update, which does not change every expectation.
    pub still_fails: bool,
    /// The code of the error, if the file is not a test or its definition has errors.
    pub invalid: Option<Code>,
}

/// An expectation that only a model can check, and that was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedQuestion {
    /// The step, or `output`.
    pub place: String,
    /// The question.
    pub question: String,
}

/// Something that is not as a test expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestProblem {
    /// The step, or `output`, `status` or `file`.
    pub place: String,
    /// The problem.
    pub message: String,
    /// The value in the test.
    pub expected: Option<String>,
    /// The actual value.
    pub found: Option<String>,
}

impl TestProblem {
    pub(super) fn new(place: &str, message: impl Into<String>) -> TestProblem {
        TestProblem { place: place.to_owned(), message: message.into(), expected: None, found: None }
    }

    pub(super) fn with_texts(self, expected: String, found: String) -> TestProblem {
        TestProblem { expected: Some(expected), found: Some(found), ..self }
    }
}

impl TestOutcome {
    /// The outcome of a file that is not a test, or whose definition has errors.
    pub fn from_file_error(file: &FilePath, error: &TestFileError) -> TestOutcome {
        let problem = TestProblem::new("file", error.to_string());
        let outcome = TestOutcome::from_start_problem(file, file.display().to_string(), problem);
        TestOutcome { invalid: Some(error.code()), ..outcome }
    }

    /// The outcome of a test whose run could not be started.
    pub(super) fn from_start_problem(file: &FilePath, name: String, problem: TestProblem) -> TestOutcome {
        TestOutcome {
            file: file.to_owned(),
            name,
            problems: vec![problem],
            skipped: Vec::new(),
            has_checks: true,
            duration_ms: 0,
            usage: Usage::none(),
            updated: None,
            is_updated: false,
            still_fails: false,
            invalid: None,
        }
    }

    /// Whether an update would change the file of a test that failed. Nothing that a person expects is changed.
    pub fn can_update(&self) -> bool {
        let Some(updated) = self.updated.as_ref().filter(|_| !self.has_passed()) else { return false };
        TestFile::read(&self.file).is_ok_and(|before| updated.differs_from(&before))
    }

    /// Replaces the file by the test that expects what has happened now, if the test failed or models have answered anew.
    pub(super) fn update_file(&mut self, is_live: bool) -> Result<(), TestFileError> {
        let Some(updated) = &self.updated else { return Ok(()) };
        let before = TestFile::read(&self.file)?;
        let is_due = match self.has_passed() {
            // The name of the default model alone is nothing new.
            true => is_live && TestFile { model: before.model.clone(), ..updated.clone() }.differs_from(&before),
            false => updated.differs_from(&before),
        };
        if is_due {
            updated.write(&self.file)?;
            self.is_updated = true;
        }
        Ok(())
    }

    /// Why nothing was checked; `None` if something was.
    pub fn why_skipped(&self) -> Option<&'static str> {
        let is_skipped = self.has_passed() && !self.has_checks && !self.skipped.is_empty();
        is_skipped.then_some("a model must judge, which only a live test asks")
    }

    /// Whether everything was as expected, or is now that the file was updated.
    pub fn is_accepted(&self) -> bool {
        self.has_passed() || (self.is_updated && !self.still_fails)
    }

    /// Whether everything was as expected.
    pub fn has_passed(&self) -> bool {
        self.problems.is_empty()
    }
}
