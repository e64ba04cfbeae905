//! A connection to a running MCP server: the handshake, the list of its tools, and calls.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::request::ToolDeclaration;
use flowloom_core::value::{Map, Value};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, Tool,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};

use super::process::{Pipes, Process};

/// Tools that a server may have, over all pages.
const MAX_TOOLS: usize = 10_000;

/// A server that has said which tools it has.
pub(super) struct Live {
    service: RunningService<RoleClient, ClientConfig>,
    process: Arc<Process>,
    pub(super) tools: Vec<ToolDeclaration>,
}

impl Live {
    /// Shakes hands and asks for the tools; else what is wrong.
    pub(super) async fn connect(process: Arc<Process>, pipes: Pipes) -> Result<Live, String> {
        let us = Implementation::new("flowloom", env!("CARGO_PKG_VERSION"));
        let config = ClientConfig::new(ClientCapabilities::default(), us);
        let refused = |why: String| format!("{why}{}", process.last_words());
        let service = rmcp::serve_client(config, pipes).await.map_err(|error| refused(error.to_string()))?;
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = service.list_tools(Some(page)).await.map_err(|error| refused(error.to_string()))?;
            tools.extend(page.tools.into_iter().map(declaration));
            if tools.len() > MAX_TOOLS {
                return Err(format!("it has more than {MAX_TOOLS} tools"));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Live { service, process, tools })
    }

    /// Whether the server has not gone yet, as far as is known.
    pub(super) fn is_up(&self) -> bool {
        !self.process.is_killed() && !self.service.is_closed() && !self.service.is_transport_closed()
    }

    /// Calls a tool; when the future is dropped, the server is told.
    pub(super) async fn call(&self, tool: &str, arguments: Map) -> Result<CallToolResult, StepError> {
        let arguments = serde_json::from_str(&render::json(&arguments.into())).unwrap_or_default();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let failed = |message: String| StepError::new(Code::McpFailed, message);
        match self.service.peer().call_tool_once(request).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(failed("it asks for more than arguments, which is not possible here".to_owned())),
            Err(ServiceError::McpError(error)) => {
                Err(StepError::new(Code::FunctionFailed, format!("{} ({})", error.message, error.code.0)))
            }
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                let message = format!("the MCP server ended during the call{}", self.process.last_words());
                Err(StepError::passing(Code::McpFailed, message))
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

fn declaration(tool: Tool) -> ToolDeclaration {
    let schema = serde_json::to_string(&*tool.input_schema).unwrap_or_default();
    ToolDeclaration {
        name: tool.name.into_owned(),
        description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
        parameters: parse_value(&schema).unwrap_or_else(|_| Value::map([("type", Value::from("object"))])),
    }
}
