//! The graph of a definition: its steps as nodes, for drawing.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::config::Config;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::outline::outline_plan;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::stored;
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_core::plan::Plan;
use flowloom_formats::StopFlag;
use flowloom_store::Store;
use serde::Serialize;
use utoipa::ToSchema;

use super::upload::UploadedDefinition;
use crate::blocking::{compile_to_json, run_blocking};
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// Steps as nodes, and which can follow which.
#[derive(Serialize, ToSchema)]
pub(crate) struct Graph {
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
}

/// A step.
#[derive(Serialize, ToSchema)]
pub(crate) struct GraphNode {
    /// The path of the step in a run, without iterations and visits.
    path: String,
    /// The name that people see.
    title: String,
    /// Kind of the step, such as `generate`, `http`, `branch` or `agent`.
    kind: &'static str,
    /// First byte of the step in the entry file; null for a step of another file.
    start: Option<usize>,
    /// Length of the place, in bytes.
    length: Option<usize>,
}

/// Two steps that can follow each other.
#[derive(Serialize, ToSchema)]
pub(crate) struct GraphEdge {
    /// Index of the node that it leaves.
    from: usize,
    /// Index of the node that it enters; null is the end of the run.
    to: Option<usize>,
    /// The condition under which it is taken; empty if there is none.
    label: String,
}

impl Graph {
    /// The graph of a plan.
    pub(crate) fn from_plan(plan: &Plan) -> Graph {
        let outline = outline_plan(plan);
        let nodes = outline.nodes.into_iter().map(|node| GraphNode {
            path: node.path.to_string(),
            title: node.title,
            kind: node.kind,
            start: node.span.map(|span| span.start),
            length: node.span.map(|span| span.length),
        });
        let edges = outline.arrows.into_iter();
        let edges = edges.map(|arrow| GraphEdge { from: arrow.from, to: arrow.to, label: arrow.label });
        Graph { nodes: nodes.collect(), edges: edges.collect() }
    }
}

/// Returns the graph of a workflow.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/graph", tag = "workflows", operation_id = "get_workflow_graph", security(("key" = ["read"])), params(("id" = String, Path), OwnerQuery),
    responses((status = 200, description = "The graph", body = Graph), (status = 404, description = "The workflow does not exist, or does not compile", body = ProblemDocument)))]
pub(crate) async fn get_workflow_graph(
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<OwnerQuery>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let draw = move || {
        let found = catalog.find_definition(&user, &id)?.ok_or_else(|| Problem::not_found("workflow", &id))?;
        let prepared = found.prepared.as_ref().ok_or_else(|| Problem::not_found("graph of the workflow", &id))?;
        Ok(Json(Graph::from_plan(&prepared.plan)).into_response())
    };
    run_blocking(draw).await?
}

/// Returns the graph of a definition without storing it; null if it does not compile. The body is the same as for `PUT`.
#[utoipa::path(post, path = "/api/v1/graph", tag = "workflows", operation_id = "draw_definition", security(("key" = ["read"])), params(OwnerQuery),
    request_body(content((Object = "application/json"), (String = "text/markdown"))),
    responses((status = 200, description = "The graph", body = Option<Graph>), (status = 400, body = ProblemDocument)))]
pub(crate) async fn draw_definition(
    State(config): State<Arc<Config>>,
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    upload: UploadedDefinition,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let content = upload.into_content("definition").await?;
    let draw = move |stop: &StopFlag| {
        let loader = Loader { stop: Some(stop), ..Loader::new(&config) };
        let compiled = stored::compile_for_user(&store, &loader, &user, &content)?;
        Ok::<_, AppError>(compiled.source.compiled.plan.as_ref().map(Graph::from_plan))
    };
    compile_to_json(draw).await
}
