//! AgentOS' API: `/api/workflows` (docs/formats/steps.md).

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::catalog::{Catalog, CatalogEntry};
use flowloom_app::definitions::stored::{DefinitionContent, to_agentos_json};
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_app::tools::workflows::{RunRecordReader, list_run_page};
use flowloom_core::code::Code;
use flowloom_core::json::{NodeKind, parse_node};
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::steps;
use flowloom_store::{DefinitionKind, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::runs::{build_list, ensure_id, list_definitions, run_and_wait};
use super::schemas::{RunPageSchema, StepListRunSchema, WorkflowIdSchema};
use crate::blocking::{parse_text, run_reading};
use crate::body::{JsonText, parse_object};
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::definitions::change::writable_key;
use crate::definitions::put;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::start::{StartContext, advise_similar, look_up_definition};
use crate::state::{RunHost, Server};

/// The routes of AgentOS' API.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(create_workflow, list_workflows))
        .routes(routes!(run_workflow))
        .routes(routes!(list_runs))
}

/// The request in a body, with the text of the body. What AgentOS' engine passes on has the request in the field `body`.
async fn parse_request<T: DeserializeOwned + Send + 'static>(text: String) -> ApiResult<(T, String)> {
    parse_text(text, |text| parse_object(unwrap_body(text))).await
}

fn unwrap_body(text: &str) -> &str {
    let Ok((tree, _)) = parse_node(text) else { return text };
    let inner = tree.get("body").filter(|inner| matches!(inner.kind, NodeKind::Map(_)));
    inner.map_or(text, |inner| &text[inner.span.start..inner.span.end()])
}

/// `workflow::create`: stores a step list, given directly or in the field `workflow`.
#[utoipa::path(post, path = "/api/workflows", operation_id = "agentos_create", tag = "AgentOS", security(("key" = ["write"])), request_body = Object,
    responses((status = 200, description = "`{id}`", body = WorkflowIdSchema), (status = 400, body = ProblemDocument), (status = 422, body = ProblemDocument)))]
pub(crate) async fn create_workflow(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    JsonText(text): JsonText,
) -> ApiResult<Json<Value>> {
    let (definition, _) = parse_request::<Value>(text).await?;
    let inner = definition.get("workflow").filter(|inner| inner.as_map().is_some()).unwrap_or(&definition);
    let Some(mut map) = inner.as_map().cloned() else {
        return Err(Problem::new(Code::RequestInvalid, "a workflow must be an object"));
    };
    let id = ensure_id(&mut map);
    let key = writable_key(&caller, None, DefinitionKind::Workflow, &id)?;
    let entry = format!("{id}.json");
    let content = DefinitionContent {
        format: Some(steps::FORMAT),
        ..DefinitionContent::single(&entry, render::to_json(&map.into()))
    };
    put::store_workflow(&host.catalog, &caller, key, content, false).await?;
    Ok(Json(Value::map([("id", id.into())])))
}

/// `workflow::list`: lists the step lists with their source. Large sources are shortened.
#[utoipa::path(get, path = "/api/workflows", operation_id = "agentos_list", tag = "AgentOS", security(("key" = ["read"])),
    responses((status = 200, description = "A list of definitions", body = Vec<Object>)))]
pub(crate) async fn list_workflows(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
) -> ApiResult<Json<BoundedList>> {
    caller.require_scope(Scope::Read)?;
    let found = list_definitions(&catalog, caller.resolve_user(None)?, steps::FORMAT).await?;
    let build_item = |definition: &CatalogEntry, content: &DefinitionContent| match definition.stored_row() {
        Some(row) => Ok(Some(to_agentos_json(row)?)),
        None => {
            let mut map = steps::read_definition(content.entry_text());
            map.insert("id".into(), definition.id.as_str().into());
            let changed_at = definition.changed_at().and_then(|at| i64::try_from(at).ok());
            map.insert("createdAt".into(), changed_at.map_or(Value::Null, Value::from));
            Ok(Some(map.into()))
        }
    };
    Ok(Json(build_list(&catalog, found, build_item).await?))
}

