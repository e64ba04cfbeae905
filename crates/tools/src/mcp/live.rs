//! A connection to an MCP server: the handshake, the list of its tools, and calls.

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

use super::process::{Pipes, Process};

/// Tools that a server may have, over all pages.
const MAX_TOOLS: usize = 10_000;

/// A server that has said which tools it has.
pub(super) struct Live {
    service: RunningService<RoleClient, ClientConfig>,
    /// Its process, if it is one of this machine.
    process: Option<Arc<Process>>,
    pub(super) tools: Vec<ToolDeclaration>,
}

impl Live {
    /// Shakes hands with a process and asks for its tools; else what is wrong.
    pub(super) async fn connect(process: Arc<Process>, pipes: Pipes) -> Result<Live, String> {
        let live = match rmcp::serve_client(us(), pipes).await {
            Ok(service) => Live::listed(service, Some(process.clone())).await,
            Err(error) => Err(error.to_string()),
        };
        live.map_err(|why| format!("{why}{}", process.last_words()))
    }

    /// The same with a server at an address.
    pub(super) async fn reach(
        client: reqwest::Client,
        at: StreamableHttpClientTransportConfig,
    ) -> Result<Live, String> {
        let versions = vec![ProtocolVersion::V_2026_07_28];
        let either = ClientLifecycleMode::Auto { preferred_versions: versions, legacy_version: None };
        let transport = || StreamableHttpClientTransport::with_client(client.clone(), at.clone());
        let service = match rmcp::service::serve_client_with_lifecycle(us(), transport(), either).await {
            Ok(service) => Ok(service),
            // Servers from before answer what they do not know in many ways.
            Err(_) => rmcp::serve_client(us(), transport()).await.map_err(|error| told(&error)),
        };
        Live::listed(service?, None).await
    }

    async fn listed(
        service: RunningService<RoleClient, ClientConfig>,
        process: Option<Arc<Process>>,
    ) -> Result<Live, String> {
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = service.list_tools(Some(page)).await.map_err(|error| told(&error))?;
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
        !self.process.as_ref().is_some_and(|process| process.is_killed())
            && !self.service.is_closed()
            && !self.service.is_transport_closed()
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
                let words = self.process.as_ref().map(|process| process.last_words()).unwrap_or_default();
                let message = format!("the MCP server ended during the call{words}");
                Err(StepError::passing(Code::McpFailed, message))
            }
            Err(error) => Err(failed(told(&error))),
        }
    }
}

fn us() -> ClientConfig {
    let us = Implementation::new("flowloom", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), us)
}

/// An error with what is behind it, where the guard's own words are.
fn told(error: &dyn Error) -> String {
    let (mut text, mut behind) = (error.to_string(), error.source());
    while let Some(cause) = behind {
        let why = cause.to_string();
        if !text.contains(&why) {
            text += &format!(": {why}");
        }
        behind = cause.source();
    }
    // Before that stands the name of a type.
    text.split_once("] error: ").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

fn declaration(tool: Tool) -> ToolDeclaration {
    let schema = serde_json::to_string(&*tool.input_schema).unwrap_or_default();
    ToolDeclaration {
        name: tool.name.into_owned(),
        description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
        parameters: parse_value(&schema).unwrap_or_else(|_| Value::map([("type", Value::from("object"))])),
    }
}
