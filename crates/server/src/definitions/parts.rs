//! Routes of `/api/v1/blocks`, `/api/v1/agents` and `/api/v1/tools`, which workflows share.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::http::StatusCode;
use flowloom_app::blocks::{built_in, built_in_block, id_of};
use flowloom_app::definitions::stored;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_core::hash::Hash;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_store::{Change, Changed, DefinitionKey, DefinitionRow, Kind, NewDefinition, Origin, VersionRow};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::put::Which;
use crate::caller::Caller;
use crate::definitions::change::change;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// A block, agent or tool.
#[derive(Serialize, ToSchema)]
pub(crate) struct Part {
    /// Id of the definition.
    id: String,
    /// Version number, starting at 1.
    version: u32,
    /// Hash of the content.
    hash: String,
    /// Whether it is shared with everyone.
    is_shared: bool,
    /// Whether it is built in.
    is_built_in: bool,
    /// Time of the last change, in milliseconds since the Unix epoch.
    updated_at: u64,
    /// The definition as it was uploaded.
    #[schema(value_type = Object)]
    definition: Value,
}

impl Part {
    fn of(row: DefinitionRow) -> Part {
        Part {
            version: row.version,
            is_shared: row.key.holder == flowloom_store::SHARED,
            is_built_in: false,
            updated_at: row.updated_at,
            definition: parse_value(&row.content).unwrap_or_default(),
            id: row.key.id,
            hash: row.hash,
        }
    }
}

impl Part {
    /// A built-in definition; its version and time are 0.
    fn built_in(block: &Value) -> Part {
        Part {
            id: id_of(block).to_owned(),
            version: 0,
            hash: Hash::of(render::json(block).as_bytes()).to_string(),
            is_shared: true,
            is_built_in: true,
            updated_at: 0,
            definition: block.clone(),
        }
    }

    /// A version of a definition.
    fn version(id: &str, is_shared: bool, row: VersionRow) -> Part {
        Part {
            id: id.to_owned(),
            version: row.version,
            hash: row.hash,
            is_shared,
            is_built_in: false,
            updated_at: row.at,
            definition: parse_value(&row.content).unwrap_or_default(),
        }
    }
}

/// Blocks, agents or tools, sorted by id.
#[derive(Serialize, ToSchema)]
pub(crate) struct Parts {
    items: Vec<Part>,
}

async fn all(server: Server, holder: String, kind: Kind) -> Answer<Parts> {
    let rows = crate::blocking::blocking(move || stored::list(&server.app.store, &holder, kind)).await??;
    let mut items: Vec<Part> = rows.into_iter().map(Part::of).collect();
    if kind == Kind::Block {
        let brought = built_in().iter().filter(|block| !items.iter().any(|item| item.id == id_of(block)));
        let brought: Vec<Part> = brought.map(Part::built_in).collect();
        items.extend(brought);
        items.sort_by(|a, b| a.id.cmp(&b.id));
    }
    Ok(Parts { items })
}

/// The definition that is effective for a user: the current content or the requested version.
async fn one(server: &Server, which: Which, caller: &Caller, kind: Kind, id: String) -> Answer<Part> {
    caller.may(Scope::Read)?;
    let holder = caller.acts_for(which.user)?;
    if let Some(version) = which.version {
        let (key, rows) = versions(server, holder, kind, &id).await?;
        let row = rows.into_iter().find(|row| row.version == version);
        let is_shared = key.holder == flowloom_store::SHARED;
        return row.map(|row| Part::version(&id, is_shared, row)).ok_or_else(|| Problem::not_there(kind.name(), &id));
    }
    match built_in_block(&id).filter(|_| kind == Kind::Block) {
        Some(block) => Ok(find(server, holder, kind, &id).await.map_or_else(|_| Part::built_in(block), Part::of)),
        None => find(server, holder, kind, &id).await.map(Part::of),
    }
}

