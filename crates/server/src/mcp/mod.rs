//! Workflows as tools over the Model Context Protocol (docs/protocols.md): `/mcp` of a server (`http`), and `flowloom
//! mcp` on stdio (`stdio`). rmcp implements the protocol; this module implements listing and calling tools.

mod call;
mod elicitation;
mod envelope;
pub(crate) mod http;
mod message_pipes;
mod progress;
mod result;
pub(crate) mod stdio;
mod tools;
mod transport;

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::request::Parts;
use flowloom_app::definitions::stored::is_definition_id;
use flowloom_app::keys::Scope;
use flowloom_app::tools::catalog::list_tools;
use flowloom_app::tools::descriptor::{ToolDescriptor, make_names_unique};
use flowloom_core::code::Code;
use flowloom_core::hash::Hash;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;

use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::runs::start::idempotency_key;
use crate::state::RunHost;
use call::ToolCallHandler;
use http::McpSessionEnd;

/// Instructions for models that use the tools.
const SERVER_INSTRUCTIONS: &str =
    "Each tool runs a workflow to its end. A result names its run in _meta, as flowloom/run.";

/// The key in `_meta` that names the conversation, in calls and results.
const THREAD_META_KEY: &str = "flowloom/thread";

/// The header that names the session, for clients that initialise one.
const SESSION_HEADER: &str = "mcp-session-id";

/// Handles the requests of one client.
pub(crate) struct McpHandler {
    host: Arc<RunHost>,
    /// The only client of this process; `None` over HTTP, where every request is authenticated.
    local_client: Option<LocalClient>,
}

/// Who sends a request, and how.
struct RequestOrigin {
    caller: Caller,
    headers: HeaderMap,
    session_end: McpSessionEnd,
}

/// The only client of a process on stdio.
struct LocalClient {
    caller: Caller,
    /// The conversation of calls that name none.
    thread: String,
}

impl McpHandler {
    /// Who sends a request. Fails if nobody authenticated it.
    fn find_origin(&self, context: &RequestContext<RoleServer>) -> Result<RequestOrigin, ErrorData> {
        if let Some(alone) = &self.local_client {
            let (caller, headers) = (alone.caller.clone(), HeaderMap::new());
            return Ok(RequestOrigin { caller, headers, session_end: McpSessionEnd::default() });
        }
        let read = |parts: &Parts| {
            let caller = parts.extensions.get::<Caller>()?.clone();
            let session_end = parts.extensions.get::<McpSessionEnd>().cloned().unwrap_or_default();
            Some(RequestOrigin { caller, headers: parts.headers.clone(), session_end })
        };
        let origin = context.extensions.get::<Parts>().and_then(read);
        origin.ok_or_else(|| ErrorData::internal_error("the request has no authenticated caller", None))
    }

    /// The tools available to the caller.
    async fn list_available(&self, caller: &Caller) -> ApiResult<Vec<ToolDescriptor>> {
        let (host, user) = (self.host.clone(), caller.resolve_user(None)?);
        Ok(crate::blocking::run_blocking(move || list_tools(&host.catalog, &user)).await?.map(make_names_unique)?)
    }

    /// The conversation of a call: the named one, or else the session's, or else a new one, which repetitions of the call
    /// under its idempotency key have again.
    fn choose_thread(&self, context: &RequestContext<RoleServer>, headers: &HeaderMap) -> ApiResult<String> {
        // A caller who may list threads must not learn the id of a session.
        let session = || {
            let id = headers.get(SESSION_HEADER)?.to_str().ok()?;
            Some(Hash::of_bytes(format!("session {id}").as_bytes()).to_string())
        };
        match context.meta.get(THREAD_META_KEY) {
            Some(named) => match named.as_str().filter(|name| is_definition_id(name)) {
                Some(name) => Ok(name.to_owned()),
                None => Err(Problem::new(Code::RequestInvalid, format!("{named} is not a valid thread name"))),
            },
            None => {
                let defaults = self.local_client.as_ref().map(|alone| alone.thread.clone()).or_else(session);
                Ok(match (defaults, idempotency_key(headers)?) {
                    (Some(thread), _) => thread,
                    (None, Some(key)) => Hash::of_bytes(format!("thread {key}").as_bytes()).to_string(),
                    (None, None) => uuid::Uuid::new_v4().to_string(),
                })
            }
        }
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let us = Implementation::new("flowloom", env!("CARGO_PKG_VERSION"));
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(us).with_instructions(SERVER_INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let RequestOrigin { caller, .. } = self.find_origin(&context)?;
        caller.require_scope(Scope::Read).map_err(to_protocol_error)?;
        let work = self.host.places.request_of(caller.user_id());
        let descriptors = work.serve_handler(self.list_available(&caller)).await.map_err(to_protocol_error)?;
        let cursor = request.and_then(|request| request.cursor);
        let page = tools::list_page(&descriptors, cursor.as_deref());
        page.ok_or_else(|| ErrorData::invalid_params("invalid cursor", None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let origin = self.find_origin(&context)?;
        let work = self.host.places.request_of(origin.caller.user_id());
        work.serve_handler(self.handle_call(origin, request, context)).await
    }
}

impl McpHandler {
    async fn handle_call(
        &self,
        origin: RequestOrigin,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let RequestOrigin { caller, headers, session_end } = origin;
        caller.require_scope(Scope::Run).map_err(to_protocol_error)?;
        let descriptors = self.list_available(&caller).await.map_err(to_protocol_error)?;
        let descriptor = descriptors.into_iter().find(|descriptor| descriptor.declaration.name == request.name);
        let unknown = || ErrorData::invalid_params(format!("there is no tool {}", request.name), None);
        let descriptor = descriptor.ok_or_else(unknown)?;
        let thread = match descriptor.plan.thread {
            Some(_) => Some(self.choose_thread(&context, &headers).map_err(to_protocol_error)?),
            None => None,
        };
        let host = &self.host;
        let calling = ToolCallHandler { host, caller, headers, session_end, tool: descriptor, thread, context };
        // Invalid arguments are reported as a tool result, so that the model can correct them.
        Ok(calling.handle(request).await.unwrap_or_else(|problem| result::problem_result(&problem).into()))
    }
}

/// Converts a problem of the request itself into a protocol error.
fn to_protocol_error(problem: Problem) -> ErrorData {
    let code = if problem.status().is_server_error() { ErrorCode::INTERNAL_ERROR } else { ErrorCode::INVALID_REQUEST };
    let data = json!({"code": problem.code().to_string(), "status": problem.status().as_u16()});
    ErrorData::new(code, problem.detail().to_owned(), Some(data))
}
