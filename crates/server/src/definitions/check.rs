//! `POST /api/v1/check`: validates a definition like `flowloom check`, without storing it.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::{Request, State};
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::stored;
use flowloom_app::keys::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use super::upload;
use crate::caller::Caller;
use crate::definitions::change::Whose;
use crate::params::Params;
use crate::problem::{Answer, Document};
use crate::state::Server;

/// The result of checking a definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct Checked {
    /// Detected format; null if it is unknown.
    format: Option<String>,
    /// Whether it has an error and therefore cannot be run.
    is_refused: bool,
    /// All diagnostics, as reported by `flowloom check --json`.
    #[schema(value_type = Vec<Object>)]
    problems: Vec<serde_json::Value>,
}

/// Validates a definition without running or storing it. The body is the same as for `PUT`.
#[utoipa::path(post, path = "/api/v1/check", tag = "workflows", operation_id = "check_definition", security(("key" = ["read"])), params(Whose),
    request_body(content((Object = "application/json"), (String = "text/markdown"))),
    responses((status = 200, body = Checked), (status = 400, body = Document)))]
pub(crate) async fn check(
    State(server): State<Server>,
    caller: Caller,
    Params(whose): Params<Whose>,
    request: Request,
) -> Answer<Json<Checked>> {
    caller.may(Scope::Read)?;
    let holder = caller.acts_for(whose.user)?;
    let content = upload::read(request, &server, "definition").await?;
    let checked = crate::blocking::blocking(move || {
        let loader = Loader { config: &server.app.config, format: None, lenient: false };
        stored::compile_for(&server.app.store, &loader, &holder, &content)
    });
    let checked = checked.await??;
    Ok(Json(Checked {
        format: checked.source.compiled.format.map(|format| format.to_string()),
        is_refused: checked.source.is_refused(),
        problems: checked.source.problems(),
    }))
}
