//! What a test found.

use std::path::{Path as FilePath, PathBuf};

use flowloom_core::chat::Usage;

use super::file::TestFile;

/// The result of a test.
pub struct TestOutcome {
    /// The file of the test.
    pub file: PathBuf,
    /// What is tested.
    pub name: String,
    /// Why the test failed; empty if it passed.
    pub problems: Vec<TestProblem>,
    /// Questions that no model was asked.
    pub skipped: Vec<SkippedQuestion>,
    /// Whether anything else was checked than what was skipped.
    pub has_checks: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What the models used that were asked.
    pub usage: Usage,
    /// The test that expects what has happened now.
    pub updated: TestFile,
    /// Whether the run reached its end, so that `updated` is complete.
    pub is_complete: bool,
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
    /// The step, or `output` or `status`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What the test has.
    pub expected: Option<String>,
    /// What there is.
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
    pub(super) fn failed(file: &FilePath, name: String, problems: Vec<TestProblem>, test: TestFile) -> TestOutcome {
        TestOutcome {
            file: file.to_owned(),
            name,
            problems,
            skipped: Vec::new(),
            has_checks: true,
            duration_ms: 0,
            usage: Usage::none(),
            updated: test,
            is_complete: false,
        }
    }

    /// Why nothing was checked; `None` if something was.
    pub fn why_skipped(&self) -> Option<&'static str> {
        let is_skipped = self.has_passed() && !self.has_checks && !self.skipped.is_empty();
        is_skipped.then_some("a model must judge, which only a live test asks")
    }

    /// Whether everything was as expected.
    pub fn has_passed(&self) -> bool {
        self.problems.is_empty()
    }
}
