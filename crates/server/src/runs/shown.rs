//! How a run that is shown looks, for the description of the routes. What is sent is made in [`flowloom_app::runs::summary`], which the
//! command line uses, too; the tests hold the one against the other.

use serde::Serialize;
use utoipa::ToSchema;

/// A run: what `flowloom run --json` prints, and its steps. One that is queued has no more than its id and status.
#[derive(Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct Shown {
    run_id: String,
    /// `queued`, `running`, `waiting`, `succeeded`, `failed`, `cancelled`, `timed_out`, `budget_exceeded` or `uncertain`.
    status: String,
    /// The format of its definition.
    format: Option<String>,
    /// The name of its definition.
    name: Option<String>,
    /// What it gave.
    output: Option<serde_json::Value>,
    /// The same as the system that its format comes from gives it.
    result: Option<serde_json::Value>,
    /// Why it did not succeed.
    error: Option<RunError>,
    usage: Option<RunUsage>,
    /// Milliseconds since 1970.
    created_at: Option<u64>,
    finished_at: Option<u64>,
    steps: Option<Vec<Step>>,
}

/// Why a run did not succeed.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunError {
    code: String,
    message: String,
    /// The step that failed.
    path: Option<String>,
}

/// What a run used.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunUsage {
    input_tokens: u64,
    output_tokens: u64,
    /// US dollars; `null` where a price is not known.
    cost_usd: Option<f64>,
}

/// A step of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct Step {
    path: String,
    /// `running`, `waiting`, `uncertain`, `finished`, `failed`, `skipped` or `aborted`.
    phase: String,
    kind: Option<String>,
    target: Option<String>,
    attempts: u32,
    started_at: u64,
    finished_at: Option<u64>,
    tokens: Option<u64>,
    /// What it asks a person.
    question: Option<String>,
    error: Option<StepFailure>,
}

/// Why a step failed.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepFailure {
    code: String,
    message: String,
}
