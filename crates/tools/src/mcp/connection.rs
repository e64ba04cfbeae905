//! A connection to an MCP server: handshake, list of tools, and calls.

use std::error::Error;
use std::sync::Arc;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
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
    /// Performs the handshake with a process and lists its tools. An error describes what is wrong.
    pub(super) async fn connect_process(
        process: Arc<ServerProcess>,
        pipes: ProcessPipes,
    ) -> Result<McpConnection, String> {
        let live = match rmcp::serve_client(client_info(), pipes).await {
            Ok(service) => McpConnection::list_tools(service, Some(process.clone())).await,
            Err(error) => Err(error.to_string()),
        };
        live.map_err(|why| format!("{why}{}", process.last_stderr_line()))
    }

    /// Connects to a server at a URL.
    pub(super) async fn connect_remote(
        client: reqwest::Client,
        at: StreamableHttpClientTransportConfig,
    ) -> Result<McpConnection, String> {
        let versions = vec![ProtocolVersion::V_2026_07_28];
        let either = ClientLifecycleMode::Auto { preferred_versions: versions, legacy_version: None };
        let transport = || StreamableHttpClientTransport::with_client(client.clone(), at.clone());
        let service = match rmcp::service::serve_client_with_lifecycle(client_info(), transport(), either).await {
            Ok(service) => Ok(service),
            // Older servers respond to unknown requests in many ways.
            Err(_) => rmcp::serve_client(client_info(), transport()).await.map_err(|error| format_causes(&error)),
        };
        McpConnection::list_tools(service?, None).await
    }

    async fn list_tools(
        service: RunningService<RoleClient, ClientConfig>,
        process: Option<Arc<ServerProcess>>,
    ) -> Result<McpConnection, String> {
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = service.list_tools(Some(page)).await.map_err(|error| format_causes(&error))?;
            tools.extend(page.tools.into_iter().map(to_declaration));
            if tools.len() > MAX_TOOLS {
                return Err(format!("it has more than {MAX_TOOLS} tools"));
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
    pub(super) async fn call_tool(&self, tool: &str, arguments: Map) -> Result<CallToolResult, StepError> {
        let arguments = serde_json::from_str(&render::to_json(&arguments.into())).unwrap_or_default();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let failed = |message: String| StepError::new(Code::McpFailed, message);
        match self.service.peer().call_tool_once(request).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(failed("the tool requests further input, which is not supported".to_owned())),
            Err(ServiceError::McpError(error)) => {
                Err(StepError::new(Code::FunctionFailed, format!("{} ({})", error.message, error.code.0)))
            }
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                let words = self.process.as_ref().map(|process| process.last_stderr_line()).unwrap_or_default();
                let message = format!("the MCP server ended during the call{words}");
                Err(StepError::new_retryable(Code::McpFailed, message))
            }
            Err(error) => Err(failed(format_causes(&error))),
        }
    }
}

fn client_info() -> ClientConfig {
    let us = Implementation::new("flowloom", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), us)
}

/// The text of an error and its causes, which contain the egress policy's message.
fn format_causes(error: &dyn Error) -> String {
    let (mut text, mut behind) = (error.to_string(), error.source());
    while let Some(cause) = behind {
        let why = cause.to_string();
        if !text.contains(&why) {
            text += &format!(": {why}");
        }
        behind = cause.source();
    }
    // It is preceded by a type name.
    text.split_once("] error: ").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

fn to_declaration(tool: Tool) -> ToolDeclaration {
    let schema = serde_json::to_string(&*tool.input_schema).unwrap_or_default();
    ToolDeclaration {
        name: tool.name.into_owned(),
        description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
        parameters: parse_value(&schema).unwrap_or_else(|_| Value::map([("type", Value::from("object"))])),
    }
}
