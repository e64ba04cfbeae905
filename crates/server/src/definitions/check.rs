//! `POST /api/v1/check`: validates a definition like `flowloom check`, without storing it.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::stored;
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_store::{SHARED_USER, Store};
use serde::Serialize;
use utoipa::ToSchema;

use super::upload::UploadedDefinition;
use crate::caller::Caller;
use crate::definitions::change::OwnerQuery;
use crate::params::QueryParams;
use crate::problem::{ApiResult, ProblemDocument};

/// The result of checking a definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct CheckResult {
    /// Detected format; null if it is unknown.
    format: Option<String>,
    /// Whether it has an error and therefore cannot be run.
    is_refused: bool,
    /// The diagnostics, as reported by `flowloom check --json`: at most 200, and then one that counts the others.
    #[schema(value_type = Vec<crate::openapi_types::DiagnosticSchema>)]
    problems: Vec<serde_json::Value>,
}

/// Validates a definition without running or storing it. The body is the same as for `PUT`.
#[utoipa::path(post, path = "/api/v1/check", tag = "workflows", operation_id = "check_definition", security(("key" = ["read"])), params(OwnerQuery),
    request_body(content((Object = "application/json"), (String = "text/markdown"))),
    responses((status = 200, body = CheckResult), (status = 400, body = ProblemDocument)))]
pub(crate) async fn check_definition(
    State(config): State<Arc<Config>>,
    State(store): State<Arc<Store>>,
    caller: Caller,
    QueryParams(whose): QueryParams<OwnerQuery>,
    upload: UploadedDefinition,
) -> ApiResult<Json<CheckResult>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(whose.user)?;
    let content = upload.into_content("definition").await?;
    let checked = crate::blocking::compile_blocking(move |stop| {
        let loader = Loader { stop: Some(stop), ..Loader::new(&config) };
        let mut checked = stored::compile_for_user(&store, &loader, &user, &content)?;
        let tenant = Some(user.as_str()).filter(|user| *user != SHARED_USER);
        checked.source.add_secret_warnings(&config, tenant);
        checked.source.add_injection_warnings(&config);
        checked.source.add_cost_warnings(&config);
        Ok::<_, AppError>(CheckResult {
            format: checked.source.compiled.format.map(|format| format.to_string()),
            is_refused: checked.source.is_refused(),
            problems: checked.source.problems(),
        })
    });
    Ok(Json(checked.await??))
}
