//! `[mcp]` of the configuration: the MCP servers whose tools are functions.

use std::collections::BTreeMap;

use flowloom_core::plan::EffectClass;
use serde::{Deserialize, Serialize};

use super::error::{ConfigError, TableProblem};

/// Namespaces of built-in functions, which servers may not use as names.
const RESERVED_NAMESPACES: [&str; 6] = ["agent", "flow", "human", "memory", "tool", "workflow"];

/// `[mcp.NAME]`: an MCP server, either a command to start or a URL. Its tools are functions `NAME::tool`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// The program that is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The address of a remote server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of every request to `url`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    /// Environment variables of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Prefixes of the names of the permitted tools; unset permits all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The effect class of its tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectClass>,
    /// Effect classes of individual tools, by tool name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, EffectClass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) needs_approval: Option<NeedsApproval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_timeout_ms: Option<u64>,
}

/// Which calls by a model require approval: all, or those of the named tools.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum NeedsApproval {
    All(bool),
    Tools(Vec<String>),
}

/// Validates server names and settings. Fails with `ConfigInvalid`.
pub fn validate(mcp: &BTreeMap<String, McpSettings>) -> Result<(), ConfigError> {
    for (name, server) in mcp {
        let is_started = !server.args.is_empty() || !server.env.is_empty();
        let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let problem = match RESERVED_NAMESPACES.contains(&name.as_str()) {
            true => TableProblem::ReservedName,
            false if !is_plain => TableProblem::InvalidName,
            false if server.command.is_some() == server.url.is_some() => TableProblem::CommandOrUrl,
            false if server.url.is_some() && is_started => TableProblem::ArgumentsWithUrl,
            false if server.command.is_some() && !server.headers.is_empty() => TableProblem::HeadersWithCommand,
            false => continue,
        };
        return Err(ConfigError::in_table(format!("mcp.{name:?}"), problem));
    }
    Ok(())
}
