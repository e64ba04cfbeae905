//! Response types of the routes of other systems, for the OpenAPI document. The responses themselves are built as the
//! original systems build them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::openapi_types::DiagnosticSchema;

/// A flow in a list of AnythingLLM.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmFlowItem)]
pub(crate) struct FlowItemSchema {
    name: Option<String>,
    uuid: String,
    description: Option<String>,
    /// Whether agents may use it.
    active: bool,
    /// The name under which agents call it.
    plugin: String,
}

/// The flows of AnythingLLM.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmFlowList)]
pub(crate) struct FlowListSchema {
    success: bool,
    flows: Vec<FlowItemSchema>,
}

/// A flow of AnythingLLM.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmFlowContent)]
pub(crate) struct FlowContentSchema {
    name: Option<String>,
    uuid: String,
    /// `{description, active, steps}`.
    config: BTreeMap<String, Value>,
}

/// A flow of AnythingLLM, in its response.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmFlow)]
pub(crate) struct FlowSchema {
    success: bool,
    flow: FlowContentSchema,
}

/// The id of a flow that was stored.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmFlowId)]
pub(crate) struct FlowIdSchema {
    success: bool,
    uuid: String,
}

/// Whether a flow was stored, or why it was refused.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmSavedFlow)]
pub(crate) struct SavedFlowSchema {
    success: bool,
    /// Null if the flow is refused.
    flow: Option<FlowIdSchema>,
    /// Why it is refused.
    error: Option<String>,
    /// The error code of the refusal.
    code: Option<String>,
}

/// That a request succeeded.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmSuccess)]
pub(crate) struct SuccessSchema {
    success: bool,
}

/// The result of a run of a flow.
#[derive(Serialize, ToSchema)]
#[schema(as = AnythingLlmFlowRun)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FlowRunSchema {
    success: bool,
    /// One entry for each block.
    results: Vec<BTreeMap<String, Value>>,
    /// The variables at the end.
    variables: Option<Value>,
    /// The output of the block that ended the run; null if none did.
    direct_output: Option<Value>,
    #[serde(rename = "run_id")]
    run_id: String,
    /// The status of the run, as in `GET /api/v1/runs/{id}`.
    status: String,
}

/// The id of a step list that was stored.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentOsWorkflowId)]
pub(crate) struct WorkflowIdSchema {
    id: String,
}

/// The result of a run of a step list.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentOsRun)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepListRunSchema {
    run_id: String,
    /// One entry for each step.
    results: Option<Vec<BTreeMap<String, Value>>>,
    /// The variables at the end.
    vars: Option<BTreeMap<String, Value>>,
    status: String,
    /// The message of the failure.
    error: Option<String>,
}

/// A page of runs of a step list, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentOsRunPage)]
pub(crate) struct RunPageSchema {
    runs: Vec<BTreeMap<String, Value>>,
    /// Number of all runs.
    total: u64,
    limit: u64,
    offset: u64,
}

/// That a block was stored.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowStoredBlock)]
pub(crate) struct StoredBlockSchema {
    /// `created`.
    status: String,
    block_id: String,
}

/// The source of a block.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowBlockSource)]
pub(crate) struct BlockSourceSchema {
    source: String,
    /// `python` or `llm`.
    r#type: String,
}

/// A run of a pipeline.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowExecution)]
pub(crate) struct ExecutionSchema {
    run_id: String,
    pipeline_id: Option<String>,
    pipeline_name: Option<String>,
    pipeline_intent: Option<String>,
    user_id: Option<String>,
    status: String,
    node_count: u64,
    /// `{id, node_id, status, output_data, error, finished_at}` of each node.
    node_results: Vec<BTreeMap<String, Value>>,
    /// The outputs by node.
    shared_context: Option<BTreeMap<String, Value>>,
    /// `{node_id, error}` of each failure.
    errors: Vec<BTreeMap<String, Value>>,
    /// Tokens and cost.
    usage: BTreeMap<String, Value>,
    /// In RFC 3339.
    started_at: String,
    /// In RFC 3339; null while it runs.
    finished_at: Option<String>,
}

/// A pipeline in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowPipelineItem)]
pub(crate) struct PipelineItemSchema {
    id: String,
    user_id: Option<String>,
    name: Option<String>,
    user_intent: Option<String>,
    user_prompt: Option<String>,
    /// The status of its last run, or else its own.
    status: Option<String>,
    trigger_type: Option<String>,
    node_count: u64,
    /// In RFC 3339; null for a file of the served folder.
    created_at: Option<String>,
    /// Whether it has errors, so that it cannot be run.
    is_refused: bool,
}

/// That a pipeline was stored.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowStoredPipeline)]
pub(crate) struct StoredPipelineSchema {
    id: String,
    /// `created`.
    status: String,
    problems: Vec<DiagnosticSchema>,
}

/// The result of a run of a stored pipeline.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowPipelineRun)]
pub(crate) struct PipelineRunSchema {
    pipeline_id: Option<String>,
    run_id: String,
    status: String,
    /// The outputs by node.
    shared_context: Option<BTreeMap<String, Value>>,
    node_results: Vec<BTreeMap<String, Value>>,
    errors: Vec<BTreeMap<String, Value>>,
}

/// The result of a run of a pipeline that is not stored.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowUnstoredRun)]
pub(crate) struct UnstoredRunSchema {
    run_id: String,
    pipeline_id: Option<String>,
    status: String,
    /// The outputs by node.
    results: Option<BTreeMap<String, Value>>,
    log: Option<Vec<BTreeMap<String, Value>>>,
    memory: Option<Value>,
    errors: Vec<BTreeMap<String, Value>>,
}

/// A pipeline that was created for a goal, or why there is none.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowCreatedAgent)]
pub(crate) struct CreatedAgentSchema {
    run_id: String,
    /// Null if there is no pipeline.
    pipeline_json: Option<BTreeMap<String, Value>>,
    status: String,
    /// One entry for each stage.
    log: Option<Vec<BTreeMap<String, Value>>>,
    missing_blocks: Option<Vec<Value>>,
    /// Why there is no pipeline.
    reason: Option<String>,
    /// The error code of that reason.
    code: Option<String>,
    /// Tokens and cost.
    usage: Option<BTreeMap<String, Value>>,
}

/// A pipeline that was created for a goal and has run, or why there is none.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowAutomation)]
pub(crate) struct AutomationSchema {
    run_id: String,
    /// The run that created the pipeline.
    thinker_run_id: Option<String>,
    status: String,
    pipeline: Option<BTreeMap<String, Value>>,
    /// The outputs by node.
    results: Option<BTreeMap<String, Value>>,
    log: Option<Vec<BTreeMap<String, Value>>>,
    missing_blocks: Option<Vec<Value>>,
    /// Why there is no pipeline.
    reason: Option<String>,
    /// The error code of that reason.
    code: Option<String>,
    /// Tokens and cost.
    usage: Option<BTreeMap<String, Value>>,
}

/// The clarification of a goal.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentFlowClarification)]
pub(crate) struct ClarificationSchema {
    /// Whether the goal is clear.
    ready: bool,
    /// The goal with all answers of the user.
    refined_intent: Option<String>,
    /// The next question.
    question: Option<String>,
}
