//! MCP servers as functions: the tool `add` of the server `calc` is the function `calc::add`.
//!
//! A server is a configured program, or a URL (`remote`). A program is started on first use, once for all calls, and
//! again after it died (`live`, `process`). `result` converts results to values. Whatever a server sends is data, never
//! an instruction.

mod live;
mod process;
mod remote;
mod result;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::did_you_mean;
use flowloom_core::effect::{Arguments, Payload};
use flowloom_core::error::StepError;
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Rich;
use flowloom_core::value::{Map, Value};

use crate::secrets::{Secrets, Used, Writing};
use live::Live;
use process::Process;
pub use remote::Remote;

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
    pub remote: Option<Remote>,
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
    pub fn at(remote: Remote) -> McpConfig {
        McpConfig { remote: Some(remote), ..McpConfig::new(String::new()) }
    }

    fn allows(&self, tool: &str) -> bool {
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
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
    /// The newest process, including one that is being started.
    process: Mutex<Option<Arc<Process>>>,
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

    /// The tools that may be used, as the server declares them. Starts the server if necessary. Fails with `McpFailed`.
    pub async fn tools(&self) -> Result<Vec<ToolDeclaration>, StepError> {
        let live = self.live().await?;
        Ok(live.tools.iter().filter(|tool| self.config.allows(&tool.name)).cloned().collect())
    }

    /// Stops its process, if it has one.
    pub fn stop(&self) {
        if let Some(process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).take() {
            process.kill();
        }
    }

    /// Effect class of `tool`.
    pub fn class(&self, tool: &str) -> EffectClass {
        self.config.effects.get(tool).copied().unwrap_or(self.config.effect)
    }

    /// Calls a tool. Dropping the future cancels the call on the server. Fails with `FunctionUnknown`, `McpFailed`, or
    /// the tool's own `FunctionFailed`.
    pub async fn call(&self, tool: &str, payload: &Payload) -> Result<Value, StepError> {
        let live = self.live().await?;
        let declared = live.tools.iter().find(|known| known.name == tool && self.config.allows(tool));
        let declared = declared.ok_or_else(|| self.unknown(tool, &live))?;
        let mut used = Used::new(&*self.secrets);
        let arguments = arguments(payload, declared, &mut used)?;
        let called = tokio::time::timeout(self.config.call_timeout, live.call(tool, arguments)).await;
        let called = called.unwrap_or_else(|_| {
            let limit = self.config.call_timeout.as_millis();
            Err(StepError::passing(Code::McpFailed, format!("it did not answer within {limit} ms")))
        });
        let tell = |error: StepError| StepError {
            message: used.redact(&format!("{}::{tool}: {}", self.name, error.message)),
            // A call that may have taken effect is not retried automatically.
            retry: if self.class(tool) == EffectClass::AtLeastOnce { error.retry } else { Default::default() },
            ..error
        };
        called.and_then(|called| result::value(called, |text| used.redact_reply(text))).map_err(tell)
    }

    fn unknown(&self, tool: &str, live: &Live) -> StepError {
        let names: Vec<&str> =
            live.tools.iter().map(|tool| tool.name.as_str()).filter(|name| self.config.allows(name)).collect();
        let name = &self.name;
        let hint = match did_you_mean(tool, names.iter().copied()) {
            Some(near) => format!("did you mean {name}::{near}?"),
            None => format!("its tools are {}", names.join(", ")),
        };
        let is_there = live.tools.iter().any(|known| known.name == tool);
        let problem = if is_there { "is not in the configured list of tools" } else { "does not exist" };
        let message = format!("the tool {tool} of the MCP server {name} {problem}; {hint}");
        StepError::new(Code::FunctionUnknown, message)
    }

    /// The running server; it is started or connected if necessary.
    async fn live(&self) -> Result<Arc<Live>, StepError> {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| live.is_up()) {
            return Ok(live.clone());
        }
        *slot = None;
        let mut used = Used::new(&*self.secrets);
        let tell = |used: &Used<'_>, message: String| {
            let message = format!("the MCP server {} cannot be used: {message}", self.name);
            StepError::passing(Code::McpFailed, used.redact(&message))
        };
        if let Some(remote) = &self.config.remote {
            let live = remote.live(&mut used, self.config.start_timeout).await;
            return match live {
                Ok(live) => Ok(slot.insert(Arc::new(live)).clone()),
                Err(error) => Err(StepError { code: error.code, ..tell(&used, error.message) }),
            };
        }
        let fill = |(name, value): &(String, Rich)| Ok((name.clone(), used.fill(value, Writing::Plain)?));
        let env: Vec<(String, String)> = self.config.env.iter().map(fill).collect::<Result<_, StepError>>()?;
        let (process, pipes) = Process::start(&self.config, &env).map_err(|message| tell(&used, message))?;
        let process = Arc::new(process);
        let before = self.process.lock().unwrap_or_else(PoisonError::into_inner).replace(process.clone());
        if let Some(before) = before {
            before.kill();
        }
        let connected = tokio::time::timeout(self.config.start_timeout, Live::connect(process.clone(), pipes)).await;
        let limit = self.config.start_timeout.as_millis();
        let late = || Err(format!("it was not ready within {limit} ms{}", process.last_words()));
        match connected.unwrap_or_else(|_| late()) {
            Ok(live) => Ok(slot.insert(Arc::new(live)).clone()),
            Err(message) => {
                process.kill();
                Err(tell(&used, message))
            }
        }
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The arguments of a call. A prompt without other arguments becomes the first argument that the tool requires.
fn arguments(payload: &Payload, tool: &ToolDeclaration, used: &mut Used<'_>) -> Result<Map, StepError> {
    let required = tool.parameters.get("required").and_then(Value::as_list).unwrap_or_default();
    let arguments = payload.arguments(required.first().and_then(Value::as_str).unwrap_or("input"));
    if let Arguments::Object(text) | Arguments::Single(_, text) = &arguments {
        // Fails for a secret that is not set, and records the others.
        used.fill(text, Writing::Plain)?;
    }
    Ok(arguments.fill(|name| used.value(name).unwrap_or_default().to_owned()))
}
