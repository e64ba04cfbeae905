//! The results that the environment of the planner returns.

use std::collections::BTreeSet;

use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

/// The answer of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// The text.
    pub text: String,
    /// Duration, in seconds.
    pub elapsed: f64,
}

/// A candidate block from the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The definition.
    pub block: Value,
    /// Cosine similarity of its embedding and that of the required block; `None` if only words can be compared.
    pub similarity: Option<f32>,
}

/// The result of a search for a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundBlocks {
    /// The candidates, best first.
    pub candidates: Vec<Candidate>,
    /// Further ids that a new block must not have.
    pub taken: BTreeSet<String>,
}

/// The result of running a block once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TrialOutcome {
    /// The output.
    #[serde(alias = "Gave")]
    Returned(Value),
    /// The error.
    Failed(StepFailure),
}
