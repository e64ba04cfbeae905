//! `POST /api/v1/estimate`: what a workflow can cost before it runs, and what its runs have cost, like `flowloom plan`.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::definitions::bundle::AvailableTools;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::stored::DefinitionContent;
use flowloom_app::error::AppError;
use flowloom_app::estimate::{ConfiguredFigures, estimate_plan};
use flowloom_app::keys::Scope;
use flowloom_app::runs::stored::StoredRuns;
use flowloom_app::tools::agents;
use flowloom_app::typical_case::{TypicalCase, find_typical_case};
use flowloom_app::wiring::build_default_models;
use flowloom_core::bound::{Latencies, Unbounded};
use flowloom_core::code::Code;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::opened::{OpenDefinition, OpenSource};
use crate::blocking::{compile_blocking, run_reading};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// The subject of an estimate: a stored workflow, or a definition.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EstimateRequest {
    /// Id of the workflow.
    #[serde(default)]
    workflow: Option<String>,
    /// The definition, if it is not stored.
    #[serde(default)]
    source: Option<OpenSource>,
    /// Inputs by name; they make the estimate tighter.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    inputs: Option<Value>,
}

/// The worst-case cost of a workflow. Bounds that do not exist are null.
#[derive(Serialize, ToSchema)]
pub(crate) struct CostEstimate {
    /// Whether the definition compiles. If not, nothing is estimated.
    is_compiled: bool,
    /// Model calls in the worst case, by model.
    models: Vec<ModelBound>,
    /// Cost in US dollars in the worst case; null if there is no bound or a price is unknown.
    usd: Option<f64>,
    /// Whether the prices of all models are known.
    prices_known: bool,
    /// HTTP requests and pages in the worst case, by method and host; `*` depends on the run.
    requests: Vec<RequestBound>,
    /// Further requests that follow redirects of these, to any host.
    redirects: Option<u64>,
    /// Calls of functions and tools in the worst case.
    #[schema(value_type = std::collections::BTreeMap<String, Option<u64>>)]
    functions: serde_json::Value,
    /// Runs of Python blocks.
    blocks: Option<u64>,
    /// Requests that change something elsewhere, and writes of memory and files.
    writes: Option<u64>,
    /// Questions to people.
    questions: Option<u64>,
    /// Time of the longest chain in milliseconds, without the time that people take.
    longest_chain_ms: Option<u64>,
    /// The figures without a bound.
    unbounded: Vec<OpenEnd>,
    /// The median of the newest runs that succeeded; null if there are none.
    typical: Option<TypicalCost>,
}

/// The calls of a model in the worst case.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelBound {
    model: String,
    calls: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// Cost in US dollars; null if there is no bound or the price is unknown.
    usd: Option<f64>,
    price_known: bool,
}

/// Requests in the worst case.
#[derive(Serialize, ToSchema)]
pub(crate) struct RequestBound {
    method: String,
    host: String,
    count: Option<u64>,
}

/// A step without a bound.
#[derive(Serialize, ToSchema)]
pub(crate) struct OpenEnd {
    /// Path of the step.
    path: String,
    /// First byte of the step in the entry file; null for a step of another file.
    start: Option<usize>,
    /// Length of the place, in bytes.
    length: Option<usize>,
    /// The figure without a bound, and the reason.
    reason: String,
}

/// The usage of the newest runs with their child runs: the median of each figure.
#[derive(Serialize, ToSchema)]
pub(crate) struct TypicalCost {
    /// Number of runs.
    runs: usize,
    model_calls: u64,
    /// HTTP requests and pages.
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// Cost in US dollars; null if a price was unknown.
    usd: Option<f64>,
    duration_ms: u64,
}

/// Estimates what a workflow can cost before it runs, and what its runs have cost. Nothing of it runs.
#[utoipa::path(post, path = "/api/v1/estimate", tag = "workflows", operation_id = "estimate_cost", security(("key" = ["read"])), params(OwnerQuery),
    request_body = EstimateRequest,
    responses((status = 200, description = "The estimate", body = CostEstimate), (status = 400, body = ProblemDocument), (status = 404, description = "The workflow does not exist", body = ProblemDocument)))]
