//! `/api/v1/workflows`: the definitions that can be run.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flowloom_app::definitions::catalog::{Catalog, CatalogEntry};
use flowloom_app::keys::Scope;
use flowloom_core::plan::{InputKind, Inputs};
use flowloom_core::value::Value;
use flowloom_store::{DefinitionKind, DeletedDefinition, Store, content_tag};
use serde::Serialize;
use utoipa::ToSchema;

use crate::blocking::run_blocking;
use crate::bounded_list::BoundedList;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::definitions::etag::Tagged;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, ProblemDocument};
use crate::runs::start::report_unknown;

/// A runnable definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowInfo {
    /// Id: the definition's own, or its file path with dots.
    id: String,
    name: String,
    description: String,
    /// `flow`, `steps`, `pipeline`, `graph`, `markdown` or `agent`.
    format: String,
    /// Path of its file in the served folder; null if it is stored.
    file: Option<String>,
    /// Origin of a stored definition: `api`, `sync` or `function`.
    origin: Option<&'static str>,
    /// Version number of a stored definition, starting at 1.
    version: Option<u32>,
    /// Hash of a stored definition's content.
    hash: Option<String>,
    /// Whether `check` finds an error, so that it cannot be run.
    is_refused: bool,
    /// Declared inputs.
    inputs: Vec<InputInfo>,
    /// Diagnostics of `check`.
    #[schema(value_type = Vec<crate::openapi_types::DiagnosticSchema>)]
    pub(crate) problems: Vec<serde_json::Value>,
}

impl WorkflowInfo {
    /// The tag of a stored definition's content.
    pub(crate) fn content_tag(&self) -> Option<String> {
        Some(content_tag(self.hash.as_deref()?, self.version?))
    }
}

/// A declared input.
#[derive(Serialize, ToSchema)]
pub(crate) struct InputInfo {
    name: String,
    description: Option<String>,
    /// `any`, `text`, `number`, `boolean`, `list`, `file` or `option`.
    kind: &'static str,
    /// Whether people give it as a file. A `text` is then the content of a text file, and may also be given as text.
    is_file: bool,
    /// The allowed values of an `option`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    /// Whether the workflow needs it: a run without it is refused. The input of a step list is required if a step reads it; a
    /// run without it starts, but `{{input}}` has no value there.
    required: bool,
    /// The value if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    default: Option<Value>,
}

/// Definitions, sorted by id.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowList {
    /// Large values are shortened; the route of a single workflow has them whole.
    #[schema(value_type = Vec<WorkflowInfo>)]
    items: BoundedList,
}

/// Lists the definitions that can be run.
#[utoipa::path(get, path = "/api/v1/workflows", tag = "workflows", operation_id = "list_workflows", security(("key" = ["read"])), params(OwnerQuery), responses((status = 200, body = WorkflowList)))]
pub(crate) async fn list_workflows(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<WorkflowList>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let list = move || {
        let found = catalog.list_definitions(&user)?;
        Ok(Json(WorkflowList { items: BoundedList::of_items(found.iter().map(|entry| to_workflow_info(entry))) }))
    };
    run_blocking(list).await?
}

/// A workflow that was deleted.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeletedWorkflow {
    id: String,
    /// Number of its last version, which can be read as its source and stored again.
    version: u32,
    /// Time at which that version was stored, in milliseconds since the Unix epoch.
    stored_at: u64,
}

/// Deleted workflows, the one that was stored last first.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeletedWorkflowList {
    items: Vec<DeletedWorkflow>,
}

/// Lists the deleted workflows. Their versions remain.
#[utoipa::path(get, path = "/api/v1/deleted-workflows", tag = "workflows", operation_id = "list_deleted_workflows", security(("key" = ["read"])), params(OwnerQuery), responses((status = 200, body = DeletedWorkflowList)))]
pub(crate) async fn list_deleted_workflows(
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Json<DeletedWorkflowList>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let deleted = run_blocking(move || store.list_deleted(&user, DefinitionKind::Workflow)).await??;
    let to_item =
        |row: DeletedDefinition| DeletedWorkflow { id: row.id, version: row.last_version, stored_at: row.stored_at };
    Ok(Json(DeletedWorkflowList { items: deleted.into_iter().map(to_item).collect() }))
}

/// Returns a definition.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", tag = "workflows", operation_id = "get_workflow", security(("key" = ["read"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 200, body = WorkflowInfo), (status = 404, body = ProblemDocument)))]
pub(crate) async fn get_workflow(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Tagged<WorkflowInfo>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let (finding, owner, wanted) = (catalog.clone(), user.clone(), id.clone());
    let Some(found) = run_blocking(move || finding.find_definition(&owner, &wanted)).await?? else {
        return Err(report_unknown(&catalog, &user, &id, None).await?);
    };
    let workflow = to_workflow_info(&found);
    // Its problems depend on other definitions, too, so that it is sent whatever content the client has.
    Ok(Tagged::of_change(StatusCode::OK, workflow.content_tag(), workflow))
}

pub(crate) fn to_workflow_info(definition: &CatalogEntry) -> WorkflowInfo {
    let row = definition.stored_row();
    let plan = definition.prepared.as_ref().map(|prepared| &prepared.plan);
    WorkflowInfo {
        id: definition.id.clone(),
        name: plan.map(|plan| plan.name.clone()).unwrap_or_default(),
        description: plan.map(|plan| plan.description.clone()).unwrap_or_default(),
        format: definition.format.to_string(),
        file: definition.file_path().map(str::to_owned),
        origin: row.map(|row| row.origin.name()),
        version: row.map(|row| row.version),
        hash: row.map(|row| row.hash.clone()),
        is_refused: definition.is_refused,
        inputs: plan.map(|plan| to_input_infos(&plan.inputs, plan.reads_whole_input())).unwrap_or_default(),
        problems: definition.problems.clone(),
    }
}

/// The inputs of a workflow. `reads_whole` is whether a step reads the input that is one value.
pub(crate) fn to_input_infos(inputs: &Inputs, reads_whole: bool) -> Vec<InputInfo> {
    let Inputs::Named { declared, .. } = inputs else {
        return vec![InputInfo {
            name: "input".into(),
            description: None,
            kind: "any",
            is_file: false,
            options: Vec::new(),
            required: reads_whole,
            default: None,
        }];
    };
    let input = |input: &flowloom_core::plan::Input| {
        let (kind, options) = match &input.kind {
            InputKind::Any => ("any", Vec::new()),
            InputKind::Text => ("text", Vec::new()),
            InputKind::Number => ("number", Vec::new()),
            InputKind::Boolean => ("boolean", Vec::new()),
            InputKind::List => ("list", Vec::new()),
            InputKind::File => ("file", Vec::new()),
            InputKind::OneOf(options) => ("option", options.clone()),
        };
        InputInfo {
            name: input.name.clone(),
            description: input.description.clone(),
            kind,
            is_file: input.is_file,
            options,
            required: input.required,
            default: input.default.clone(),
        }
    };
    declared.iter().map(input).collect()
}
