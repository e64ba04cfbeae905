//! How well a model authors: twenty wishes, each with a small world to try the result in and checks of what comes out.
//!
//! A check is about what the person gets, never about how the pipeline is wired. Five of the wishes also have a recorded
//! conversation, so that everything but the model can be tried without one.

mod check;

use flowloom_core::chat::Usage;
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

pub use check::{Check, Place};

use crate::rehearse::{Fixtures, Given, Prompts, Rehearsal};

macro_rules! texts {
    ($folder:literal: $($name:literal)*) => {
        [$(($name, include_str!(concat!("../../evaluation/", $folder, $name, ".json")))),*]
    };
}

const CASES: [(&str, &str); 20] = texts!("cases/":
    "research-summary" "extract-notify" "compare-documents" "daily-digest" "clean-table"
    "meeting-actions" "invoice-total" "log-report" "merge-contacts" "currency-budget"
    "ticket-routing" "event-invitations" "reshape-orders" "form-validation" "rank-suppliers"
    "review-moods" "deadline-plan" "sensor-statistics" "translate-menu" "price-watch"
);

const RECORDED: [(&str, &str); 5] = texts!("recorded/":
    "research-summary" "extract-notify" "compare-documents" "daily-digest" "clean-table"
);

/// A wish, the world it meets, and what must come of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// The wish, which needs no questions.
    pub intent: String,
    /// The user's memory before the run: an object.
    #[serde(default)]
    pub memory: Value,
    /// What built-in blocks give that reach for the world.
    #[serde(default)]
    pub fixtures: Fixtures,
    /// What any good pipeline comes to.
    pub expect: Vec<Check>,
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Checks that there are.
    pub checks: usize,
    /// What does not hold; all of them, if there is no result.
    pub failures: Vec<String>,
    /// Why there is no result.
    pub error: Option<StepError>,
    /// What the models cost that were asked when the result was run.
    pub usage: Usage,
}

/// The cases, in the order of their table.
pub fn cases() -> Result<Vec<Case>, serde_json::Error> {
    CASES.iter().map(|(_, text)| serde_json::from_str(text)).collect()
}

/// The recorded conversation of a case, as a scripted model takes it; `None` if there is none.
pub fn recorded(id: &str) -> Option<&'static str> {
    RECORDED.iter().find(|(name, _)| *name == id).map(|(_, text)| *text)
}

impl Case {
    /// What a run of the result finds: prompts are really asked.
    pub fn given(&self) -> Given {
        let memory = self.memory.as_map().cloned().unwrap_or_default();
        Given { memory, fixtures: self.fixtures.clone(), prompts: Prompts::Asked, ..Given::default() }
    }

    /// Holds a run of the result to what is expected.
    pub fn row(&self, result: Result<Rehearsal, StepError>) -> Row {
        let failures = match &result {
            Ok(rehearsal) => self.failures(rehearsal),
            Err(_) => self.expect.iter().map(Check::told).collect(),
        };
        let (id, title, checks) = (self.id.clone(), self.title.clone(), self.expect.len());
        let usage = result.as_ref().map_or_else(|_| Usage::none(), |rehearsal| rehearsal.usage);
        Row { id, title, checks, failures, error: result.err(), usage }
    }

    /// What does not hold of a run.
    pub fn failures(&self, rehearsal: &Rehearsal) -> Vec<String> {
        self.expect.iter().filter(|check| !check.holds(rehearsal)).map(Check::told).collect()
    }
}

impl Row {
    /// Whether everything holds.
    pub fn has_passed(&self) -> bool {
        self.error.is_none() && self.failures.is_empty()
    }

    /// Checks that hold.
    pub fn held(&self) -> usize {
        self.checks.saturating_sub(self.failures.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::code::Code;
    use flowloom_formats::pipeline::built_in;

    #[test]
    fn every_case_can_be_read_and_says_something() {
        let cases = cases().expect("readable");
        for (case, (name, _)) in cases.iter().zip(CASES) {
            assert_eq!(case.id, name);
            assert!(case.intent.len() > 80 && !case.title.is_empty(), "{name}: too little to go by");
            assert!(
                !case.expect.is_empty() && !case.failures(&Rehearsal::default()).is_empty(),
                "{name}: nothing passes"
            );
            for block in case.fixtures.keys() {
                let known = |other: &Value| other.get("id").and_then(Value::as_str) == Some(block);
                assert!(built_in().iter().any(known), "{name}: there is no block {block} in its world");
            }
        }
        assert!(recorded("price-watch").is_none());
    }

    #[test]
    fn fixtures_are_what_their_blocks_may_give() {
        for case in cases().expect("readable") {
            for (id, fixtures) in &case.fixtures {
                let block = built_in().iter().find(|block| block.get("id").and_then(Value::as_str) == Some(id));
                let schema = block.and_then(|block| block.get("output_schema").cloned()).expect("a schema");
                for fixture in fixtures {
                    let wrong = flowloom_runtime::schema::complaints(&schema, &fixture.outputs);
                    assert_eq!(wrong, None, "{}: {id}", case.id);
                }
            }
        }
    }

    #[test]
    fn without_a_result_nothing_holds() {
        let case = cases().expect("readable").remove(0);
        let row = case.row(Err(StepError::new(Code::AuthoringFailed, "no")));
        assert_eq!((row.held(), row.has_passed(), row.failures.len()), (0, false, row.checks));
        let empty = case.row(Ok(Rehearsal::default()));
        assert!(!empty.has_passed() && empty.error.is_none());
    }
}