pub(crate) async fn estimate_cost(
    State(runs): State<StoredRuns>,
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    JsonObject(asked, _): JsonObject<EstimateRequest>,
) -> ApiResult<Json<CostEstimate>> {
    caller.require_scope(Scope::Read)?;
    let owner = caller.resolve_user(whose.user)?;
    let EstimateRequest { workflow, source, inputs } = asked;
    let source = match (source, &workflow) {
        (source, workflow) if source.is_some() != workflow.is_some() => source,
        _ => return Err(Problem::new(Code::RequestInvalid, "give either \"workflow\" or \"source\"")),
    };
    let (shared, whose) = (catalog.clone(), owner.clone());
    let compiled = compile_blocking(move |stop| {
        let opened = match (source, workflow) {
            (Some(source), _) => source.open()?,
            (None, id) => read_stored(&shared, &whose, &id.unwrap_or_default())?,
        };
        Ok::<_, Problem>(opened.compile(&shared, &whose, stop)?.source)
    });
    let source = agents::attach_listed(&catalog, false, compiled.await??, &owner).await?;
    let Some(plan) = source.compiled.plan.clone() else { return Ok(Json(CostEstimate::of_nothing())) };
    let estimate = async move || {
        let estimate = build_estimate(&runs.config, &plan, source.available_tools(), inputs.as_ref())?;
        let typical = find_typical_case(&runs, &plan, caller.user.as_deref()).await?;
        Ok(Json(CostEstimate { typical: typical.map(describe_typical), ..estimate }))
    };
    run_reading(estimate).await
}

/// The files of a stored workflow, or of one of the served folder.
fn read_stored(catalog: &Catalog, user: &str, id: &str) -> Result<OpenDefinition, Problem> {
    let content: Option<DefinitionContent> = catalog.read_source(user, id, None)?;
    let content = content.ok_or_else(|| Problem::not_found("workflow", id))?;
    Ok(OpenDefinition { format: content.format, content })
}

fn build_estimate(
    config: &Config,
    plan: &Plan,
    tools: &AvailableTools,
    inputs: Option<&Value>,
) -> Result<CostEstimate, AppError> {
    let limits = config.limits.narrow_to(&plan.limits);
    let figures = ConfiguredFigures { config, models: &build_default_models(config), tools: Some(tools) };
    let estimate = estimate_plan(plan, inputs, &limits, &figures, Latencies::default());
    let bound = &estimate.worst.bound;
    let to_usd = |micro: u64| micro as f64 / 1e6;
    let models = bound.models.iter().map(|(model, call)| {
        let cost = estimate.micro_usd.get(model).copied().flatten();
        ModelBound {
            model: model.clone(),
            calls: call.calls.0,
            input_tokens: call.input_tokens.0,
            output_tokens: call.output_tokens.0,
            usd: cost.and_then(|cost| cost.0).map(to_usd),
            price_known: cost.is_some(),
        }
    });
    let requests = bound.requests.iter().map(|((method, host), count)| RequestBound {
        method: method.clone(),
        host: host.clone(),
        count: count.0,
    });
    let total = estimate.total_micro_usd();
    Ok(CostEstimate {
        is_compiled: true,
        models: models.collect(),
        usd: total.and_then(|cost| cost.0).map(to_usd),
        prices_known: total.is_some(),
        requests: requests.collect(),
        redirects: bound.redirects.0,
        functions: serde_json::json!(bound.functions),
        blocks: bound.blocks.0,
        writes: bound.writes.0,
        questions: bound.questions.0,
        longest_chain_ms: bound.chain_ms.0,
        unbounded: estimate.worst.unbounded.iter().map(describe_open_end).collect(),
        typical: None,
    })
}

impl CostEstimate {
    /// The answer about a definition that does not compile.
    fn of_nothing() -> CostEstimate {
        CostEstimate {
            is_compiled: false,
            models: Vec::new(),
            usd: None,
            prices_known: false,
            requests: Vec::new(),
            redirects: None,
            functions: serde_json::json!({}),
            blocks: None,
            writes: None,
            questions: None,
            longest_chain_ms: None,
            unbounded: Vec::new(),
            typical: None,
        }
    }
}

fn describe_open_end(end: &Unbounded) -> OpenEnd {
    let has_place = end.span.length > 0;
    OpenEnd {
        path: end.path.to_string(),
        start: has_place.then_some(end.span.start),
        length: has_place.then_some(end.span.length),
        reason: end.reason.clone(),
    }
}

fn describe_typical(typical: TypicalCase) -> TypicalCost {
    TypicalCost {
        runs: typical.runs,
        model_calls: typical.model_calls,
        requests: typical.requests,
        input_tokens: typical.input_tokens,
        output_tokens: typical.output_tokens,
        usd: typical.micro_usd.map(|micro| micro as f64 / 1e6),
        duration_ms: typical.duration_ms,
    }
}