/// Every version of a definition of the user, or else of everyone.
async fn versions(server: &Server, holder: String, kind: Kind, id: &str) -> Answer<(DefinitionKey, Vec<VersionRow>)> {
    let (shared, id) = (server.clone(), id.to_owned());
    let found = crate::blocking::blocking(move || {
        for holder in [holder, flowloom_store::SHARED.to_owned()] {
            let key = DefinitionKey { holder, kind, id: id.clone() };
            let rows = shared.app.store.versions(&key)?;
            if !rows.is_empty() {
                return Ok((key, rows));
            }
        }
        Err(Problem::not_there(kind.name(), &id))
    });
    found.await?
}

/// The definition that is effective for a user. Fails with `NotThere`.
pub(crate) async fn find(server: &Server, holder: String, kind: Kind, id: &str) -> Answer<DefinitionRow> {
    let (shared, wanted) = (server.clone(), id.to_owned());
    let found = crate::blocking::blocking(move || stored::find(&shared.app.store, &holder, kind, &wanted)).await??;
    found.ok_or_else(|| Problem::not_there(kind.name(), id))
}

/// Stores a definition under its own id. Fails with `RequestInvalid` if it names another id.
pub(crate) async fn keep(server: &Server, key: DefinitionKey, part: &Value) -> Answer<Changed> {
    let names: &[&str] = match key.kind {
        Kind::Agent => &["id", "agentId", "agent_id"],
        Kind::Tool => &["id", "toolId", "tool_id"],
        Kind::Block | Kind::Workflow => &["id"],
    };
    let Some(object) = part.as_map() else {
        return Err(Problem::new(Code::RequestInvalid, format!("a {} is a JSON object", key.kind.name())));
    };
    let own = names.iter().find_map(|name| object.get(*name));
    if let Some(own) = own.filter(|own| own.as_str() != Some(&key.id)) {
        let message = format!("the {} has the id {}; expected the id of the URL", key.kind.name(), render::json(own));
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    let mut part = object.clone();
    if own.is_none() {
        part.insert(names[0].into(), key.id.as_str().into());
    }
    let part = Value::from(part);
    if key.kind == Kind::Block {
        let changed = server.app.blocks.put(&key.holder, &[part]).await?;
        return Ok(changed.first().copied().unwrap_or(Changed::Missing));
    }
    let content = render::json(&part);
    change(server, Change::Put(NewDefinition { key, format: None, content, origin: Origin::Api, uses: Vec::new() }))
        .await
}

fn status(changed: Changed) -> StatusCode {
    if changed == Changed::Created { StatusCode::CREATED } else { StatusCode::OK }
}

/// The same five routes for each kind.
macro_rules! routes_of {
    ($module:ident, $kind:expr, $list:literal, $one:literal, $tag:literal) => {
        #[doc = concat!("`", $list, "`.")]
        pub(crate) mod $module {
            use crate::definitions::change::Whose;
            use crate::definitions::change::changeable;
            use crate::definitions::change::delete;
            use crate::definitions::put::Versions;
            use crate::definitions::put::Which;
            use super::Part;
            use super::Parts;
            use super::all;
            use super::find;
            use super::keep;
            use super::one;
            use super::status;
            use crate::state::Server;
            use crate::body::Body;
            use crate::caller::Caller;
            use flowloom_app::keys::Scope;
            use crate::params::At;
            use crate::params::Params;
            use crate::problem::Answer;
            use crate::problem::Document;
            use axum::Json;
            use axum::extract::State;
            use axum::http::StatusCode;
            use flowloom_core::value::Value;

            /// Lists all definitions of the user and those shared with everyone.
            #[utoipa::path(get, path = $list, operation_id = concat!("list_", $tag), tag = $tag, security(("key" = ["read"])), params(Whose), responses((status = 200, body = Parts)))]
            pub(crate) async fn list(
                State(server): State<Server>,
                caller: Caller,
                Params(whose): Params<Whose>,
            ) -> Answer<Json<Parts>> {
                caller.may(Scope::Read)?;
                Ok(Json(all(server, caller.acts_for(whose.user)?, $kind).await?))
            }

            /// Returns one definition.
            #[utoipa::path(get, path = $one, operation_id = concat!("get_", $tag), tag = $tag, security(("key" = ["read"])), params(("id" = String, Path), Which),
                                responses((status = 200, body = Part), (status = 404, body = Document)))]
            pub(crate) async fn get(
                State(server): State<Server>,
                caller: Caller,
                At(id): At<String>,
                Params(which): Params<Which>,
            ) -> Answer<Json<Part>> {
                one(&server, which, &caller, $kind, id).await.map(Json)
            }

            /// Lists every version, newest first, also of a deleted definition.
            #[utoipa::path(get, path = concat!($one, "/versions"), operation_id = concat!("list_", $tag, "_versions"), tag = $tag, security(("key" = ["read"])), params(("id" = String, Path), Whose),
                                responses((status = 200, body = Versions), (status = 404, body = Document)))]
            pub(crate) async fn versions(
                State(server): State<Server>,
                caller: Caller,
                At(id): At<String>,
                Params(whose): Params<Whose>,
            ) -> Answer<Json<Versions>> {
                caller.may(Scope::Read)?;
                let (_, rows) = super::versions(&server, caller.acts_for(whose.user)?, $kind, &id).await?;
                Ok(Json(Versions::of(rows)))
            }

            /// Creates or replaces the definition with this id.
            #[utoipa::path(put, path = $one, operation_id = concat!("put_", $tag), tag = $tag, security(("key" = ["write"])), params(("id" = String, Path), Whose),
                                request_body(content = Object, content_type = "application/json"),
                                responses((status = 200, description = "Updated or unchanged", body = Part),
                                    (status = 201, description = "Created", body = Part), (status = 400, body = Document)))]
            pub(crate) async fn put(
                State(server): State<Server>,
                caller: Caller,
                At(id): At<String>,
                Params(whose): Params<Whose>,
                Body(part, _): Body<Value>,
            ) -> Answer<(StatusCode, Json<Part>)> {
                let key = changeable(&caller, whose.user, $kind, &id)?;
                let holder = key.holder.clone();
                let changed = keep(&server, key, &part).await?;
                Ok((status(changed), Json(Part::of(find(&server, holder, $kind, &id).await?))))
            }

            /// Deletes a definition. Fails while a workflow uses it.
            #[utoipa::path(delete, path = $one, operation_id = concat!("delete_", $tag), tag = $tag, security(("key" = ["write"])), params(("id" = String, Path), Whose),
                                responses((status = 204, description = "Deleted"), (status = 404, body = Document), (status = 409, body = Document)))]
            pub(crate) async fn remove(
                State(server): State<Server>,
                caller: Caller,
                At(id): At<String>,
                Params(whose): Params<Whose>,
            ) -> Answer<StatusCode> {
                delete(&server, changeable(&caller, whose.user, $kind, &id)?).await?;
                Ok(StatusCode::NO_CONTENT)
            }
        }
    };
}

routes_of!(blocks, flowloom_store::Kind::Block, "/api/v1/blocks", "/api/v1/blocks/{id}", "blocks");
routes_of!(agents, flowloom_store::Kind::Agent, "/api/v1/agents", "/api/v1/agents/{id}", "agents");
routes_of!(tools, flowloom_store::Kind::Tool, "/api/v1/tools", "/api/v1/tools/{id}", "tools");

/// The routes of blocks, agents and tools.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(blocks::list))
        .routes(routes!(blocks::get, blocks::put, blocks::remove))
        .routes(routes!(blocks::versions))
        .routes(routes!(agents::list))
        .routes(routes!(agents::get, agents::put, agents::remove))
        .routes(routes!(agents::versions))
        .routes(routes!(tools::list))
        .routes(routes!(tools::get, tools::put, tools::remove))
        .routes(routes!(tools::versions))
}
