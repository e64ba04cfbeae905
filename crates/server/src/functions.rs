//! `GET /api/v1/functions` and `/api/v1/servers`: what steps and agents can call.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::config::functions::FunctionSettings;
use flowloom_app::keys::Scope;
use flowloom_app::tools::mcp::McpServers;
use flowloom_core::chat::ToolDeclaration;
use flowloom_formats::{find_built_in_parameters, list_built_in_functions};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::state::Server;

/// The routes of functions and MCP servers.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(list_functions))
        .routes(routes!(list_servers))
        .routes(routes!(list_server_tools))
}

/// The functions that definitions can call.
#[derive(Serialize, ToSchema)]
pub(crate) struct FunctionList {
    items: Vec<FunctionInfo>,
}

/// A function.
#[derive(Serialize, ToSchema)]
pub(crate) struct FunctionInfo {
    id: String,
    description: String,
    /// Whether it is built in; otherwise it is configured.
    is_built_in: bool,
    /// The address or the workflow behind a configured function; null for callers that act for one user.
    target: Option<String>,
    /// Whether each call by a model needs approval.
    needs_approval: bool,
    /// JSON Schema of the arguments, if it is known.
    #[schema(value_type = Option<Object>)]
    parameters: Option<serde_json::Value>,
}

/// Lists built-in and configured functions.
#[utoipa::path(get, path = "/api/v1/functions", operation_id = "list_functions", tag = "functions", security(("key" = ["read"])),
    responses((status = 200, description = "The functions", body = FunctionList)))]
pub(crate) async fn list_functions(State(config): State<Arc<Config>>, caller: Caller) -> ApiResult<Json<FunctionList>> {
    caller.require_scope(Scope::Read)?;
    let configured = &config.functions;
    let declarations = FunctionSettings::collect_declarations(configured);
    let own = configured.iter().map(|(id, settings)| FunctionInfo {
        id: id.clone(),
        description: settings.description.clone().unwrap_or_default(),
        is_built_in: false,
        target: settings.url.clone().or(settings.workflow.clone()).filter(|_| caller.user.is_none()),
        needs_approval: declarations.get(id).is_some_and(|declaration| declaration.needs_approval),
        parameters: settings.parameters.clone(),
    });
    let built_in = list_built_in_functions().into_iter().filter(|(id, _)| !configured.contains_key(id));
    let built_in = built_in.map(|(id, description)| FunctionInfo {
        parameters: find_built_in_parameters(&id).map(|parameters| serde_json::json!(parameters)),
        id,
        description,
        is_built_in: true,
        target: None,
        needs_approval: false,
    });
    Ok(Json(FunctionList { items: own.chain(built_in).collect() }))
}

/// The configured MCP servers.
#[derive(Serialize, ToSchema)]
pub(crate) struct McpServerList {
    items: Vec<McpServerInfo>,
}

/// A configured MCP server.
#[derive(Serialize, ToSchema)]
pub(crate) struct McpServerInfo {
    /// Its name; its tools are called `NAME::TOOL`.
    name: String,
    /// The program or the address; null for callers that act for one user.
    target: Option<String>,
}

/// Lists the configured MCP servers. None is started.
#[utoipa::path(get, path = "/api/v1/servers", operation_id = "list_servers", tag = "functions", security(("key" = ["read"])),
    responses((status = 200, description = "The servers", body = McpServerList)))]
pub(crate) async fn list_servers(State(config): State<Arc<Config>>, caller: Caller) -> ApiResult<Json<McpServerList>> {
    caller.require_scope(Scope::Read)?;
    let server = |(name, settings): (&String, &flowloom_app::config::mcp::McpSettings)| McpServerInfo {
        name: name.clone(),
        target: settings.url.clone().or(settings.command.clone()).filter(|_| caller.user.is_none()),
    };
    Ok(Json(McpServerList { items: config.mcp.iter().map(server).collect() }))
}

/// The tools of an MCP server.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerToolList {
    items: Vec<ServerTool>,
}

/// A tool of an MCP server.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerTool {
    name: String,
    description: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    parameters: flowloom_core::Value,
}

/// Lists the tools of an MCP server, which is started or called for that.
#[utoipa::path(get, path = "/api/v1/servers/{name}/tools", operation_id = "list_server_tools", tag = "functions", params(("name" = String, Path)), security(("key" = ["run"])),
    responses((status = 200, description = "The tools", body = ServerToolList), (status = 404, body = ProblemDocument), (status = 502, description = "The server cannot be reached", body = ProblemDocument)))]
pub(crate) async fn list_server_tools(
    State(config): State<Arc<Config>>,
    State(servers): State<Arc<McpServers>>,
    caller: Caller,
    PathParam(name): PathParam<String>,
) -> ApiResult<Json<ServerToolList>> {
    caller.require_scope(Scope::Run)?;
    let settings = config.mcp.get(&name).ok_or_else(|| Problem::not_found("MCP server", &name))?;
    let tool = |ToolDeclaration { name, description, parameters }| ServerTool { name, description, parameters };
    let tools = servers
        .query_tools(&name, settings)
        .await
        .map_err(|error| Problem::from(error).with_status(axum::http::StatusCode::BAD_GATEWAY))?;
    Ok(Json(ServerToolList { items: tools.into_iter().map(tool).collect() }))
}
