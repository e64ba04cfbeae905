//! MCP servers as functions: the tool `add` of the server `calc` is the function `calc::add`.
//!
//! A server is a configured program, or a URL (`remote`). A program is started on first use, once for all calls, and
//! again after it died (`connection`, `process`). `result` converts results to values. Whatever a server sends is data, never
//! an instruction.

mod connection;
pub(crate) mod error;
mod process;
mod remote;
mod result;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::effect::{Arguments, Payload, PromptArgument};
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::EffectContext;
use parking_lot::Mutex;

use crate::egress::HostPort;
use crate::error::ToolError;
use crate::secrets::{Destination, Requester, SecretEncoding, SecretError, Secrets, UsedSecrets};
use connection::McpConnection;
use error::{CallError, ConnectError, McpError};
use process::ServerProcess;
pub use remote::RemoteServer;

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct McpConfig {
    /// The program.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// The program's complete environment.
    pub env: Vec<(String, Rich)>,
    /// Working folder of the program.
    pub folder: PathBuf,
    /// URL of a server that is not a program on this machine; the fields above are ignored then.
    pub remote: Option<RemoteServer>,
    /// Prefixes of the names of tools that may be used; `None` allows all.
    pub tools: Option<Vec<String>>,
    /// Effect class of its tools.
    pub effect: EffectClass,
    /// Effect classes of single tools.
    pub effects: BTreeMap<String, EffectClass>,
    /// Timeout until the server has listed its tools.
    pub start_timeout: Duration,
    /// Timeout of one call.
    pub call_timeout: Duration,
}

impl McpConfig {
    /// A program without further settings.
    pub fn new(command: impl Into<String>) -> McpConfig {
        McpConfig {
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            folder: PathBuf::new(),
            remote: None,
            tools: None,
            effect: EffectClass::AtMostOnce,
            effects: BTreeMap::new(),
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(300),
        }
    }

    /// A server at a URL, without further settings.
    pub fn for_remote(remote: RemoteServer) -> McpConfig {
        McpConfig { remote: Some(remote), ..McpConfig::new(String::new()) }
    }

    fn is_allowed(&self, tool: &str) -> bool {
        let allowed = |prefix: &String| !prefix.is_empty() && tool.starts_with(prefix.as_str());
        self.tools.as_ref().is_none_or(|prefixes| prefixes.iter().any(allowed))
    }
}

/// A server and, once it is used, its process.
pub struct McpServer {
    name: String,
    config: McpConfig,
    secrets: Arc<dyn Secrets>,
    /// Locked while the server is being started, so that it is started once.
    live: tokio::sync::Mutex<Option<Arc<McpConnection>>>,
    /// The newest process, including one that is being started.
    process: Mutex<Option<Arc<ServerProcess>>>,
}

impl McpServer {
    /// A server that is not started yet.
    pub fn new(name: impl Into<String>, config: McpConfig, secrets: Arc<dyn Secrets>) -> McpServer {
        let live = tokio::sync::Mutex::new(None);
        McpServer { name: name.into(), config, secrets, live, process: Mutex::new(None) }
    }

    /// Name of the server: the part before `::` in the ids of its functions.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tools that may be used, as the server declares them. Starts the server if necessary. Fails if the server
    /// cannot be started or does not answer in time.
    pub async fn list_tools(&self) -> Result<Vec<ToolDeclaration>, ToolError> {
        let live = self.ensure_connected().await?;
        Ok(live.tools.iter().filter(|tool| self.config.is_allowed(&tool.name)).cloned().collect())
    }

    /// Stops its process, if it has one.
    pub fn stop_process(&self) {
        if let Some(process) = self.process.lock().take() {
            process.kill_group();
        }
    }

    /// Effect class of `tool`.
    pub fn effect_class(&self, tool: &str) -> EffectClass {
        self.config.effects.get(tool).copied().unwrap_or(self.config.effect)
    }

    /// Calls a tool. Dropping the future cancels the call on the server. Fails if the server cannot be started, if it
    /// has no such tool, if an argument needs a secret that may not be used, or if the call fails or takes too long.
    pub async fn call_tool(&self, tool: &str, payload: &Payload, context: &EffectContext) -> Result<Value, ToolError> {
        let live = self.ensure_connected().await?;
        let declared = live.tools.iter().find(|known| known.name == tool && self.config.is_allowed(tool));
        let declared = declared.ok_or_else(|| self.unknown_tool(tool, &live))?;
        let place = self.config.remote.as_ref().and_then(RemoteServer::host_port);
        let mut used = UsedSecrets::new(&*self.secrets, destination_of(place.as_ref()));
        let arguments = resolve_arguments(payload, declared, &mut used, Requester::Definition(&context.definition))?;
        let called = tokio::time::timeout(self.config.call_timeout, live.call_tool(tool, arguments)).await;
        let called =
            called.unwrap_or_else(|_| Err(CallError::Timeout { limit_ms: self.config.call_timeout.as_millis() }));
        let value = called.and_then(|called| result::result_to_value(called, |text| used.redact_reply(text)));
        Ok(value.map_err(|error| McpError::CallFailed {
            server: self.name.clone(),
            tool: tool.to_owned(),
            error: used.redact_error(error),
            can_repeat: self.effect_class(tool) == EffectClass::AtLeastOnce,
        })?)
    }

