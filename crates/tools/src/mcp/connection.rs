//! A connection to an MCP server: handshake, list of tools, and calls.

use std::sync::Arc;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{ClientLifecycleMode, RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::error::{CallError, ConnectError};
use super::process::{ProcessPipes, ServerProcess};

/// Maximum number of tools of a server, over all pages.
const MAX_TOOLS: usize = 10_000;

/// A connected server whose tools are known.
pub(super) struct McpConnection {
    service: RunningService<RoleClient, ClientConfig>,
    /// Its process, if it runs on this machine.
    process: Option<Arc<ServerProcess>>,
    pub(super) tools: Vec<ToolDeclaration>,
}

impl McpConnection {
    /// Performs the handshake with a process and lists its tools.
    pub(super) async fn connect_process(
        process: Arc<ServerProcess>,
        pipes: ProcessPipes,
    ) -> Result<McpConnection, ConnectError> {
        let live = match rmcp::serve_client(client_info(), pipes).await {
            Ok(service) => McpConnection::list_tools(service, Some(process.clone())).await,
            Err(error) => Err(ConnectError::ProgramHandshake(Box::new(error))),
        };
        live.map_err(|error| error.with_last_line(process.last_stderr_line()))
    }

    /// Connects to a server at a URL.
    pub(super) async fn connect_remote(
        client: reqwest::Client,
        at: StreamableHttpClientTransportConfig,
    ) -> Result<McpConnection, ConnectError> {
        let versions = vec![ProtocolVersion::V_2026_07_28];
        let either = ClientLifecycleMode::Auto { preferred_versions: versions, legacy_version: None };
        let transport = || StreamableHttpClientTransport::with_client(client.clone(), at.clone());
        let service = match rmcp::service::serve_client_with_lifecycle(client_info(), transport(), either).await {
            Ok(service) => Ok(service),
            // Older servers respond to unknown requests in many ways.
            Err(_) => rmcp::serve_client(client_info(), transport())
                .await
                .map_err(|error| ConnectError::Handshake(Box::new(error))),
        };
        McpConnection::list_tools(service?, None).await
    }

    async fn list_tools(
        service: RunningService<RoleClient, ClientConfig>,
        process: Option<Arc<ServerProcess>>,
    ) -> Result<McpConnection, ConnectError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page =
                service.list_tools(Some(page)).await.map_err(|error| ConnectError::ListTools(Box::new(error)))?;
            tools.extend(page.tools.into_iter().map(to_declaration));
            if tools.len() > MAX_TOOLS {
                return Err(ConnectError::TooManyTools { limit: MAX_TOOLS });
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(McpConnection { service, process, tools })
    }

    /// Whether the server is still running, as far as is known.
    pub(super) fn is_up(&self) -> bool {
        !self.process.as_ref().is_some_and(|process| process.is_killed())
            && !self.service.is_closed()
            && !self.service.is_transport_closed()
    }

    /// Calls a tool. Dropping the future cancels the call on the server.
    pub(super) async fn call_tool(&self, tool: &str, arguments: Map) -> Result<CallToolResult, CallError> {
        let arguments = serde_json::from_str(&render::to_json(&arguments.into())).unwrap_or_default();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.service.peer().call_tool_once(request).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(CallError::InputRequested),
            Err(ServiceError::McpError(error)) => {
                Err(CallError::ErrorResponse { message: error.message.into_owned(), code: error.code.0 })
            }
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                let last_line = self.process.as_ref().and_then(|process| process.last_stderr_line());
                Err(CallError::ServerEnded { last_line })
            }
            Err(error) => Err(CallError::Service(Box::new(error))),
        }
    }
}

fn client_info() -> ClientConfig {
    let us = Implementation::new("flowloom", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), us)
}

fn to_declaration(tool: Tool) -> ToolDeclaration {
    let schema = serde_json::to_string(&*tool.input_schema).unwrap_or_default();
    ToolDeclaration {
        name: tool.name.into_owned(),
        description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
        parameters: parse_value(&schema).unwrap_or_else(|_| Value::map([("type", Value::from("object"))])),
    }
}
