//! Schemas of runs for the OpenAPI document. The actual JSON is built in [`flowloom_app::runs::summary`], which the command line also
//! uses; tests compare the two.

use flowloom_core::chat::Usage;
use flowloom_core::trigger::RunTrigger;
use serde::Serialize;
use utoipa::ToSchema;

/// A run: the object that `flowloom run --json` prints, and its steps. A queued run has only an id and a status.
#[derive(Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunSchema {
    run_id: String,
    /// `queued`, `running`, `interrupted`, `waiting`, `uncertain`, `quarantined`, `succeeded`, `failed`, `cancelled`,
    /// `timed_out` or `budget_exceeded`.
    status: String,
    /// Why no server continues the run by itself, although it is queued or interrupted; otherwise there is no such field.
    interruption: Option<String>,
    /// Format of the definition.
    format: Option<String>,
    /// Name of the definition.
    name: Option<String>,
    /// Output of the run.
    output: Option<serde_json::Value>,
    /// Output in the form of the original system.
    result: Option<serde_json::Value>,
    /// Error of a run that did not succeed.
    error: Option<RunError>,
    usage: Option<RunUsage>,
    /// Inputs that the definition does not use; absent if there are none.
    warnings: Option<Vec<String>>,
    /// Milliseconds since the Unix epoch.
    created_at: Option<u64>,
    finished_at: Option<u64>,
    /// The trigger of the run; `null` for child runs and for runs of old versions.
    trigger: Option<TriggerSchema>,
    /// The run that it was forked from.
    forked_from: Option<ForkParentSchema>,
    /// The runs that were forked from it, newest first, at most 100.
    forks: Option<Vec<String>>,
    steps: Option<Vec<StepSchema>>,
}

/// The trigger of a run.
#[derive(Serialize, ToSchema)]
#[schema(as = RunTrigger)]
pub(crate) struct TriggerSchema {
    /// `terminal`, `api`, `openai`, `mcp`, `schedule`, `webhook`, `agentflow`, `agentos` or `anythingllm`.
    kind: String,
    /// Id of the schedule or of the webhook; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Id of the call, if it was made with an Idempotency-Key; otherwise absent. Lists of runs do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
}

impl From<RunTrigger> for TriggerSchema {
    fn from(RunTrigger { kind, id, call, .. }: RunTrigger) -> TriggerSchema {
        TriggerSchema { kind: kind.into_owned(), id, call }
    }
}

/// The run that another one was forked from.
#[derive(Serialize, ToSchema)]
#[schema(as = ForkParent)]
pub(crate) struct ForkParentSchema {
    run_id: String,
    /// The step from which the fork performed everything; null: the first step whose request differed.
    at: Option<String>,
}

/// Error of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunError {
    code: String,
    message: String,
    /// Path of the step that failed.
    path: Option<String>,
}

/// Usage of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunUsage {
    input_tokens: u64,
    output_tokens: u64,
    /// Cost in US dollars; `null` if a price is unknown.
    cost_usd: Option<f64>,
}

impl From<&Usage> for RunUsage {
    fn from(usage: &Usage) -> RunUsage {
        RunUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_usd: usage.micro_usd.map(|micro_usd| micro_usd as f64 / 1e6),
        }
    }
}

/// A step of a run.
#[derive(Serialize, ToSchema)]
#[schema(as = RunStep)]
pub(crate) struct StepSchema {
    path: String,
    /// `running`, `waiting`, `uncertain`, `finished`, `failed`, `skipped`, `aborted`, or `interrupted` if no worker drives the run.
    phase: String,
    kind: Option<String>,
    target: Option<String>,
    attempts: u32,
    /// Whether the output was taken from the run that this one was forked from; absent if not.
    reused: Option<bool>,
    /// Absent for steps of child runs.
    started_at: Option<u64>,
    finished_at: Option<u64>,
    tokens: Option<u64>,
    /// The question that the step asks.
    question: Option<String>,
    error: Option<StepFailure>,
    /// References of its requests that had no value; absent if there are none.
    warnings: Option<Vec<String>>,
    /// The child run, if the step is one of a child run: such steps are listed while they wait for a person.
    run: Option<String>,
}

/// Error of a step.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepFailure {
    code: String,
    message: String,
}
