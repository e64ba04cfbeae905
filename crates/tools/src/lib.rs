//! Effects outside the process: HTTP with an egress policy, web pages, MCP servers, and functions by id.
//!
//! All network traffic of this crate goes through [`http::HttpClient`], so that one policy ([`egress`]) checks every
//! address and secrets become values in one place ([`secrets`]). Models and the sandbox are other crates. Nothing here
//! reads a flag, a configuration file or the environment.
#![warn(missing_docs)]

pub mod address;
pub mod egress;
mod error;
pub mod functions;
pub mod http;
pub mod mcp;
pub mod scrape;
pub mod secrets;

#[cfg(test)]
mod tests;

pub use egress::{EgressError, EgressPolicy, HostPort, HostResolver, SystemResolver};
pub use error::ToolError;
pub use functions::{
    Capabilities, FileLimit, FunctionConfig, FunctionRegistry, HttpFunction, NativeFunction, SearchProvider, UserFiles,
    WebSearch, find_request_method,
};
pub use http::{Download, HttpClient, HttpLimits};
pub use mcp::{McpConfig, McpServer, RemoteServer};
pub use scrape::PageScraper;
pub use secrets::redactor::{HiddenSecret, ReplacedValue, SecretRedactor};
pub use secrets::{SecretError, Secrets};
