//! `GET /api/v1/definitions/skeleton`: the text of a new definition.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::keys::Scope;
use flowloom_formats::{find_format, markdown};
use flowloom_lsp::builder::skeletons::new_definition;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::caller::Caller;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};

/// What the definition is called.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SkeletonQuery {
    /// The id of its format.
    format: String,
    /// Its id.
    name: String,
}

/// A new definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct Skeleton {
    /// Name of its file.
    entry: String,
    text: String,
}

/// Returns a small definition of a format that compiles and runs as it is. Nothing is stored.
#[utoipa::path(get, path = "/api/v1/definitions/skeleton", tag = "workflows", operation_id = "get_skeleton", security(("key" = ["read"])), params(SkeletonQuery),
    responses((status = 200, body = Skeleton), (status = 404, description = "There is no such format", body = ProblemDocument)))]
pub(crate) async fn get_skeleton(
    State(config): State<Arc<Config>>,
    caller: Caller,
    QueryParams(query): QueryParams<SkeletonQuery>,
) -> ApiResult<Json<Skeleton>> {
    caller.require_scope(Scope::Read)?;
    let model = config.default_model.value.as_deref().unwrap_or("provider:model");
    let format = find_format(&query.format);
    let text = format.and_then(|format| new_definition(format, &query.name, model));
    let text = text.ok_or_else(|| Problem::not_found("format", &query.format))?;
    let end = if format == Some(markdown::FORMAT) { "mdx" } else { "json" };
    Ok(Json(Skeleton { entry: format!("{}.{end}", query.name), text }))
}
