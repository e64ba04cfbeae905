//! The errors of tools, and how each becomes the error of a step.

use flowloom_core::code::Code;
use flowloom_core::error::{Retry, StepFailure};
use flowloom_runtime::causes::log_causes;

use crate::egress::EgressError;
use crate::functions::error::{FileError, FunctionError};
use crate::http::error::{HttpError, RequestError};
use crate::mcp::error::McpError;
use crate::scrape::error::ScrapeError;
use crate::secrets::{Redacted, SecretError};

/// Why an effect outside the process has no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A host may not be reached.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// A secret may not be used, or is not set.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A request is not valid; it contains no secret yet.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A request has no complete response.
    #[error(transparent)]
    Http(#[from] Box<Redacted<HttpError>>),
    /// A page has no content.
    #[error(transparent)]
    Scrape(#[from] ScrapeError),
    /// A function failed.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] Box<Redacted<FileError>>),
    /// A tool of an MCP server failed.
    #[error(transparent)]
    Mcp(#[from] McpError),
}

impl ToolError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ToolError::Egress(error) => error.code(),
            ToolError::Secret(error) => error.code(),
            ToolError::Request(_) => Code::HttpRequestInvalid,
            ToolError::Http(error) => error.inner().code(),
            ToolError::Scrape(error) => error.code(),
            ToolError::Function(error) => error.code(),
            ToolError::File(error) => error.inner().code(),
            ToolError::Mcp(error) => error.code(),
        }
    }

    /// Whether a retry may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            ToolError::Http(error) => error.inner().retry(),
            ToolError::Scrape(error) => error.retry(),
            ToolError::Function(error) => error.retry(),
            ToolError::Mcp(error) => error.retry(),
            ToolError::Egress(_) | ToolError::Secret(_) | ToolError::Request(_) | ToolError::File(_) => Retry::Never,
        }
    }
}

/// The causes are logged here, because a step's error has none. Secrets are redacted where the errors arise.
impl From<ToolError> for StepFailure {
    fn from(error: ToolError) -> StepFailure {
        log_causes(error.code(), &error);
        StepFailure { code: error.code(), message: error.to_string(), retry: error.retry() }
    }
}
