//! How a run reaches the world outside: HTTP behind the egress guard, web pages, and functions by id.
//!
//! Everything that leaves the process goes through [`http::HttpClient`], so one guard ([`egress`]) sees every address and
//! secrets become values in one place ([`secrets`]). Models, the sandbox and the choice of configuration live elsewhere;
//! nothing here reads a flag, a configuration file or the environment.
#![warn(missing_docs)]

pub mod address;
pub mod egress;
pub mod functions;
pub mod http;
pub mod mcp;
pub mod scrape;
pub mod secrets;

#[cfg(test)]
mod tests;

pub use egress::{EgressPolicy, HostPort, Lookup, SystemLookup};
pub use functions::{Capabilities, FunctionConfig, HttpFunction, NativeFunction, Registry, SearchProvider, WebSearch};
pub use http::{HttpClient, HttpLimits};
pub use mcp::{McpConfig, McpServer, Remote};
pub use scrape::PageScraper;
pub use secrets::Secrets;
