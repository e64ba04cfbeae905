//! Tools: workflows that others call, MCP servers, and the functions that every installation has.

pub mod agents;
pub mod catalog;
pub mod descriptor;
pub mod mcp;
pub mod memory_keys;
pub mod workflows;