/// A step list to run.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunWorkflowRequest {
    /// Id of the step list.
    workflow_id: String,
    /// Input of the run.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Value,
    /// The agent whose capabilities apply.
    #[serde(default)]
    agent_id: Option<String>,
}

/// `workflow::run`: runs a step list and waits for its end. In addition to AgentOS' `{runId, results, vars}`, the
/// response contains `status`, and `error` if the run failed.
#[utoipa::path(post, path = "/api/workflows/run", operation_id = "agentos_run", tag = "AgentOS", security(("key" = ["run"])), request_body = RunWorkflowRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "The run has ended", body = StepListRunSchema), (status = 202, description = "The run is waiting for an answer", body = StepListRunSchema),
        (status = 403, body = ProblemDocument), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn run_workflow(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonText(text): JsonText,
) -> ApiResult<Response> {
    let (wanted, text) = parse_request::<RunWorkflowRequest>(text).await?;
    let call = StartContext::admit_caller(&host, &caller, None, &headers)?.with_interface(TriggerKind::AgentOs);
    let Some(definition) = look_up_definition(&host, call.user(), &wanted.workflow_id).await? else {
        let advice = advise_similar(&host.catalog, call.user(), &wanted.workflow_id, None).await?;
        let message = steps::not_found_message(&wanted.workflow_id) + &advice;
        return Err(Problem::new(Code::NotThere, message));
    };
    let agent = wanted.agent_id.filter(|agent| !agent.is_empty());
    let starting = StartRunRequest { agent, ..StartRunRequest::with_inputs(wanted.input) };
    let ended = run_and_wait(&call, &definition, starting, &text).await?;
    let mut result = ended.to_result();
    result.insert("runId".into(), ended.id.to_string().into());
    result.insert("status".into(), steps::run_word(ended.state.status).into());
    if let Some(error) = &ended.state.error {
        result.insert("error".into(), error.message.as_str().into());
    }
    Ok(ended.to_response(result))
}

/// Filter of a list of runs.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct RunsQuery {
    /// Id of the step list.
    workflow_id: String,
    /// Maximum number of runs (1 to 1000; default 100).
    #[serde(default)]
    limit: Option<i64>,
    /// Number of runs to skip.
    #[serde(default)]
    offset: Option<i64>,
}

/// A page of runs.
#[derive(Serialize)]
pub(crate) struct RunPage {
    runs: BoundedList,
    total: u64,
    limit: i64,
    offset: i64,
}

/// `workflow::runs`: returns a page of a step list's runs, oldest first. Large values are shortened.
#[utoipa::path(get, path = "/api/workflows/runs", operation_id = "agentos_runs", tag = "AgentOS", security(("key" = ["read"])), params(RunsQuery),
    responses((status = 200, description = "`{runs, total, limit, offset}`", body = RunPageSchema)))]
pub(crate) async fn list_runs(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(page): QueryParams<RunsQuery>,
) -> ApiResult<Json<RunPage>> {
    caller.require_scope(Scope::Read)?;
    let number = |number: Option<i64>| number.map(Value::from);
    let bounds = steps::runs::read_bounds(number(page.limit).as_ref(), number(page.offset).as_ref());
    let read = async move || {
        let (rows, total) = list_run_page(&store, caller.user, page.workflow_id, bounds)?;
        let (mut reader, mut runs) = (RunRecordReader::default(), BoundedList::with_count(rows.len()));
        for row in rows {
            if let Some(record) = reader.read_record(&store, row.id).await? {
                runs.push_value(&record);
            }
        }
        Ok(Json(RunPage { runs, total, limit: bounds.limit, offset: bounds.offset }))
    };
    run_reading(read).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_in_a_body_is_unwrapped() {
        assert_eq!(
            unwrap_body(r#"{"body": {"workflowId": "a", "n": 1.0}, "method": "POST"}"#),
            r#"{"workflowId": "a", "n": 1.0}"#
        );
        for text in [r#"{"workflowId": "a"}"#, r#"{"body": null, "workflowId": "a"}"#, r#"{"body": "x"}"#, "{oops"] {
            assert_eq!(unwrap_body(text), text);
        }
    }
}
