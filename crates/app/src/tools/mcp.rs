//! The configured MCP servers: their tools for the compiler and the function registry, and their processes, one per
//! server for the life of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_runtime::redact::{Redactor, redact_value};
use flowloom_tools::secrets::parse_secret_text;
use flowloom_tools::{HttpClient, McpConfig, McpServer, RemoteServer, Secrets};
use parking_lot::Mutex;

use crate::config::Config;
use crate::config::error::{ConfigError, TableProblem};
use crate::config::mcp::{McpSettings, NeedsApproval};
use crate::definitions::bundle::AvailableTools;
use crate::definitions::sources::ServerTools;
use crate::error::AppError;
use crate::redaction::build_nameless_redactor;

/// Environment variables that server processes inherit.
const INHERITED_VARIABLES: [&str; 2] = ["PATH", "HOME"];

/// The MCP servers that this program has used. They are stopped when this is dropped.
pub struct McpServers {
    folder: PathBuf,
    secrets: Arc<dyn Secrets>,
    /// HTTP client for servers with a URL.
    client: Arc<HttpClient>,
    /// Servers by name and settings, because a run keeps the settings it was created with.
    known: Mutex<BTreeMap<String, Arc<McpServer>>>,
    /// Removes all secrets of this process, whose names no user learns.
    redactor: Option<Arc<dyn Redactor>>,
}

impl McpServers {
    /// The servers of a configuration; none is started yet.
    pub fn new(config: &Config, secrets: Arc<dyn Secrets>, client: Arc<HttpClient>) -> McpServers {
        let redactor = if config.mcp.is_empty() { None } else { build_nameless_redactor(config) };
        McpServers { folder: config.base_folder(), secrets, client, known: Mutex::default(), redactor }
    }

    /// The server with this name and settings. This does not start it.
    pub fn get_or_create(&self, name: &str, mcp: &McpSettings) -> Arc<McpServer> {
        let settings = serde_json::to_string(mcp).unwrap_or_default();
        let mut known = self.known.lock();
        let make = || Arc::new(McpServer::new(name, self.build_config(mcp), self.secrets.clone()));
        known.entry(format!("{name} {settings}")).or_insert_with(make).clone()
    }

    /// Queries a server for its tools. Fails with `ConfigInvalid` if a setting names a tool that the server lacks: a
    /// typo in `needs_approval` would silently skip approvals.
    pub async fn query_tools(&self, name: &str, mcp: &McpSettings) -> Result<Vec<ToolDeclaration>, AppError> {
        let tools = self.get_or_create(name, mcp).list_tools().await?;
        let tools: Vec<ToolDeclaration> = tools.into_iter().map(|tool| self.redact_declaration(tool)).collect();
        let approved = match &mcp.needs_approval {
            Some(NeedsApproval::Tools(tools)) => tools.as_slice(),
            _ => &[],
        };
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let named = approved.iter().map(|tool| ("needs_approval", tool));
        for (key, tool) in named.chain(mcp.effects.keys().map(|tool| ("effects", tool))) {
            if !names.contains(&tool.as_str()) {
                let near = find_similar_name(tool, names.iter().copied());
                let hint = near.map_or_else(
                    || format!("expected one of {}", names.join(", ")),
                    |near| format!("did you mean {near}?"),
                );
                let problem = TableProblem::UnknownTool { setting: key, tool: tool.clone(), hint };
                return Err(ConfigError::in_table(format!("mcp.{name}"), problem).into());
            }
        }
        Ok(tools)
    }

    /// Queries several servers for their tools. Fails if one of them cannot be started, or does not have a tool that
    /// the configuration names.
    pub async fn query_available(&self, config: &Config, names: &[String]) -> Result<AvailableTools, AppError> {
        let mut servers = ServerTools::new();
        for (name, mcp) in config.mcp.iter().filter(|(name, _)| names.contains(name)) {
            // Boxed: the future of a connection is large, and most runs that could query a server query none.
            servers.insert(name.clone(), Box::pin(self.query_tools(name, mcp)).await?);
        }
        Ok(AvailableTools { servers, flows: None })
    }

    /// A declaration without secrets, which all users and models may read: a server can return what it was sent.
    fn redact_declaration(&self, tool: ToolDeclaration) -> ToolDeclaration {
        let Some(redactor) = &self.redactor else { return tool };
        let description = redactor.redact_text(&tool.description).into_owned();
        ToolDeclaration { description, parameters: redact_value(&**redactor, tool.parameters), ..tool }
    }

    fn build_config(&self, mcp: &McpSettings) -> McpConfig {
        let inherited =
            INHERITED_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let inherited = inherited.map(|(name, value)| (name, value.as_str().into()));
        let own = mcp.env.iter().map(|(name, value)| (name.clone(), parse_secret_text(value)));
        let mut config = match &mcp.url {
            Some(url) => {
                let headers =
                    mcp.headers.iter().map(|(name, value)| (name.clone(), parse_secret_text(value))).collect();
                McpConfig::for_remote(RemoteServer { url: url.clone(), headers, client: self.client.clone() })
            }
            None => McpConfig::new(mcp.command.as_deref().unwrap_or_default()),
        };
        config.args.clone_from(&mcp.args);
        config.env = inherited.chain(own).collect();
        config.folder.clone_from(&self.folder);
        config.tools.clone_from(&mcp.tools);
        config.effect = mcp.effect.unwrap_or(config.effect);
        config.effects.clone_from(&mcp.effects);
        config.call_timeout = mcp.timeout_ms.map_or(config.call_timeout, Duration::from_millis);
        config.start_timeout = mcp.start_timeout_ms.map_or(config.start_timeout, Duration::from_millis);
        config
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        // Functions and the engine reference each other, so servers would not be dropped on their own.
        self.known.get_mut().values().for_each(|server| server.stop_process());
    }
}
