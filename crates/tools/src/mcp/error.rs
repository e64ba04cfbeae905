//! Errors of MCP servers and their tools.

use std::error::Error;
use std::io;

use flowloom_core::code::Code;
use flowloom_core::error::Retry;
use flowloom_core::json::JsonError;
use rmcp::service::{ClientInitializeError, ServiceError};

use crate::http::error::HttpError;
use crate::secrets::{Redacted, SecretError};

/// Why a tool of an MCP server has no result.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// A secret of the server or of the call may not be used, or is not set.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The server cannot be started or reached.
    #[error("the MCP server {server} cannot be used: {error}")]
    CannotConnect {
        /// Name of the server.
        server: String,
        /// The reason.
        #[source]
        error: Box<Redacted<ConnectError>>,
    },
    /// The server has no such tool, or it may not be used.
    #[error(
        "the tool {tool} of the MCP server {server} {}; {}",
        if *is_declared { "is not in the configured list of tools" } else { "does not exist" },
        suggest_tool(server, similar.as_deref(), allowed)
    )]
    UnknownTool {
        /// Name of the server.
        server: String,
        /// Name of the tool.
        tool: String,
        /// Whether the server has the tool.
        is_declared: bool,
        /// A tool that is probably meant.
        similar: Option<String>,
        /// The tools that may be used.
        allowed: Vec<String>,
    },
    /// The call failed.
    #[error("{server}::{tool}: {error}")]
    CallFailed {
        /// Name of the server.
        server: String,
        /// Name of the tool.
        tool: String,
        /// The reason.
        #[source]
        error: Box<Redacted<CallError>>,
        /// Whether the call may be repeated: not if it may have taken effect.
        can_repeat: bool,
    },
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is not valid.
    #[error("{url} is not a URL")]
    NotAUrl {
        /// The URL.
        url: String,
    },
    /// The egress policy refuses the URL, or there is no HTTP client.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A header cannot be sent.
    #[error("the header {name} has an invalid name or value")]
    InvalidHeader {
        /// Name of the header.
        name: String,
    },
    /// The program cannot be started.
    #[error("cannot start {command_line}: {source}")]
    NotStarted {
        /// The program and its arguments.
        command_line: String,
        /// The reason.
        source: io::Error,
    },
    /// The program has no standard streams.
    #[error("its pipes are missing")]
    NoPipes,
    /// The server was not ready in time.
    #[error("it was not ready within {limit_ms} ms")]
    Timeout {
        /// The start timeout, in milliseconds.
        limit_ms: u128,
    },
    /// The handshake with a program failed.
    #[error("{0}")]
    ProgramHandshake(#[source] Box<ClientInitializeError>),
    /// The handshake with a server at a URL failed.
    #[error("{}", format_service_causes(&**.0))]
    Handshake(#[source] Box<ClientInitializeError>),
    /// The list of tools cannot be read.
    #[error("{}", format_service_causes(&**.0))]
    ListTools(#[source] Box<ServiceError>),
    /// The list of tools is too long.
    #[error("it has more than {limit} tools")]
    TooManyTools {
        /// Maximum number of tools.
        limit: usize,
    },
    /// The program failed and printed something.
    #[error("{error}; last line of its stderr: {last_line}")]
    WithProgramOutput {
        /// The failure.
        #[source]
        error: Box<ConnectError>,
        /// The last line that it printed on stderr.
        last_line: String,
    },
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call took too long.
    #[error("it did not answer within {limit_ms} ms")]
    Timeout {
        /// The call timeout, in milliseconds.
        limit_ms: u128,
    },
    /// The tool asks for something in the middle of the call.
    #[error("the tool requests further input, which is not supported")]
    InputRequested,
    /// The server answered with an error; the text is its own.
    #[error("{message} ({code})")]
    ErrorResponse {
        /// The server's text.
        message: String,
        /// The JSON-RPC code.
        code: i32,
    },
    /// The server ended, or closed the connection.
    #[error("the MCP server ended during the call{}", quote_last_line(last_line.as_deref()))]
    ServerEnded {
        /// The last line that it printed on stderr.
        last_line: Option<String>,
    },
    /// The protocol failed.
    #[error("{}", format_service_causes(&**.0))]
    Service(#[source] Box<ServiceError>),
    /// The tool failed; the text is its own.
    #[error("{message}")]
    ToolFailed {
        /// The tool's text.
        message: String,
    },
    /// The tool failed and sent no text.
    #[error("it failed without a message")]
    ToolFailedSilently,
    /// The structured content of the result is not JSON.
    #[error("cannot read its result: {0}")]
    ResultNotJson(#[source] JsonError),
}

impl McpError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            McpError::Secret(error) => error.code(),
            McpError::CannotConnect { error, .. } => error.inner().code(),
            McpError::UnknownTool { .. } => Code::FunctionUnknown,
            McpError::CallFailed { error, .. } => error.inner().code(),
        }
    }

    /// Whether a retry may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            McpError::CannotConnect { .. } => Retry::Maybe,
            McpError::CallFailed { error, can_repeat: true, .. } => error.inner().retry(),
            McpError::CallFailed { .. } | McpError::Secret(_) | McpError::UnknownTool { .. } => Retry::Never,
        }
    }
}

impl ConnectError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ConnectError::Http(error) => error.code(),
            ConnectError::WithProgramOutput { error, .. } => error.code(),
            ConnectError::NotAUrl { .. }
            | ConnectError::InvalidHeader { .. }
            | ConnectError::NotStarted { .. }
            | ConnectError::NoPipes
            | ConnectError::Timeout { .. }
            | ConnectError::ProgramHandshake(_)
            | ConnectError::Handshake(_)
            | ConnectError::ListTools(_)
            | ConnectError::TooManyTools { .. } => Code::McpFailed,
        }
    }

    /// The same error with the last line that the program printed, if there is one.
    pub(super) fn with_last_line(self, last_line: Option<String>) -> ConnectError {
        match last_line {
            Some(last_line) => ConnectError::WithProgramOutput { error: Box::new(self), last_line },
            None => self,
        }
    }
}

impl CallError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            CallError::ErrorResponse { .. } | CallError::ToolFailed { .. } | CallError::ToolFailedSilently => {
                Code::FunctionFailed
            }
            CallError::Timeout { .. }
            | CallError::InputRequested
            | CallError::ServerEnded { .. }
            | CallError::Service(_)
            | CallError::ResultNotJson(_) => Code::McpFailed,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            CallError::Timeout { .. } | CallError::ServerEnded { .. } => Retry::Maybe,
            _ => Retry::Never,
        }
    }
}

fn suggest_tool(server: &str, similar: Option<&str>, allowed: &[String]) -> String {
    match similar {
        Some(similar) => format!("did you mean {server}::{similar}?"),
        None => format!("its tools are {}", allowed.join(", ")),
    }
}

fn quote_last_line(last_line: Option<&str>) -> String {
    last_line.map(|line| format!("; last line of its stderr: {line}")).unwrap_or_default()
}

/// The text of an error and its causes, which contain the egress policy's message.
fn format_service_causes(error: &dyn Error) -> String {
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
