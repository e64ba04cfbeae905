//! `POST /api/v1/check`: what `flowloom check` says of a definition, without keeping it.

// The macros that describe routes write out more of a path than is needed.
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

/// What is wrong with a definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct Checked {
    /// Its format, if it is recognised.
    format: Option<&'static str>,
    /// Whether it has an error, so that it cannot be run.
    is_refused: bool,
    /// Everything that `check` says of it.
    #[schema(value_type = Vec<Object>)]
    problems: Vec<serde_json::Value>,
}

/// Checks a definition; nothing of it runs, and nothing is kept. The body is as for `PUT`.
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
        format: checked.source.compiled.format.map(|format| format.name()),
        is_refused: checked.source.is_refused(),
        problems: checked.source.problems(),
    }))
}
