//! `/api/v1/workflows`: the definitions that can be run.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_core::plan::{InputKind, Inputs};
use serde::Serialize;
use utoipa::ToSchema;

use super::Server;
use super::catalog::Definition;
use super::keys::{Caller, Scope};
use super::params::At;
use super::problem::Answer;

/// A definition that can be run.
#[derive(Serialize, ToSchema)]
pub(crate) struct Workflow {
    /// Its own id, or its file's path with dots.
    id: String,
    name: String,
    description: String,
    /// `flow`, `steps`, `pipeline`, `graph` or `markdown`.
    format: &'static str,
    /// Its file in the served folder.
    file: String,
    /// Whether `check` finds an error in it, so that it cannot be run.
    is_refused: bool,
    /// What it can be given.
    inputs: Vec<Input>,
    /// What `check` says of it.
    #[schema(value_type = Vec<Object>)]
    problems: Vec<serde_json::Value>,
}

/// What a definition can be given.
#[derive(Serialize, ToSchema)]
pub(crate) struct Input {
    name: String,
    description: Option<String>,
    /// `any`, `text`, `number`, `boolean`, `list`, `file` or `option`.
    kind: &'static str,
    /// The values of an `option`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    required: bool,
}

/// The definitions.
#[derive(Serialize, ToSchema)]
pub(crate) struct Workflows {
    items: Vec<Workflow>,
}

/// What can be run.
#[utoipa::path(get, path = "/api/v1/workflows", tag = "workflows", operation_id = "list_workflows",
    security(("key" = ["read"])), responses((status = 200, description = "All of them", body = Workflows)))]
pub(crate) async fn list(State(server): State<Arc<Server>>, caller: Caller) -> Answer<Json<Workflows>> {
    caller.may(Scope::Read)?;
    let items = super::blocking(move || server.catalog.list()).await?;
    Ok(Json(Workflows { items: items.iter().map(|definition| shown(definition)).collect() }))
}

/// One definition.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", tag = "workflows", operation_id = "get_workflow",
    params(("id" = String, Path)), security(("key" = ["read"])),
    responses((status = 200, description = "The definition", body = Workflow), (status = 404, description = "There is none, or it is another's")))]
pub(crate) async fn get(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<Json<Workflow>> {
    caller.may(Scope::Read)?;
    Ok(Json(shown(&*super::catalog::find(&server, &id).await?)))
}

fn shown(definition: &Definition) -> Workflow {
    let plan = definition.prepared.as_ref().map(|prepared| &prepared.plan);
    Workflow {
        id: definition.id.clone(),
        name: plan.map(|plan| plan.name.clone()).unwrap_or_default(),
        description: plan.map(|plan| plan.description.clone()).unwrap_or_default(),
        format: definition.format.name(),
        file: definition.file.clone(),
        is_refused: definition.is_refused,
        inputs: plan.map(|plan| inputs(&plan.inputs)).unwrap_or_default(),
        problems: definition.problems.clone(),
    }
}

fn inputs(inputs: &Inputs) -> Vec<Input> {
    let Inputs::Named { declared, .. } = inputs else {
        return vec![Input {
            name: "input".into(),
            description: None,
            kind: "any",
            options: Vec::new(),
            required: false,
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
        Input {
            name: input.name.clone(),
            description: input.description.clone(),
            kind,
            options,
            required: input.required,
        }
    };
    declared.iter().map(input).collect()
}