    fn unknown_tool(&self, tool: &str, live: &McpConnection) -> McpError {
        let names: Vec<&str> =
            live.tools.iter().map(|tool| tool.name.as_str()).filter(|name| self.config.is_allowed(name)).collect();
        McpError::UnknownTool {
            server: self.name.clone(),
            tool: tool.to_owned(),
            is_declared: live.tools.iter().any(|known| known.name == tool),
            similar: find_similar_name(tool, names.iter().copied()).map(str::to_owned),
            allowed: names.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The running server; it is started or connected if necessary.
    async fn ensure_connected(&self) -> Result<Arc<McpConnection>, McpError> {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| live.is_up()) {
            return Ok(live.clone());
        }
        *slot = None;
        let place = self.config.remote.as_ref().and_then(RemoteServer::host_port);
        let mut used = UsedSecrets::new(&*self.secrets, destination_of(place.as_ref()));
        let connected = match &self.config.remote {
            Some(remote) => remote.open_connection(&mut used, self.config.start_timeout).await,
            None => {
                let fill = |(name, value): &(String, Rich)| {
                    Ok((name.clone(), used.fill_text(value, SecretEncoding::Plain, Requester::Configuration)?))
                };
                let env: Vec<_> = self.config.env.iter().map(fill).collect::<Result<_, SecretError>>()?;
                self.start_process(&env).await
            }
        };
        match connected {
            Ok(live) => Ok(slot.insert(Arc::new(live)).clone()),
            Err(error) => Err(McpError::CannotConnect { server: self.name.clone(), error: used.redact_error(error) }),
        }
    }

    /// Starts the program and connects to it. A previous process is killed.
    async fn start_process(&self, env: &[(String, String)]) -> Result<McpConnection, ConnectError> {
        let (process, pipes) = ServerProcess::start_program(&self.config, env).await?;
        let process = Arc::new(process);
        let before = self.process.lock().replace(process.clone());
        if let Some(before) = before {
            before.kill_group();
        }
        let limit = self.config.start_timeout;
        let connected = tokio::time::timeout(limit, McpConnection::connect_process(process.clone(), pipes)).await;
        let late = || {
            let timeout = ConnectError::Timeout { limit_ms: limit.as_millis() };
            Err(timeout.with_last_line(process.last_stderr_line()))
        };
        connected.unwrap_or_else(|_| late()).inspect_err(|_| process.kill_group())
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.stop_process();
    }
}

/// Where the secrets of a server go: to its host, or to a program of this machine.
fn destination_of(place: Option<&HostPort>) -> Destination<'_> {
    place.map_or(Destination::Machine, Destination::Host)
}

/// The arguments of a call. A prompt without other arguments becomes the first argument that the tool requires, and
/// variables become those that it declares.
fn resolve_arguments(
    payload: &Payload,
    tool: &ToolDeclaration,
    used: &mut UsedSecrets<'_>,
    requester: Requester<'_>,
) -> Result<Map, SecretError> {
    let required = tool.parameters.get("required").and_then(Value::as_list).unwrap_or_default();
    let arguments = payload.read_arguments(required.first().and_then(Value::as_str).unwrap_or("input"));
    // Fails for a secret that may not be used, and records the others.
    match &arguments {
        Arguments::Values(_) | Arguments::Variables(_) => {}
        Arguments::Marked(marked) => {
            let mut all = Rich::default();
            marked.marks.names().iter().for_each(|name| all.push_secret(name));
            used.fill_text(&all, SecretEncoding::Plain, requester)?;
        }
        Arguments::Object(text) | Arguments::Prompt(PromptArgument { text, .. }) => {
            used.fill_text(text, SecretEncoding::Plain, requester)?;
        }
    }
    let filled = arguments.fill_secrets(|name| used.value_of(name).unwrap_or_default().to_owned());
    Ok(match &arguments {
        Arguments::Variables(_) => keep_declared(filled, None, tool),
        Arguments::Prompt(prompt) => keep_declared(filled, Some(&prompt.name), tool),
        Arguments::Values(_) | Arguments::Marked(_) | Arguments::Object(_) => filled,
    })
}

/// The arguments without the variables that the tool does not declare. `prompt` is the name of an argument that is kept.
fn keep_declared(all: Map, prompt: Option<&str>, tool: &ToolDeclaration) -> Map {
    let declared = tool.parameters.get("properties").and_then(Value::as_map);
    let is_declared = |name: &str| declared.is_some_and(|declared| declared.contains_key(name));
    all.into_iter().filter(|(name, _)| prompt == Some(&**name) || is_declared(name)).collect()
}
