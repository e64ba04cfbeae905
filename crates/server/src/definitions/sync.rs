//! `PUT /api/v1/workflows`: synchronises a whole folder.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::Json;
use axum::extract::State;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::sync::{self, Item, Synced};
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::blocking::blocking;
use crate::body::Body;
use crate::caller::Caller;
use crate::definitions::change::not_in_folder;
use crate::params::Params;
use crate::problem::{Answer, Document, Problem};
use crate::state::Server;

/// Query parameters of a synchronisation.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct How {
    /// User who owns the workflows.
    #[serde(default)]
    user: Option<String>,
    /// Delete workflows that an earlier synchronisation created and that are missing from this one.
    #[serde(default)]
    prune: bool,
    /// Only report what would be changed.
    #[serde(default)]
    dry_run: bool,
}

/// The workflows of a folder.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Folder {
    #[schema(value_type = Vec<Object>)]
    items: Vec<Item>,
}

/// Ids of the workflows by outcome.
#[derive(Serialize, ToSchema)]
pub(crate) struct Done {
    created: Vec<String>,
    updated: Vec<String>,
    unchanged: Vec<String>,
    deleted: Vec<String>,
}

/// Makes the stored workflows match a folder, or changes nothing if one of them has an error. Each item is `{"id",
/// "entry", "files"}`.
#[utoipa::path(put, path = "/api/v1/workflows", tag = "workflows", operation_id = "sync_workflows", security(("key" = ["write"])), params(How), request_body = Folder,
    responses((status = 200, body = Done), (status = 409, body = Document), (status = 422, body = Document)))]
pub(crate) async fn put_all(
    State(server): State<Server>,
    caller: Caller,
    Params(how): Params<How>,
    Body(folder, _): Body<Folder>,
) -> Answer<Json<Done>> {
    caller.may(Scope::Write)?;
    let holder = caller.acts_for(how.user)?;
    for item in &folder.items {
        not_in_folder(&server, &item.id).await?;
    }
    let shared = server.clone();
    let planned = blocking(move || {
        let loader = Loader { config: &shared.app.config, format: None, lenient: false };
        sync::plan(&shared.app.store, &loader, &holder, folder.items, how.prune)
    })
    .await??;
    let changes = planned.map_err(|problems| {
        Problem::new(Code::StepRefused, "workflows of the folder have errors; nothing was changed")
            .with_errors(problems)
    })?;
    let Synced { created, updated, unchanged, deleted } = sync::apply(&server.app.store, changes, how.dry_run).await?;
    Ok(Json(Done { created, updated, unchanged, deleted }))
}
