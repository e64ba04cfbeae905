//! The configured MCP servers: their tools for the compiler and the function registry, and their processes, one per
//! server for the life of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::did_you_mean;
use flowloom_core::error::StepError;
use flowloom_formats::{Approval, ToolServer};
use flowloom_tools::secrets::read_text;
use flowloom_tools::{HttpClient, McpConfig, McpServer, Remote, Secrets};

use crate::config::{Config, Mcp, NeedsApproval};
use crate::flows::Flows;

/// Tools available to models that are not part of the definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offered {
    /// Tool lists of MCP servers, by server name.
    pub(crate) servers: Declared,
    /// The workflows available to an agent; `None` if the definition is not an agent, or before they are loaded.
    pub(crate) flows: Option<Flows>,
}

/// Tool declarations by server name.
pub(crate) type Declared = BTreeMap<String, Vec<ToolDeclaration>>;

/// Environment variables that server processes inherit.
const INHERITED: [&str; 2] = ["PATH", "HOME"];

/// Namespaces of built-in functions, which servers may not use as names.
const TAKEN: [&str; 6] = ["agent", "flow", "human", "memory", "tool", "workflow"];

/// The MCP servers that this program has used. They are stopped when this is dropped.
pub(crate) struct Servers {
    folder: PathBuf,
    secrets: Arc<dyn Secrets>,
    /// HTTP client for servers with a URL.
    client: Arc<HttpClient>,
    /// Servers by name and settings, because a run keeps the settings it was created with.
    known: Mutex<BTreeMap<String, Arc<McpServer>>>,
}

impl Servers {
    pub(crate) fn new(config: &Config, secrets: Arc<dyn Secrets>, client: Arc<HttpClient>) -> Servers {
        Servers { folder: config.base(), secrets, client, known: Mutex::default() }
    }

    /// The server with this name and settings. This does not start it.
    pub(crate) fn get(&self, name: &str, mcp: &Mcp) -> Arc<McpServer> {
        let settings = serde_json::to_string(mcp).unwrap_or_default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(McpServer::new(name, self.config(mcp), self.secrets.clone()));
        known.entry(format!("{name} {settings}")).or_insert_with(make).clone()
    }

    /// Queries a server for its tools. Fails with `ConfigInvalid` if a setting names a tool that the server lacks: a
    /// typo in `needs_approval` would silently skip approvals.
    pub(crate) async fn ask(&self, name: &str, mcp: &Mcp) -> Result<Vec<ToolDeclaration>, StepError> {
        let tools = self.get(name, mcp).tools().await?;
        let approved = match &mcp.needs_approval {
            Some(NeedsApproval::Tools(tools)) => tools.as_slice(),
            _ => &[],
        };
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let named = approved.iter().map(|tool| ("needs_approval", tool));
        for (key, tool) in named.chain(mcp.effects.keys().map(|tool| ("effects", tool))) {
            if !names.contains(&tool.as_str()) {
                let near = did_you_mean(tool, names.iter().copied());
                let hint = near.map_or_else(
                    || format!("expected one of {}", names.join(", ")),
                    |near| format!("did you mean {near}?"),
                );
                let message = format!("[mcp.{name}] {key}: the server has no tool {tool}; {hint}");
                return Err(StepError::new(Code::ConfigInvalid, message));
            }
        }
        Ok(tools)
    }

    /// Queries several servers for their tools.
    pub(crate) async fn offered(&self, config: &Config, names: &[String]) -> Result<Offered, StepError> {
        let mut servers = Declared::new();
        for (name, mcp) in config.mcp.iter().filter(|(name, _)| names.contains(name)) {
            servers.insert(name.clone(), self.ask(name, mcp).await?);
        }
        Ok(Offered { servers, flows: None })
    }

    fn config(&self, mcp: &Mcp) -> McpConfig {
        let inherited = INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let inherited = inherited.map(|(name, value)| (name, value.as_str().into()));
        let own = mcp.env.iter().map(|(name, value)| (name.clone(), read_text(value)));
        let mut config = match &mcp.url {
            Some(url) => {
                let headers = mcp.headers.iter().map(|(name, value)| (name.clone(), read_text(value))).collect();
                McpConfig::at(Remote { url: url.clone(), headers, client: self.client.clone() })
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

impl Drop for Servers {
    fn drop(&mut self) {
        // Functions and the engine reference each other, so servers would not be dropped on their own.
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        known.values().for_each(|server| server.stop());
    }
}

/// The servers in the form the compiler needs.
pub(crate) fn described(mcp: &BTreeMap<String, Mcp>, offered: &Declared) -> Vec<ToolServer> {
    let approval = |mcp: &Mcp| match &mcp.needs_approval {
        Some(NeedsApproval::All(true)) => Approval::Always,
        Some(NeedsApproval::Tools(tools)) => Approval::Of(tools.clone()),
        Some(NeedsApproval::All(false)) | None => Approval::Never,
    };
    let server = |(name, mcp): (&String, &Mcp)| ToolServer {
        name: name.clone(),
        tools: offered.get(name).cloned(),
        approval: approval(mcp),
    };
    mcp.iter().map(server).collect()
}

/// Validates server names and settings. Fails with `ConfigInvalid`.
pub(crate) fn check(mcp: &BTreeMap<String, Mcp>) -> Result<(), StepError> {
    for (name, server) in mcp {
        let is_started = !server.args.is_empty() || !server.env.is_empty();
        let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let problem = match TAKEN.contains(&name.as_str()) {
            true => "is a namespace of built-in functions; choose another",
            false if !is_plain => "is not a valid server name: use letters, digits, _ and -",
            false if server.command.is_some() == server.url.is_some() => "needs either a command or a url",
            false if server.url.is_some() && is_started => "has a url; args and env are for a command",
            false if server.command.is_some() && !server.headers.is_empty() => "has a command; headers are for a url",
            false => continue,
        };
        return Err(StepError::new(Code::ConfigInvalid, format!("[mcp.{name:?}] {problem}")));
    }
    Ok(())
}
