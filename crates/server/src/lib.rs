//! The HTTP and MCP server: thin handlers over `flowloom-app`, which does not know that it is served.
#![warn(missing_docs)]

mod agents;
mod audit;
mod blocking;
mod body;
mod caller;
mod compat;
mod cors;
mod definitions;
mod describe;
mod docs;
mod error;
mod guard;
mod health;
mod hooks;
mod key_uses;
mod listen;
mod mcp;
mod models;
mod openai;
mod params;
mod peer;
mod problem;
mod rate;
mod revoked;
mod routes;
mod runs;
mod schedules;
mod serve;
mod state;
mod threads;
pub use audit::AuditEntry;
pub use error::ServeError;
pub use hooks::HookInfo;
pub use mcp::stdio::serve_stdio;
pub use schedules::Schedule;
pub use serve::{RunningServer, ServerOptions, serve_http};
