//! The evaluation of a model as planner: twenty tasks, each with fixtures for a dry run and checks of its result.
//!
//! A check is about the result for the user, never about the wiring of the pipeline. Five of the tasks also have a
//! recorded conversation, so that everything except the model can be tested without one.

mod check;

use flowloom_core::chat::Usage;
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

pub use check::{Check, CheckScope};

use crate::dry_run::{DryRun, DryRunInputs, Fixtures, Prompts};

macro_rules! texts {
    ($folder:literal: $($name:literal)*) => {
        [$(($name, include_str!(concat!("../../evaluation/", $folder, $name, ".json")))),*]
    };
}

const TASK_FILES: [(&str, &str); 20] = texts!("cases/":
    "research-summary" "extract-notify" "compare-documents" "daily-digest" "clean-table"
    "meeting-actions" "invoice-total" "log-report" "merge-contacts" "currency-budget"
    "ticket-routing" "event-invitations" "reshape-orders" "form-validation" "rank-suppliers"
    "review-moods" "deadline-plan" "sensor-statistics" "translate-menu" "price-watch"
);

const RECORDED_FILES: [(&str, &str); 5] = texts!("recorded/":
    "research-summary" "extract-notify" "compare-documents" "daily-digest" "clean-table"
);

/// An evaluation task: a goal, the environment of the dry run, and the expected results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The name.
    pub id: String,
    /// A one-line description.
    pub title: String,
    /// The goal; it needs no clarification.
    pub intent: String,
    /// The user's memory before the run: an object.
    #[serde(default)]
    pub memory: Value,
    /// The outputs of built-in blocks that access the outside world.
    #[serde(default)]
    pub fixtures: Fixtures,
    /// The checks that any good pipeline passes.
    pub expect: Vec<Check>,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The name of the task.
    pub id: String,
    /// Its description.
    pub title: String,
    /// The number of checks.
    pub checks: usize,
    /// Failed checks; all of them if there is no result.
    pub failures: Vec<String>,
    /// The reason why there is no result.
    pub error: Option<StepFailure>,
    /// Tokens and cost of the model calls in the dry run.
    pub usage: Usage,
}

/// All tasks, in order. Fails if an embedded file is not valid, which the tests exclude.
pub fn load_tasks() -> Result<Vec<Task>, serde_json::Error> {
    TASK_FILES.iter().map(|(_, text)| serde_json::from_str(text)).collect()
}

/// The recorded conversation of a task, in the form of a scripted model; `None` if there is none.
pub fn recorded_conversation(id: &str) -> Option<&'static str> {
    RECORDED_FILES.iter().find(|(name, _)| *name == id).map(|(_, text)| *text)
}

impl Task {
    /// The initial conditions of the dry run; prompts call the model.
    pub fn initial_inputs(&self) -> DryRunInputs {
        let memory = self.memory.as_map().cloned().unwrap_or_default();
        DryRunInputs { memory, fixtures: self.fixtures.clone(), prompts: Prompts::Called, ..DryRunInputs::default() }
    }

    /// The result of a task from its dry run.
    pub fn evaluate_run(&self, result: Result<DryRun, StepFailure>) -> TaskResult {
        let failures = match &result {
            Ok(dry_run) => self.failed_checks(dry_run),
            Err(_) => self.expect.iter().map(Check::describe_check).collect(),
        };
        let (id, title, checks) = (self.id.clone(), self.title.clone(), self.expect.len());
        let usage = result.as_ref().map_or_else(|_| Usage::none(), |dry_run| dry_run.usage);
        TaskResult { id, title, checks, failures, error: result.err(), usage }
    }

    /// The checks that a run fails.
    pub fn failed_checks(&self, dry_run: &DryRun) -> Vec<String> {
        self.expect.iter().filter(|check| !check.is_met(dry_run)).map(Check::describe_check).collect()
    }
}

impl TaskResult {
    /// Whether all checks passed.
    pub fn has_passed(&self) -> bool {
        self.error.is_none() && self.failures.is_empty()
    }

    /// The number of passed checks.
    pub fn passed_checks(&self) -> usize {
        self.checks.saturating_sub(self.failures.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::code::Code;
    use flowloom_formats::pipeline::built_in_blocks;

    #[test]
    fn every_case_can_be_read_and_says_something() {
        let cases = load_tasks().expect("readable");
        for (case, (name, _)) in cases.iter().zip(TASK_FILES) {
            assert_eq!(case.id, name);
            assert!(case.intent.len() > 80 && !case.title.is_empty(), "{name}: too little to go by");
            assert!(
                !case.expect.is_empty() && !case.failed_checks(&DryRun::default()).is_empty(),
                "{name}: nothing passes"
            );
            for block in case.fixtures.keys() {
                let known = |other: &Value| other.get("id").and_then(Value::as_str) == Some(block);
                assert!(built_in_blocks().iter().any(known), "{name}: there is no block {block} in its world");
            }
        }
        assert!(recorded_conversation("price-watch").is_none());
    }

    #[test]
    fn fixtures_are_what_their_blocks_may_give() {
        for case in load_tasks().expect("readable") {
            for (id, fixtures) in &case.fixtures {
                let block = built_in_blocks().iter().find(|block| block.get("id").and_then(Value::as_str) == Some(id));
                let schema = block.and_then(|block| block.get("output_schema").cloned()).expect("a schema");
                for fixture in fixtures {
                    let wrong = flowloom_runtime::schema::validation_errors(&schema, &fixture.outputs);
                    assert_eq!(wrong, None, "{}: {id}", case.id);
                }
            }
        }
    }

    #[test]
    fn without_a_result_nothing_holds() {
        let case = load_tasks().expect("readable").remove(0);
        let row = case.evaluate_run(Err(StepFailure::new(Code::AuthoringFailed, "no")));
        assert_eq!((row.passed_checks(), row.has_passed(), row.failures.len()), (0, false, row.checks));
        let empty = case.evaluate_run(Ok(DryRun::default()));
        assert!(!empty.has_passed() && empty.error.is_none());
    }
}
