//! The input of compiling a definition: its files, and the names that it may use. The one place where the settings of
//! an installation, or those that a bundle recorded, become [`Sources`].

use std::collections::BTreeMap;

use flowloom_core::chat::ToolDeclaration;
use flowloom_formats::agent::AvailableFlow;
use flowloom_formats::{Approval, Sources, StopFlag, ToolServer};

use crate::config::mcp::{McpSettings, NeedsApproval};
use crate::config::{FunctionSettings, ToolSettings};

/// Tool declarations by server name.
pub(crate) type ServerTools = BTreeMap<String, Vec<ToolDeclaration>>;

/// The settings that compiling depends on.
pub(crate) struct SourceSettings<'a> {
    /// Configured functions by id.
    pub functions: &'a BTreeMap<String, FunctionSettings>,
    /// Configured MCP servers by name.
    pub mcp: &'a BTreeMap<String, McpSettings>,
    /// The tools that those servers have declared.
    pub declared: &'a ServerTools,
    /// Workflows available to an agent; `None` if the definition is not an agent.
    pub flows: Option<Vec<AvailableFlow>>,
    /// The server that provides the HTTP tools of a graph's agents.
    pub tools: &'a ToolSettings,
    /// Folders of agents, by the agent's id.
    pub(crate) agent_folders: BTreeMap<String, String>,
    /// Whether dangling edges of a graph are ignored instead of rejected.
    pub is_lenient: bool,
    /// Bytes of one file at most.
    pub source_bytes: u64,
    /// Stops compiling.
    pub stop: StopFlag,
}

impl SourceSettings<'_> {
    /// The sources of a definition that consists of `files`.
    pub(crate) fn with_files(self, files: BTreeMap<String, Vec<u8>>) -> Sources {
        let functions: Vec<String> = self.functions.keys().cloned().collect();
        // Every field is named: a new one is decided here, for configurations and for bundles.
        Sources {
            files,
            functions: functions.clone(),
            configured: functions,
            declared: FunctionSettings::collect_declarations(self.functions),
            helpers: FunctionSettings::collect_helpers(self.functions),
            servers: servers(self.mcp, self.declared),
            flows: self.flows,
            is_lenient: self.is_lenient,
            tools: self.tools.to_tool_host(),
            agent_folders: self.agent_folders,
            source_bytes: self.source_bytes,
            stop: self.stop,
        }
    }
}

/// The servers in the form the compiler needs.
fn servers(mcp: &BTreeMap<String, McpSettings>, declared: &ServerTools) -> Vec<ToolServer> {
    let approval = |mcp: &McpSettings| match &mcp.needs_approval {
        Some(NeedsApproval::All(true)) => Approval::Always,
        Some(NeedsApproval::Tools(tools)) => Approval::Tools(tools.clone()),
        Some(NeedsApproval::All(false)) | None => Approval::Never,
    };
    let server = |(name, mcp): (&String, &McpSettings)| ToolServer {
        name: name.clone(),
        tools: declared.get(name).cloned(),
        approval: approval(mcp),
    };
    mcp.iter().map(server).collect()
}
