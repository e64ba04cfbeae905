//! `/api/executions`: runs of pipelines in AgentFlow's form.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use flowloom_app::keys::Scope;
use flowloom_app::runs::stored::StoredRuns;
use flowloom_app::runs::summary;
use flowloom_core::chat::Usage;
use flowloom_core::json::parse_value;
use flowloom_core::plan::Plan;
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::{node_results, plan_nodes};
use flowloom_store::RunFilter;

use super::pipelines::unwrap_pipeline;
use super::wire::{ListQuery, format_time};
use crate::blocking::run_reading;
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::compat::runs::{CompatRun, load_snapshot, read_snapshot};
use crate::compat::schemas::ExecutionSchema;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::find_own_run;

/// A run in AgentFlow's form.
pub(crate) fn build_execution(ended: &CompatRun) -> Map {
    let state = &ended.state;
    let used = node_usage(&ended.plan, state);
    let mut nodes = node_results(&ended.plan, state);
    for node in &mut nodes {
        let mut map = node.as_map().cloned().unwrap_or_default();
        if let Some(at) = map.get("finished_at").and_then(Value::as_i64) {
            map.insert("finished_at".into(), format_time(at as u64).into());
        }
        let usage = map.get("node_id").and_then(Value::as_str).and_then(|id| used.get(id));
        map.extend(usage.map(|usage| ("usage".into(), summary::usage_to_value(usage))));
        *node = map.into();
    }
    let failed = nodes.iter().filter_map(|node| Some((node.get("node_id")?, node.get("error")?)));
    let error = |(node, error): (&Value, &Value)| Value::map([("node_id", node.clone()), ("error", error.clone())]);
    let mut errors: Vec<Value> = failed.filter(|(_, error)| **error != Value::Null).map(error).collect();
    if let (true, Some(failure)) = (errors.is_empty(), &state.error) {
        // The run failed outside of its nodes, for example at its time limit.
        errors.push(Value::map([("node_id", Value::Null), ("error", failure.message.as_str().into())]));
    }
    let pipeline = unwrap_pipeline(&parse_value(&ended.definition).unwrap_or_default());
    let field = |name: &str| pipeline.get(name).cloned().unwrap_or_default();
    let created = state.created.as_deref();
    let workflow = created.and_then(|created| created.workflow.clone()).or_else(|| ended.plan.id.clone());
    let intent = pipeline.get("user_intent").or_else(|| pipeline.get("user_prompt")).cloned().unwrap_or_default();
    let entries: [(&str, Value); 13] = [
        ("run_id", ended.id.to_string().into()),
        ("pipeline_id", workflow.map_or(Value::Null, Value::from)),
        ("pipeline_name", field("name")),
        ("pipeline_intent", intent),
        ("user_id", created.map_or(Value::Null, |created| created.user.as_str().into())),
        ("status", flowloom_formats::steps::status_word(state.status).into()),
        ("node_count", (field("nodes").as_list().map_or(0, <[Value]>::len) as i64).into()),
        ("node_results", Value::list(nodes)),
        ("shared_context", ended.presented.result.get("results").cloned().unwrap_or_default()),
        ("errors", Value::list(errors)),
        ("usage", summary::usage_to_value(&state.usage)),
        ("started_at", format_time(state.created_at).into()),
        ("finished_at", state.finished_at.map_or(Value::Null, |at| format_time(at).into())),
    ];
    entries.into_iter().map(|(key, value)| (key.into(), value)).collect()
}

/// The usage of the nodes that called a model, by node id.
fn node_usage(plan: &Plan, state: &RunState) -> HashMap<String, Usage> {
    let nodes = plan_nodes(plan);
    let mut used: HashMap<String, Usage> = HashMap::new();
    for step in state.steps() {
        let Some(usage) = &step.usage else { continue };
        if let Some(node) = nodes.iter().find(|node| step.path.is_within(&node.path)) {
            used.entry(node.id.to_owned()).or_insert_with(Usage::none).add(usage);
        }
    }
    used
}

async fn list_all(runs: StoredRuns, caller: Caller, query: ListQuery) -> ApiResult<Json<BoundedList>> {
    caller.require_scope(Scope::Read)?;
    let filter = RunFilter {
        limit: query.clamp_limit(),
        user: query.select_user(&caller)?,
        format: Some(flowloom_formats::pipeline::FORMAT.name().into()),
        ..RunFilter::default()
    };
    // In one place, so that few records of runs are in memory at the same time.
    run_reading(async move || {
        let rows = runs.store.list_runs_matching(&filter)?;
        let mut executions = BoundedList::with_count(rows.len());
        for row in rows {
            let ended = load_snapshot(&runs, runs.open_run_by_id(row.id).await?).await?;
            executions.push_value(&build_execution(&ended).into());
        }
        Ok(Json(executions))
    })
    .await
}

async fn find_execution(runs: &StoredRuns, caller: &Caller, id: &str) -> ApiResult<Json<Value>> {
    caller.require_scope(Scope::Read)?;
    let ended = read_snapshot(runs, find_own_run(&runs.store, caller, id).await?).await?;
    match ended.plan.format {
        flowloom_formats::pipeline::FORMAT => Ok(Json(build_execution(&ended).into())),
        _ => Err(Problem::not_found("run", id)),
    }
}

/// Lists runs of pipelines, newest first. Large values are shortened; the route of a single execution has them whole.
#[utoipa::path(get, path = "/api/executions", operation_id = "agentflow_executions", tag = "AgentFlow", security(("key" = ["read"])), params(ListQuery),
    responses((status = 200, description = "A list of executions", body = Vec<ExecutionSchema>)))]
pub(crate) async fn list_executions(
    State(runs): State<StoredRuns>,
    caller: Caller,
    QueryParams(query): QueryParams<ListQuery>,
) -> ApiResult<Json<BoundedList>> {
    list_all(runs, caller, query).await
}

/// Returns a run of a pipeline.
#[utoipa::path(get, path = "/api/executions/{id}", operation_id = "agentflow_execution", tag = "AgentFlow", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "The execution", body = ExecutionSchema), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_execution(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<Json<Value>> {
    find_execution(&runs, &caller, &id).await
}

/// Same as `/api/executions`.
#[utoipa::path(get, path = "/api/v1/executions", operation_id = "list_executions", tag = "executions", security(("key" = ["read"])), params(ListQuery),
    responses((status = 200, description = "A list of executions", body = Vec<ExecutionSchema>)))]
pub(crate) async fn list_native(
    State(runs): State<StoredRuns>,
    caller: Caller,
    QueryParams(query): QueryParams<ListQuery>,
) -> ApiResult<Json<BoundedList>> {
    list_all(runs, caller, query).await
}

/// Same as `/api/executions/{id}`.
#[utoipa::path(get, path = "/api/v1/executions/{id}", operation_id = "get_execution", tag = "executions", security(("key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, description = "The execution", body = ExecutionSchema), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_native(
    State(runs): State<StoredRuns>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<Json<Value>> {
    find_execution(&runs, &caller, &id).await
}
